"""What can go wrong in a call, each kind also an error of Python's own that fits."""

from __future__ import annotations

import sys
import warnings

from . import KERNELS, PACKAGE, PretunedError
from .text import no_such


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


def no_kernel(name: str) -> str:
    """Return the message for a kernel that this package lacks."""
    return no_such("kernel", name, KERNELS, of=PACKAGE)


def warn(message: str, category: type[Warning]) -> None:
    """Warn in the name of whoever called into this package, however deep the warning arises."""
    level, frame = 1, sys._getframe(0)  # noqa: SLF001 - the one way before Python 3.12 to skip a package's frames
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(f"{PACKAGE}."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
