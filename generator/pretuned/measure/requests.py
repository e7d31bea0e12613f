"""The protocol between tuning and the process in which candidates run: plain data, pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pretuned.outcome import Failure, Outcome
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Problem

PROBE_LAUNCHES: Final = 2  # the fewest calls in a sample: they tell how many it takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A configuration with its compiled module: a cubin, or a shared library for the host."""

    configuration: Configuration
    image: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Take the machine `index`, of GPUs CUDA's ordinal; answered by `Opened` or `Trouble`."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The device is ready; `facts` are what expressions may ask of it."""

    facts: DeviceFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Make inputs, reference and buffers for `problem`; answered by `Ready`, `TooLarge` or `Trouble`.

    `default` gives the reference where the spec names none, and where `trust_default` is set: references run on the
    host, which takes too long for problems far beyond the sizes. Another `seed` gives other inputs.
    """

    spec: KernelSpec
    problem: Problem
    default: Entry
    seed: int = 0
    trust_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The problem is ready; everything that follows is about it, until the next `Prepare`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge:
    """The problem does not fit into the machine's free memory."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The author's own code or the device failed, not a candidate; tuning cannot go on."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Run `entry` once and judge what it wrote; answered by `Verified`."""

    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """`failure` is None for a right result; `error` the largest error as a share of the tolerance."""

    failure: Failure | None
    error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Verify `entry`, then time it with a few samples; answered by `Screened`."""

    entry: Entry
    samples: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """The outcome, and the seconds that verifying and timing took."""

    outcome: Outcome
    verify_s: float
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Time `entries`, all verified before, in interleaved rounds, and judge what they left; answered by `Raced`."""

    entries: tuple[Entry, ...]
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """Samples in microseconds a call, by entry and round, and what was wrong with what each left behind."""

    times_us: tuple[tuple[float, ...], ...]
    failures: tuple[Failure | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The candidate left the machine unusable; the process ends after this answer."""

    message: str


Request = Open | Prepare | Verify | Screen | Race
Answer = Opened | Ready | TooLarge | Trouble | Verified | Screened | Raced | Lost
