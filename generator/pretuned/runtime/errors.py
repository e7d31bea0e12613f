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
    listed = "; ".join(sorted({described(one.implementation, one.configuration) for one in shipped}))
    asked = described(implementation or "main", values)
    alike = [one for one in shipped if implementation in {None, one.implementation}]
    if alike and (wrong := _misnamed(values, alike) or _of_another_type(values, alike)):
        return OverrideError(f"{by}: {PACKAGE}.{kernel.name}: {wrong}; it ships {listed}")
    return OverrideError(
        f"{by}: {PACKAGE}.{kernel.name} does not ship {asked}; it ships {listed}. "
        f"To ship another, {shipping(kernel, implementation, values)}"
    )


def _misnamed(values: Values, shipped: Sequence[ShippedConfiguration]) -> str:
    """Return what is wrong with the names of a configuration, or an empty string."""
    complete = [list(one.configuration) for one in shipped]
    if any(set(names) == set(values) for names in complete):
        return ""
    names = max(complete, key=lambda names: len(set(names) & set(values)))
    if unknown := [name for name in values if name not in names]:
        return f"there is no parameter {unknown[0]!r}, but {', '.join(names)}"
    missing = ", ".join(name for name in names if name not in values)
    return f"a configuration names every parameter, and {missing} is missing"


def _of_another_type(values: Values, shipped: Sequence[ShippedConfiguration]) -> str:
    """Return which value looks like one that ships and is of another type, or an empty string."""
    for one in shipped:
        if {name: str(value) for name, value in values.items()} == {n: str(v) for n, v in one.configuration.items()}:
            name = next(name for name in values if type(values[name]) is not type(one.configuration[name]))
            return f"{name}: expected {one.configuration[name]!r}, found {values[name]!r}"
    return ""


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
