"""The protocol between tuning and the process in which candidates run: plain data, pickled.

Every request has one answer, but for `ScreenRequest`, which has one for each entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from pretuned.compile.result import Binary
from pretuned.measure.rounds import Rule, RunAll
from pretuned.outcome import Failure, Outcome
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Problem

PROBE_LAUNCHES: Final = 2  # the fewest calls in a sample


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCandidate:
    """A configuration with its compiled module: a cubin, or a shared library for the host.

    `digest` is the SHA-256 of the image, by which a process knows it again: it gets an image once, b"" from then on.
    Both are empty for a library call, which has no module: the spec says what is called.
    """

    configuration: Configuration
    image: bytes = field(repr=False)
    digest: str

    @classmethod
    def of(cls, configuration: Configuration, binary: Binary) -> Self:
        """Return the entry of a compiled configuration."""
        return cls(configuration=configuration, image=binary.image, digest=binary.digest)

    @classmethod
    def of_call(cls, configuration: Configuration) -> Self:
        """Return the entry of a library call."""
        return cls(configuration=configuration, image=b"", digest="")

    @property
    def is_call(self) -> bool:
        """Whether a library is called."""
        return not self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """Take the machine `index`, of GPUs CUDA's ordinal; answered by `Opened` or `Trouble`.

    So many `processes` share it, of which each keeps a part of its memory.
    """

    index: int
    processes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The device is ready; `facts` are what expressions may ask of it."""

    facts: DeviceFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest:
    """Make `problem` the one that all that follows is about; answered by `Ready`, `TooLarge` or `Trouble`.

    Problems stay prepared while the machine's memory holds them, so that coming back to one costs nothing. `default`
    gives the reference where the spec names none, and where `trust_default` is set: references run on the host, which
    takes too long for problems far beyond the sizes. Another `seed` gives other inputs; where no reference is asked
    for, nothing is judged, and any inputs that the problem is prepared with will do. What judges needs the reference,
    for which the answer waits where it is asked for `now`; `soon` has it made while other requests are answered, where
    NumPy makes it. With `by_numpy` it does so whatever the spec names.
    """

    spec: KernelSpec
    problem: Problem
    default: CompiledCandidate
    seed: int = 0
    trust_default: bool = False
    reference: Literal["none", "soon", "now"] = "now"
    by_numpy: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """What tells apart what is prepared of one spec's text."""
        return self.spec.name, self.problem, self.seed, self.trust_default

    @property
    def by_default(self) -> bool:
        """Whether the default makes the reference."""
        return self.trust_default or self.spec.verify.reference is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The problem is ready; `notes` say why NumPy computes references though the spec names a `gpu_reference`.

    `remarks` are kernels, prepared now or before, with what to know of their references.
    """

    notes: tuple[str, ...] = ()
    remarks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge:
    """The problem does not fit into the machine's free memory; `passing` where it does once others free theirs."""

    reason: str
    passing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The author's own code or the device failed, not a candidate; tuning cannot go on."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """Run `entry` once and judge what it wrote; answered by `Verified`."""

    entry: CompiledCandidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """`failure` is None for a right result; `error` the largest error as a share of the tolerance."""

    failure: Failure | None
    error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenRequest:
    """Time each of `entries` with a few calls; answered by one `Screened` for each, the moment it is known.

    With `verify` each is judged before and after it is timed; without, it must have been before. One that is clearly
    slower than `best_us`, microseconds, is not timed any further.
    """

    entries: tuple[CompiledCandidate, ...]
    verify: bool = True
    best_us: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """The outcome, and where the seconds went: loading and verifying on the host, `device_s` running on the device."""

    outcome: Outcome
    load_s: float = 0.0
    verify_s: float = 0.0
    device_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRequest:
    """Time `entries`, all screened before, in interleaved rounds; answered by `Raced`.

    `estimates_us` is what a call of each is expected to take, in microseconds. `rounds` is the most of them; a race
    ends as soon as its `rule` is satisfied (see `pretuned.measure.rounds`). With `judge`, each entry then runs on every
    set time and again, and each result is judged. Another `place` has the buffers in other memory and at
    other distances from each other, with the same inputs.
    """

    entries: tuple[CompiledCandidate, ...]
    estimates_us: tuple[float, ...]
    rounds: int
    rule: Rule = field(default_factory=RunAll)
    judge: bool = False
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """Samples in microseconds a call, by entry and round, and what was wrong with what each left behind.

    An entry that was cut has fewer samples than the others. `canary_us` is what a fixed kernel took before and after,
    which shows whether the clocks held. `device_s` are the seconds that candidates ran.
    """

    times_us: tuple[tuple[float, ...], ...]
    failures: tuple[Failure | None, ...]
    canary_us: tuple[float, float] = (0.0, 0.0)
    device_s: float = 0.0

    @classmethod
    def not_begun(cls, request: RaceRequest, index: int, failure: Failure) -> Self:
        """Return the answer to a race that could not begin because of the entry at `index`."""
        failures = [failure if place == index else None for place in range(len(request.entries))]
        return cls(times_us=((),) * len(failures), failures=tuple(failures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The candidate left the machine unusable; the process ends after this answer."""

    message: str


Request = OpenRequest | PrepareRequest | VerifyRequest | ScreenRequest | RaceRequest
Answer = Opened | Ready | TooLarge | Trouble | Verified | Screened | Raced | Lost
