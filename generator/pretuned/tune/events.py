"""What a tuning reports while it runs: plain events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pretuned.outcome import Failure
from pretuned.record.courses import HeldOut
from pretuned.record.rows import Row, Skipped
from pretuned.record.selections import Certificate
from pretuned.spec.space import Configuration, Pairs, Problem


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
class RemarkedReference:
    """A kernel's reference does not see some errors; `text` says which and what to write."""

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

    `attempts`: how often it was refined. `spent`: the budget ended before it could be refined as often as it needed.
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
    | RemarkedReference
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
