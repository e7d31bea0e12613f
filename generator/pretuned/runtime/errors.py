"""What can go wrong in a call, each kind also an error of Python's own that fits."""

from __future__ import annotations

import sys
import warnings

from . import KERNELS, PACKAGE, PretunedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


SHOWN = 80  # characters of a value


class ArgumentTypeError(PretunedError, TypeError):
    """An argument is of the wrong kind: no array on a GPU, another dtype, no number."""


class ArgumentError(PretunedError, ValueError):
    """An argument is of the right kind and cannot be used: shape, layout, device, range, overlap."""


class OverrideError(PretunedError, ValueError):
    """An environment variable, or `using`, asks for what this package does not have."""


class UnavailableError(PretunedError, RuntimeError):
    """A GPU, its driver, or a library that a call needs is missing."""


class LoadError(PretunedError, RuntimeError):
    """No shipped binary runs on this device, and its source could not be compiled."""


class LaunchError(PretunedError, RuntimeError):
    """The driver refused a launch: often an earlier kernel of the process has failed, which shows only now."""


class CaptureError(PretunedError, RuntimeError):
    """A call under graph capture needs what cannot be done there; `prepare()` or a first call outside does it."""


class UntunedError(PretunedError, RuntimeError):
    """PRETUNED_STRICT is set and no measured row answers for the call."""


class UntunedWarning(UserWarning):
    """Nothing was measured for this device: defaults run."""


class RecompiledWarning(UserWarning):
    """A kernel had to be compiled while the program runs."""


def qualified(name: str) -> str:
    """Return the kernel's name as messages give it: package and function."""
    return f"{PACKAGE}.{name}"


def shown(value: object) -> str:
    """Return a value as messages give it: what Python writes for it, cut short."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python cares to write
        return f"a huge {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def closest(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for the known name nearest to `name`, or an empty string."""
    from difflib import get_close_matches  # noqa: PLC0415 - needed for an error alone, and slow to import

    matches = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean '{matches[0]}'?" if matches else ""


def no_kernel(name: str) -> str:
    """Return the message for a kernel that this package lacks."""
    return f"{PACKAGE} has no kernel '{name}'{closest(name, KERNELS)}; it has {', '.join(sorted(KERNELS))}"


def warn(message: str, category: type[Warning]) -> None:
    """Warn in the name of whoever called into this package, however deep the warning arises."""
    level, frame = 1, sys._getframe(0)  # noqa: SLF001 - the one way before Python 3.12 to skip a package's frames
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(f"{PACKAGE}."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
