"""The arrays of a call in the source of the fast path: which of them decide the problem, and how they are returned."""

from __future__ import annotations

from ..table import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..table import Kernel


def deciding(kernel: Kernel, there: Sequence[int]) -> list[int]:
    """Return the places of the arrays that decide the problem, of those that are `there`.

    They are those that dims and types are read from. Where there are lists they are all that a call has to bring, since
    each array of a list has an extent of its own.
    """
    arrays = kernel.arrays
    if kernel.lists:
        return [i for i in there if arrays[i].role != "out" and (arrays[i].whole or not arrays[i].optional)]
    names = [array.name for array in arrays]
    found = {names.index(place[0]) for place in kernel.dims.values() if place}
    for name in kernel.types:
        typed = [i for i in there if arrays[i].dtype == name and arrays[i].role != "out" and not arrays[i].optional]
        if not found & set(typed):
            found.add(typed[0])
    return sorted(found)


def results_of(kernel: Kernel, there: Sequence[int]) -> list[str]:
    """Return what a call returns: arrays by their places, those of a list as a list."""
    return list(_results(kernel, there))


def _results(kernel: Kernel, there: Sequence[int]) -> Iterator[str]:
    place = 0
    for argument in kernel.arguments:
        if isinstance(argument, Array):
            places = range(place, place + (len(argument.members) or 1))
            place = places.stop
            if argument.role != "in":
                names = ", ".join(f"a{i}" for i in places if i in there)
                yield f"[{names}]" if argument.count else names
