"""Which of the problems that were measured is nearest to another, by the ratios of their sizes."""

from __future__ import annotations

import math
from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    Sizes = tuple[int, ...]  # of the dims of a problem, in one order


class MeasuredSizes:
    """The sizes of measured problems."""

    __slots__ = ("_axes", "_known")

    def __init__(self, known: Collection[Sizes]) -> None:
        self._known = known
        self._axes = [sorted(set(axis)) for axis in zip(*known, strict=True)]

    def nearest(self, sizes: Sizes) -> Sizes:
        """Return the sizes that are nearest, the smaller of equals.

        The nearest size of each dim makes the nearest problem, where just that one was measured.
        """
        found = tuple([_nearest(axis, size) for axis, size in zip(self._axes, sizes, strict=True)])
        if found in self._known:
            return found
        return min(self._known, key=lambda measured: (_apart(measured, sizes), measured))


def _nearest(axis: list[int], size: int) -> int:
    """Return which of sorted sizes is the nearest to another, by their ratio; the smaller of equals."""
    place = bisect_left(axis, size)
    if place in {0, len(axis)}:
        return axis[min(place, len(axis) - 1)]
    below, above = axis[place - 1], axis[place]
    return below if size * size <= max(1, below) * above else above


def _apart(measured: Sizes, sizes: Sizes) -> float:
    """Return how far two problems are apart: the length of the vector of the logarithms of their sizes' ratios."""
    return math.hypot(*[math.log(max(1, a) / max(1, b)) for a, b in zip(measured, sizes, strict=True)])
