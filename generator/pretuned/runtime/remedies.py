"""What a call may pass instead of an array that cannot be used as it is."""

from __future__ import annotations

from .adapters import adapter_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .adapters import ArrayView
    from .table import Array, Kernel

# By the adapter that owns an array: what copies it into a C-contiguous one, and what copies one that is that already.
CONTIGUOUS = {
    "cupy": "cupy.ascontiguousarray({name})",
    "torch": "{name}.contiguous()",
    "warp": "{name}.contiguous()",
}
ANEW = {"cupy": "{name}.copy()", "torch": "{name}.clone()", "warp": "warp.clone({name})"}


def copied(array: Array, view: ArrayView, ways: dict[str, str] = CONTIGUOUS) -> str:
    """Return how to copy an array, by the library that it is of."""
    owner = adapter_of(view.owner)
    way = ways.get(owner.name if owner is not None else "", "its library")
    return f"copy it with {way.format(name=array.name)}"


def instead(kernel: Kernel, array: Array, view: ArrayView, ways: dict[str, str] = CONTIGUOUS) -> str:
    """Return what to pass instead of an array: a copy of an input, and of an output another or none."""
    return another(kernel, array) if array.role == "out" else copied(array, view, ways)


def another(kernel: Kernel, output: Array) -> str:
    """Return what to pass instead of an output; one whose shape gives a dim cannot be left out."""
    tells = output.count or any(place and place[0] == output.name for place in kernel.dims.values())
    return f"pass another array as {output.name}{'' if tells else ', or none'}"
