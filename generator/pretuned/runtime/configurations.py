"""Configurations as people write and read them, held against what ships."""

from __future__ import annotations

from . import PACKAGE
from .errors import OverrideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Kernel, Shipped, Values

    Wanted = tuple[str | None, Values]  # implementation or None for any, configuration


def fits(wanted: Wanted, shipped: Shipped) -> bool:
    """Return whether what ships is what was asked for; without a name, of any implementation."""
    implementation, values = wanted
    return implementation in {None, shipped[1]} and same(values, shipped[2])


def same(left: Values, right: Values) -> bool:
    """Return whether two configurations agree, a bool being no integer."""
    return left == right and all(type(value) is type(right[name]) for name, value in left.items())


def not_shipped(kernel: Kernel, wanted: Wanted, shipped: tuple[Shipped, ...], by: str) -> OverrideError:
    """Return the error for a configuration that was asked for and is not in the package."""
    implementation, values = wanted
    listed = sorted({describe(entry[1], entry[2]) for entry in shipped})
    asked = describe(implementation or "main", values)
    plain = ",".join(f"{name}={_text(value)}" for name, value in sorted(values.items()))
    named = f"implementation={implementation}," if implementation not in {None, "main"} else ""
    return OverrideError(
        f"{by}: {PACKAGE}.{kernel.name} does not ship {asked}; it ships {'; '.join(listed)}. "
        f"To ship another, build with `pretuned bake --with {kernel.name}:{named}{plain}`"
    )


def describe(implementation: str, values: Values) -> str:
    """Return `block=256, vec=1`, after the implementation's name where it has one."""
    text = ", ".join(f"{name}={_text(value)}" for name, value in sorted(values.items()))
    return (
        (text or "no parameters")
        if implementation == "main"
        else f"{implementation}: {text}"
        if text
        else implementation
    )


def _text(value: int | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
