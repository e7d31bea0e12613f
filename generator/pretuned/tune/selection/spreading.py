"""Which of many drawn problems are measured: those that leave no other far from all that is measured. Pure.

Few problems that are drawn by chance lie close together here and leave gaps there, and what is the fastest in a gap is
not found. So many are drawn, and those of them are measured that bring all others near to one that is measured: by
octaves of their sizes, and by how many times two divides them, which decides how wide accesses are. One problem is
added after the other, always the one that brings most (Cornuejols, Fisher and Nemhauser, 1977), so the first of them
are spread by themselves.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from pretuned.spec.space import Problem
from pretuned.tune.selection.terms import Reals

POOL: Final = 4  # problems are drawn for one that is measured
TWOS: Final = 0.3  # octaves, for each power of two that divides one size and not the other
MOST_TWOS: Final = 6  # powers of two: a multiple of more than 64 elements is handled alike
_DIGITS: Final = 9  # of a sum, so that its order does not decide between equals


def spread(pool: Sequence[Problem], count: int, beside: Sequence[Problem] = ()) -> list[Problem]:
    """Return `count` of `pool`, or all where it has fewer, in the order in which they bring the others nearest.

    `beside` are problems that are measured anyway.
    """
    if not pool:
        return []
    places, near = _places(pool), np.full(len(pool), np.inf)
    apart = _apart(places, places)
    if beside:
        near = _apart(places, _places(beside)).min(axis=1)
    near = np.minimum(near, apart.max() + 1)  # finite where nothing is measured yet
    # What one brings never grows while others are added, so what it brought before bounds it (Minoux, 1978).
    bounds = [(-_brought(near, apart[place]), place) for place in range(len(pool))]
    heapq.heapify(bounds)
    found: list[int] = []
    while bounds and len(found) < count:
        _, place = heapq.heappop(bounds)
        now = (-_brought(near, apart[place]), place)
        if bounds and now > bounds[0]:
            heapq.heappush(bounds, now)
            continue
        found.append(place)
        near = np.minimum(near, apart[place])
    return [pool[place] for place in found]


def _brought(near: Reals, apart: Reals) -> float:
    return round(float((near - np.minimum(near, apart)).sum()), _DIGITS)


def _places(problems: Sequence[Problem]) -> Reals:
    return np.array([[part for _, size in problem.dims for part in _place(int(size))] for problem in problems])


def _place(size: int) -> tuple[float, float]:
    twos = (size & -size).bit_length() - 1
    return math.log2(max(1, size)), TWOS * min(max(0, twos), MOST_TWOS)


def _apart(some: Reals, others: Reals) -> Reals:
    distances: Reals = np.sqrt(((some[:, None, :] - others[None]) ** 2).sum(axis=2))
    return distances
