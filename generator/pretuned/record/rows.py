"""The rows of the table: what tuning found, what the lock keeps, and what the bake writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from pretuned.config import Effort, is_backend
from pretuned.render import Source
from pretuned.spec.space import Configuration, Pairs, Problem


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TunedDevice:
    """A device as a row knows it. `architecture` is `sm_90`; memory_gbps in GB/s and power_w in W by its own limits.

    What is not a GPU is named after its backend, as is its architecture: `host`. Its rows say nothing about a GPU.
    """

    name: str
    sm_count: int
    compute_capability: int
    l2_bytes: int
    shared_bytes: int
    memory_bytes: int
    memory_gbps: int
    power_w: int

    @property
    def architecture(self) -> str:
        """The compiler's name of the real architecture."""
        return f"sm_{self.compute_capability}" if self.is_gpu else self.name

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU, whose rows are baked unasked."""
        return not is_backend(self.name)

    @property
    def qualified_name(self) -> str:
        """What rows call it where another device goes by its plain name: a partition of the same GPU, say."""
        return f"{self.name} ({self.sm_count} SMs)"

    def is_same_as(self, other: TunedDevice) -> bool:
        """Return whether both go by one name in rows, which may differ in limits and sizes of memory."""
        return (self.sm_count, self.compute_capability) == (other.sm_count, other.compute_capability)

    def architecture_of(self, source: Source) -> str:
        """Return what to compile `source` for: `sm_90`, or `sm_90a` where it asks for what only that one has."""
        return self.architecture + ("a" if source.arch_specific and self.is_gpu else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One ranked configuration of a row.

    `candidate` is the key of what was measured and `cubin` the digest of what ran; of a library call it is empty, and
    `library` says whose function ran, with its version (`cupy 14.2.0`). `time_us` is a call's device time;
    `ratio` the 95% interval of this time over the default's in the final duel (low, high), (1, 1) for the default
    itself. `spread_us` are the 10th, 50th and 90th percentile of the duel's samples, None where they were not kept.
    """

    configuration: Configuration
    candidate: str
    cubin: str
    time_us: float
    ratio: tuple[float, float]
    library: str = ""
    spread_us: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What to run at one problem on one device: choices from the fastest on, the default last.

    `problem` is what was measured; `space` and `verification` are digests of what the row was chosen from (empty where
    the budget ended the search early) and judged by; `compiler` is NVRTC's version, `driver` the driver's, `date` the
    day (UTC, ISO 8601). `noise` says why its times are noisy, and is empty if they are not. `headers` has the digests
    of the project's own headers that its sources include, by name. `effort` is how thoroughly it was tuned for, empty
    for `default`.
    """

    kernel: str
    device: str
    problem: Problem
    choices: tuple[Choice, ...]
    space: str
    verification: str
    compiler: str
    driver: str
    date: str
    noise: str = ""
    headers: Pairs = ()
    effort: str = ""

    @property
    def specialisation(self) -> Pairs:
        """The exact part of the row's key."""
        return self.problem.specialisation

    @property
    def winner(self) -> Choice:
        """The choice that runs wherever its guards hold."""
        return self.choices[0]

    @property
    def default(self) -> Choice:
        """The author's default, measured in the same duel."""
        return self.choices[-1]


def rank_of_effort(effort: str) -> int:
    """Return the place of a row's or selection's effort among all, from the least on."""
    return get_args(Effort).index(effort or "default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A problem that was not measured on a device, and why; the nearest measured row answers for it."""

    kernel: str
    device: str
    problem: Problem
    reason: str

    @property
    def key(self) -> tuple[str, str, Problem]:
        """What it stands for, as a row's key."""
        return self.kernel, self.device, self.problem
