"""What a tuning reports while it runs: plain events, and where its time goes."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pretuned.outcome import Failure
from pretuned.record.courses import HeldOut
from pretuned.record.rows import Row, Skipped
from pretuned.record.selections import Certificate
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.tune.prospects import Searched


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Another tuning uses the device; this one waits for its end, but no longer than `patience_s`."""

    device: str
    patience_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What is ahead: rows to settle, configurations to choose from, sources to compile at most, estimated seconds.

    `spent_s` of these seconds have passed already; `device` is the one that is tuned for.
    """

    kernels: int
    rows: int
    configurations: int
    sources: int
    seconds: float
    budget_s: float | None
    spent_s: float = 0.0
    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiling:
    """`sources` of a kernel go to the compiler."""

    kernel: str
    sources: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesCompiled:
    """Of the `asked` sources that went to the compilers so far, `done` came back; `workers` compile at once at most."""

    done: int
    asked: int
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """The rows of a kernel are being tuned, `problem` first; `done` of `rows` are settled.

    `seconds` are what the kernel's specialisation is expected to take.
    """

    kernel: str
    problem: Problem
    candidates: int
    done: int
    rows: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatesScreened:
    """Some more candidates were screened at `problem`, one of so many `problems` at which all of them are.

    `seen` of the `wanted` candidates have been timed there or have failed. `best` is the fastest so far, None where all
    have failed; times are in microseconds a call, and `default_us` is None until the default is timed.
    """

    kernel: str
    problem: Problem
    problems: int
    seen: int
    wanted: int
    best: Configuration | None
    best_us: float
    default_us: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AtProblem:
    """A `stage` of a kernel's tuning has come to `problem`; `done` of its `problems` are behind it."""

    kernel: str
    stage: str
    problem: Problem
    done: int
    problems: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Racing:
    """Candidates race at `problem`: those that are left, each with the microseconds that a call is expected to take.

    `place` is 0 for a race, and counts the places of a duel from 1.
    """

    kernel: str
    problem: Problem
    contenders: tuple[tuple[Configuration, float], ...]
    default: Configuration
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A candidate failed at a problem; tuning goes on."""

    kernel: str
    configuration: Configuration
    problem: Problem
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A row is settled; `cached` if an earlier build had settled it."""

    row: Row
    cached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A problem was left out."""

    entry: Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Noisy:
    """Something other than the candidates changed their times, which are taken again; `attempt` counts from 1."""

    kernel: str
    problem: Problem
    reason: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ByNumpy:
    """References of a kernel are computed by NumPy, for a `reason`, though its spec names a `gpu-reference`."""

    kernel: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedReference:
    """A kernel's reference is rounded as coarsely as its results; `text` says which and what to write."""

    kernel: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """So many `candidates` were faster than the default at the first place of their duel, but not at others."""

    kernel: str
    problem: Problem
    candidates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refining:
    """The certificate of a selection says more than `max_loss`: its problems are fitted too, and others certify anew.

    `attempt` counts from 1.
    """

    kernel: str
    specialisation: Pairs
    certificate: Certificate
    max_loss: float
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """The certificate that a selection ends with; `cached` if an earlier build had settled it.

    `attempts`: how often it was refined. `spent`: the budget ended before it could be refined until `max_loss` held.
    `hurried`: the budget ended before half of the problems of the trial, so the margins are the widest. `held_out` are
    the problems that it was made from; none of one that is `cached`.
    """

    kernel: str
    specialisation: Pairs
    certificate: Certificate
    attempts: int = 0
    spent: bool = False
    hurried: bool = False
    cached: bool = False
    held_out: tuple[HeldOut, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfBudget:
    """The budget is spent, and `rows` rows were not reached."""

    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """So many units of work for a kind of device are shared among `workers`; None where nobody knows how many.

    They have so many `rows`, and one device is expected to take so many `seconds`. `budget_s` is that of all of them
    together, None without one.
    """

    device: str
    units: int
    workers: int | None
    rows: int = 0
    seconds: float = 0.0
    budget_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSettled:
    """`worker` has settled a unit of work for a kind of device, which was expected to take `seconds`.

    Without `seconds` it has measured rows of another worker again.
    """

    device: str
    worker: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAgain:
    """A unit of work on a kernel was lost, for a `reason`, and is given to a worker again; `attempt` counts from 1."""

    kernel: str
    reason: str
    attempt: int
    specialisation: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRefused:
    """What a worker found for a kernel was refused, and it gets nothing more where that can be."""

    worker: str
    kernel: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDevice:
    """What a tuning on one of several devices reports; `device` tells them apart."""

    device: str
    event: Event


Event = (
    Waiting
    | Planned
    | Compiling
    | SourcesCompiled
    | Measuring
    | CandidatesScreened
    | AtProblem
    | Racing
    | Failed
    | Noisy
    | ByNumpy
    | RoundedReference
    | Unconfirmed
    | Decided
    | Passed
    | Refining
    | Certified
    | OutOfBudget
    | Shared
    | UnitSettled
    | GivenAgain
    | AnswerRefused
    | OnDevice
)
Listener = Callable[[Event], None]


def is_of_a_part(event: Event) -> bool:
    """Whether an event plans what one of several devices does next: a part of what is tuned."""
    return isinstance(event, OnDevice) and isinstance(innermost(event), Planned)


def innermost(event: Event) -> Event:
    """Return what happened, without the device on which it did."""
    while isinstance(event, OnDevice):
        event = event.event
    return event


@dataclass(slots=True)
class Spending:
    """Where time went and what was done.

    `seconds`: by stage; they add up to what was spent. The time of an inner stage does not count for the outer one,
    and what no stage took is `overhead`.
    `by_kernel`: the same for each kernel; "" has what belongs to no kernel.
    `device_s`: the seconds that candidates ran on the device.
    `compiled`: sources; `launched`: candidates that were timed or verified, and races.
    `confirmed`: rows whose winner was faster than the default at all places of its duel but one at most;
    `unconfirmed`: candidates that were so at the first place and then lost.
    `searched`: the searches that ended, and what more of each is expected to gain.
    `pruned`: candidates that were not launched, by the reason; `failed`: those that failed, by kind and problem.
    """

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    by_kernel: defaultdict[str, defaultdict[str, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    kernel: str = ""  # whose seconds are counted now
    device_s: float = 0.0
    compiled: int = 0
    launched: int = 0
    confirmed: int = 0
    unconfirmed: int = 0
    searched: list[Searched] = field(default_factory=list)
    pruned: Counter[str] = field(default_factory=Counter)
    failed: Counter[type[Failure]] = field(default_factory=Counter)
    _inner_s: float = 0.0  # of the stages inside the one that runs

    def longest(self) -> list[tuple[str, float]]:
        """Return the stages with their seconds, the longest first."""
        return sorted(self.seconds.items(), key=lambda item: -item[1])

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a block to stage `name`."""
        started = time.perf_counter()
        outer, self._inner_s = self._inner_s, 0.0
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self._count(name, spent - self._inner_s)
            self._inner_s = outer + spent

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Count to `overhead` what the stages of a block leave of its time."""
        started, before = time.perf_counter(), sum(self.seconds.values())
        try:
            yield
        finally:
            staged = sum(self.seconds.values()) - before
            self.kernel = ""
            self._count("overhead", time.perf_counter() - started - staged)

    def move(self, stage: str, to: str, seconds: float) -> None:
        """Count seconds of `stage`, which is running or over, to another one."""
        self._count(stage, -seconds)
        self._count(to, seconds)

    def _count(self, stage: str, seconds: float) -> None:
        self.seconds[stage] += seconds
        self.by_kernel[self.kernel][stage] += seconds
