"""What became of a candidate at a problem: one of six outcomes, matched with `match` and stored as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Verified and timed.

    `time_us` is the median over samples of one call's device time; `spread` their relative median absolute deviation.
    """

    time_us: float
    spread: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileError:
    """The compiler refused the module; `line` is the first error line of its log."""

    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFailed:
    """The driver refused the module or the launch: too many threads, too much shared memory, no such function."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongResult:
    """An argument came back wrong; `message` says which, where first, and how far off."""

    argument: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """The candidate did not answer within its limit, and its process was ended."""

    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The candidate ended its process or poisoned the CUDA context; `message` is the driver's or the exit status."""

    message: str


SCRATCH: Final = "scratch: "  # begins the message of a launch whose scratch cannot be had at a problem
Failure = CompileError | LaunchFailed | WrongResult | TimedOut | Crashed
Outcome = Timed | Failure

_KINDS: Final[dict[str, type[Any]]] = {
    "timed": Timed,
    "compile error": CompileError,
    "launch error": LaunchFailed,
    "wrong result": WrongResult,
    "timed out": TimedOut,
    "crashed": Crashed,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def kind(outcome: Outcome) -> str:
    """Return the outcome's name as the documentation gives it: `timed`, `wrong result`, ..."""
    return kind_of(type(outcome))


def kind_of(type_: type[Outcome]) -> str:
    """Return the name of a type of outcome."""
    return _NAMES[type_]


def detail(outcome: Outcome) -> str:
    """Return one line about the outcome, for people."""
    match outcome:
        case Timed(time_us=time_us):
            return f"{time_us:.2f} us"
        case CompileError(line=text) | LaunchFailed(message=text) | WrongResult(message=text) | Crashed(message=text):
            return text
        case TimedOut(limit_s=limit_s):
            return f"no answer within {limit_s:g} s"


def reworded(failure: Failure, reword: Callable[[str], str]) -> Failure:
    """Return a failure with its text as `reword` gives it."""
    match failure:
        case CompileError(line=text):
            return CompileError(line=reword(text))
        case LaunchFailed(message=text):
            return LaunchFailed(message=reword(text))
        case WrongResult(argument=argument, message=text):
            return WrongResult(argument=argument, message=reword(text))
        case Crashed(message=text):
            return Crashed(message=reword(text))
        case TimedOut():
            return failure


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as plain data."""
    return {"outcome": kind(outcome), **asdict(outcome)}


def from_json(data: dict[str, Any]) -> Outcome:
    """Return the outcome that `to_json` wrote; raises KeyError or TypeError for other data."""
    fields = dict(data)
    outcome: Outcome = _KINDS[fields.pop("outcome")](**fields)
    return outcome
