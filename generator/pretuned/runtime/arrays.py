"""What holds of a call's arrays whatever its problem: which of them leads, device, leading dimensions, overlaps."""

from __future__ import annotations

import math

from .adapters import ArrayView, view
from .errors import ArgumentError, qualified
from .remedies import another, instead
from .strides import collapsed, interleaving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .table import Array, Foreign, Kernel


def leading_input(arrays: Sequence[Array]) -> int:
    """Return the place of the first input that every call brings; of the first array, where there is none."""
    present = [place for place, array in enumerate(arrays) if not array.optional]
    return next((place for place in present if arrays[place].role != "out"), present[0] if present else 0)


def views_of(kernel: Kernel, places: Sequence[str], arrays: Sequence[Foreign], stream: int) -> list[ArrayView | None]:
    """Return a call's arrays as launches on a stream see them; None for what is left out and may be.

    Raises ArgumentError for one that is not C-contiguous, unless the spec names strides of it.
    """
    found: list[ArrayView | None] = []
    for one, place, array in zip(kernel.arrays, places, arrays, strict=True):
        if array is None and (one.role == "out" or one.optional):
            found.append(None)
            continue
        seen = view(place, array, stream, written=one.role != "in")
        if seen.strides is not None and not one.strides:
            raise ArgumentError(
                f"{place}: expected a C-contiguous array, found strides {seen.strides} in bytes for shape "
                f"{seen.shape}; {instead(kernel, one, seen)}"
            )
        found.append(seen)
    return found


def collapse(
    kernel: Kernel, views: Sequence[ArrayView | None]
) -> tuple[tuple[int, ...] | None, Sequence[ArrayView | None]]:
    """Return the leading dimensions that arrays share whose number is not fixed, and views that have their product.

    They are None where the call brings no such array: then there is one. Raises ArgumentError where they
    differ, or where an array has too few.
    """
    shared: tuple[int, ...] | None = None
    found, first = list(views), ""
    for place in sorted(range(len(views)), key=lambda place: kernel.arrays[place].role == "out"):  # inputs first
        array, view = kernel.arrays[place], views[place]
        if view is None or array.trailing is None:
            continue
        count = len(view.shape) - array.trailing
        leading, trailing = view.shape[: max(0, count)], view.shape[max(0, count) :]
        if count < 0:
            several = "" if array.trailing == 1 else "s"
            raise ArgumentError(
                f"{qualified(kernel.name)}: {array.name}: expected at least {array.trailing} dimension{several} "
                f"{array.text}, found {len(view.shape)}: {view.shape}"
            )
        if shared is not None and leading != shared:
            raise ArgumentError(
                f"{qualified(kernel.name)}: {array.name}: expected the leading dimensions {shared} of {first}, "
                f"found {leading} in shape {view.shape}"
            )
        shared, first = leading, first or array.name
        shape = (math.prod(leading), *trailing)
        strides = collapsed(kernel, array, view, count)
        found[place] = ArrayView(view.address, view.dtype, shape, view.device, view.nbytes, view.owner, strides)
    return shared, found


def same_device(kernel: Kernel, views: Sequence[ArrayView | None], lead: int, otherwise: int) -> int:
    """Return the device of all arrays, or `otherwise` where there is none; raises ArgumentError where they differ.

    Where the array that leads is there, the others have to be on its device.
    """
    given = [(array.name, seen.device) for array, seen in zip(kernel.arrays, views, strict=True) if seen is not None]
    if not given:
        return otherwise
    leading = views[lead]
    first, device = given[0] if leading is None else (kernel.arrays[lead].name, leading.device)
    for name, found in given:
        if found != device:
            raise ArgumentError(
                f"{qualified(kernel.name)}: {name}: expected device {device} as {first} has, found device {found}"
            )
    return device


def refuse_overlaps(kernel: Kernel, views: Sequence[ArrayView]) -> None:
    """Raise ArgumentError where an array that is written shares memory with another argument.

    An output may be exactly an input that it names in `in_place`, whose dtype and shape are the same.
    """
    for index, (array, written) in enumerate(zip(kernel.arrays, views, strict=True)):
        if array.role == "in":
            continue
        begin, end = written.address, written.address + written.nbytes
        for place, (other, seen) in enumerate(zip(kernel.arrays, views, strict=True)):
            if place == index or end <= seen.address or seen.address + seen.nbytes <= begin:
                continue
            if not written.nbytes or not seen.nbytes:
                continue
            if written.strides is not None or seen.strides is not None:
                pitch, least, most = interleaving(written, seen)
                if least <= (seen.address - begin) % pitch <= most:
                    continue
            if other.name not in array.in_place:
                demand = "an array that is written must not overlap another argument"
                remedy = f"; {_other_memory(kernel, array, other)}"
            elif begin != seen.address:
                demand, remedy = f"it has to be all of {other.name}, or to lie apart from it", ""
            else:
                continue
            raise ArgumentError(
                f"{qualified(kernel.name)}: {array.name}: shares memory with {other.name}, and {demand}{remedy}"
            )


def _other_memory(kernel: Kernel, written: Array, other: Array) -> str:
    """Return what to pass instead of one of two arrays that share memory."""
    output = next((one for one in (written, other) if one.role == "out"), None)
    return f"pass a copy of {other.name}" if output is None else another(kernel, output)
