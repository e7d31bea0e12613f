"""What can go wrong in a call. Each kind is also an error of Python's own that fits."""

from __future__ import annotations

import sys
import warnings

from .table import KERNELS, PACKAGE, PretunedError
from .text import described, no_such, spelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .records import ShippedConfiguration, Values
    from .table import Kernel


class ArgumentTypeError(PretunedError, TypeError):
    """An argument is of the wrong kind: not an array on a GPU, another dtype, not a number."""


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
    """PRETUNED_STRICT is set, and no row answers for the call, or one of a device that is not like the one at hand."""


class UntunedWarning(UserWarning):
    """Nothing was measured for this device: defaults run, or rows of a device that is not much like it."""


class RecompiledWarning(UserWarning):
    """A kernel had to be compiled while the program runs."""


def qualified(name: str) -> str:
    """Return the kernel's name as messages give it: package and function."""
    return f"{PACKAGE}.{name}"


def no_kernel(name: str) -> str:
    """Return the message for a kernel that this package lacks."""
    return no_such("kernel", name, KERNELS, of=PACKAGE)


def not_shipped(
    kernel: Kernel, wanted: tuple[str | None, Values], shipped: Sequence[ShippedConfiguration], by: str
) -> OverrideError:
    """Return the error for a configuration that was asked for and is not in the package."""
    implementation, values = wanted
    listed = sorted({described(one.implementation, one.configuration) for one in shipped})
    asked = described(implementation or "main", values)
    return OverrideError(
        f"{by}: {PACKAGE}.{kernel.name} does not ship {asked}; it ships {'; '.join(listed)}. "
        f"To ship another, {shipping(kernel, implementation, values)}"
    )


def shipping(kernel: Kernel, implementation: str | None, values: Values) -> str:
    """Return what to do for a package that ships a configuration."""
    named = {} if implementation in {None, "main"} else {"implementation": implementation}
    asked = ",".join(f"{name}={spelled(value)}" for name, value in [*named.items(), *sorted(values.items())])
    return f"build with `pretuned bake --with {kernel.name}:{asked}`"


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that called into this package, however deep the warning arises."""
    level, frame = 1, sys._getframe(0)  # noqa: SLF001 - the one way before Python 3.12 to skip a package's frames
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(f"{PACKAGE}."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
