"""Which of many drawn problems are measured: those that leave no other far from all that is measured. Pure.

Few problems that are drawn by chance lie close together here and leave gaps there, and what is the fastest in a gap is
not found. So many are drawn, and those of them are measured that bring all others near to one that is measured: by
octaves of their sizes, and by how many times two divides them, which decides how wide accesses are. One problem is
added after the other, always the one that brings most (Cornuejols, Fisher and Nemhauser, 1977), so the first of them
are spread by themselves. One in four lies outside the sizes, and any first part of them has such as well: time may end.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Pairs, Problem
from pretuned.tune.selection.sampling import REACH, draw
from pretuned.tune.selection.terms import Reals

POOL: Final = 4  # problems are drawn for one that is measured
OUTSIDE: Final = 4  # one in so many problems is drawn outside the sizes
TWOS: Final = 0.3  # octaves, for each power of two that divides one size and not the other
MOST_TWOS: Final = 6  # powers of two: a multiple of more than 64 elements is handled alike
_DIGITS: Final = 9  # of a sum, so that its order does not decide between equals


def drawn_around(
    spec: KernelSpec,
    specialisation: Pairs,
    count: int,
    seed: int,
    beside: Sequence[Problem],
    calls: Mapping[Problem, int],
) -> list[Problem]:
    """Return distinct problems inside and outside the sizes of `spec`, alternating so that any first part has both.

    Those that are not called leave none far from them or from those `beside`. Around the only size of a dim, both
    ranges overlap.
    """
    of_outside = count // OUTSIDE
    pool = draw(spec, specialisation, POOL * of_outside, seed, reach=REACH, without=calls)
    outside = spread(pool, of_outside, beside)
    of_inside = count - len(outside)
    if calls:
        inside = draw(spec, specialisation, of_inside, seed, calls=calls, without=outside)
    else:
        pool = draw(spec, specialisation, POOL * of_inside, seed, without=outside)
        inside = spread(pool, of_inside, beside)
    return alternating(inside, outside)


def alternating(inside: Sequence[Problem], outside: Sequence[Problem]) -> list[Problem]:
    """Return all problems, one of `outside` behind each OUTSIDE - 1 of `inside` while there are any."""
    found, left = [], list(outside)
    for place, problem in enumerate(inside):
        found.append(problem)
        if place % (OUTSIDE - 1) == OUTSIDE - 2 and left:
            found.append(left.pop(0))
    return [*found, *left]


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


def telling(problems: Sequence[Problem], count: int) -> list[Problem]:
    """Return `count` of `problems` whose sizes are multiples of as many different powers of two as can be.

    Which accesses a kernel makes, and where it goes wrong, depends on that.
    """
    found: list[Problem] = []
    seen: set[tuple[str, int]] = set()
    while len(found) < min(count, len(problems)):
        best = max((p for p in problems if p not in found), key=lambda p: len(_powers(p) - seen))
        found.append(best)
        seen |= _powers(best)
    return found


def _powers(problem: Problem) -> set[tuple[str, int]]:
    return {(name, min(int(size) & -int(size), 2**MOST_TWOS)) for name, size in problem.dims}
