"""What holds of a call's arrays whatever its problem: which of them leads, device, leading dimensions, overlaps."""

from __future__ import annotations

import math

from .adapters import ArrayView
from .errors import ArgumentError, qualified
from .strides import collapsed, interleaving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .table import Array, Kernel


def leading_input(arrays: Sequence[Array]) -> int:
    """Return the place of the first input that every call brings; of the first array, where there is none."""
    present = [place for place, array in enumerate(arrays) if not array.optional]
    return next((place for place in present if arrays[place].role != "out"), present[0] if present else 0)


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


def same_device(kernel: Kernel, views: Sequence[ArrayView | None], otherwise: int) -> int:
    """Return the device of all arrays, or `otherwise` where there is none; raises ArgumentError where they differ."""
    first: tuple[str, int] | None = None
    for array, view in zip(kernel.arrays, views, strict=True):
        if view is None:
            continue
        if first is None:
            first = array.name, view.device
        elif view.device != first[1]:
            raise ArgumentError(
                f"{qualified(kernel.name)}: {array.name}: expected device {first[1]} as {first[0]} has, "
                f"found device {view.device}"
            )
    return otherwise if first is None else first[1]


def refuse_overlaps(kernel: Kernel, views: Sequence[ArrayView]) -> None:
    """Raise ArgumentError where an array that is written shares memory with another argument.

    An output may be exactly an input that it names in `in_place`, whose dtype and shape are the same.
    """
    for index, (array, view) in enumerate(zip(kernel.arrays, views, strict=True)):
        if array.role == "in":
            continue
        begin, end = view.address, view.address + view.nbytes
        for place, (other, seen) in enumerate(zip(kernel.arrays, views, strict=True)):
            if place == index or end <= seen.address or seen.address + seen.nbytes <= begin:
                continue
            if view.strides is not None and seen.strides is not None:
                pitch, least, most = interleaving(view, seen)
                if least <= (seen.address - begin) % pitch <= most:
                    continue
            whole = other.name in array.in_place
            if not (whole and begin == seen.address):
                demand = (
                    f"it has to be all of {other.name}, or to lie apart from it"
                    if whole
                    else "an array that is written must not overlap another argument"
                )
                raise ArgumentError(
                    f"{qualified(kernel.name)}: {array.name}: shares memory with {other.name}, and {demand}"
                )
