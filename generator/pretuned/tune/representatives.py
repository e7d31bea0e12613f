"""Which problems are searched, and what their times say about the problems between them. Pure.

A kernel's best configurations change slowly with its sizes. So all candidates are screened at a few *representative*
problems that lie far from each other, and where most of the others' legal configurations are legal as well. At every
other problem, only those are screened that did well around it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from pretuned.spec.space import Problem

FEW: Final = 4  # problems, all of which are representatives
COVERED: Final = 0.5  # of a problem's legal configurations, the share that is legal at a representative, at least
NEAREST: Final = 0.25  # squared distance, in octaves, added to every distance: it keeps weights finite
BESTS: Final = 2  # of each measured problem, that are tried whatever is expected of them

C = TypeVar("C")
Times = Mapping[C, float]  # microseconds; math.inf for a failure


def representatives(
    problems: Sequence[Problem], legal: Mapping[Problem, NDArray[np.bool_]] | None = None
) -> list[Problem]:
    """Return some of `problems` that lie far from each other: the smallest, the largest, then the farthest from all.

    Their number is the square root of the number of problems, but at least FEW. Where `legal` says, by problem, which
    configurations of one list are legal, problems follow that the others say little about: of whose configurations
    less than COVERED is legal at any of those before, the one with the most others first.
    """
    chosen = _far_apart(problems)
    if legal is None:
        return chosen
    left = [problem for problem in problems if problem not in chosen]
    while left:
        covered = np.logical_or.reduce([legal[problem] for problem in chosen])
        missing = {problem: int(np.count_nonzero(legal[problem] & ~covered)) for problem in left}
        left = [p for p in left if missing[p] > (1 - COVERED) * np.count_nonzero(legal[p])]
        if left:
            chosen.append(max(left, key=missing.__getitem__))
            left.remove(chosen[-1])
    return chosen


def _far_apart(problems: Sequence[Problem]) -> list[Problem]:
    wanted = max(FEW, math.isqrt(len(problems) - 1) + 1) if problems else 0
    if len(problems) <= wanted:
        return list(problems)
    chosen = [min(problems, key=_volume), max(problems, key=_volume)]
    while len(chosen) < wanted:
        chosen.append(max(problems, key=lambda problem: min(distance(problem, other) for other in chosen)))
    return chosen


def distance(one: Problem, other: Problem) -> float:
    """Return the squared distance of two problems of one specialisation, in octaves of their dims."""
    return sum((a - b) ** 2 for a, b in zip(_octaves(one), _octaves(other), strict=True))


def promising(
    measured: Mapping[Problem, Times[C]],
    problem: Problem,
    count: int,
    legal: Callable[[C], bool] = lambda _candidate: True,
) -> list[C]:
    """Return the `count` candidates that should do best at `problem`, and then the best of each measured problem.

    A candidate's slowdown against the best at a problem is interpolated over the problems where it was timed, by the
    inverse of their squared distance: that favours candidates that do well everywhere. The best of any measured problem
    may be the best here too, however slow it is elsewhere. Candidates that failed anywhere, that were timed nowhere, or
    that are not `legal` are left out.
    """
    weighed: dict[C, tuple[float, float]] = {}
    failed = set()
    for other, times in measured.items():
        best = min(times.values(), default=math.inf)
        if math.isinf(best):
            continue
        weight = 1.0 / (distance(problem, other) + NEAREST)
        for candidate, time_us in times.items():
            if math.isinf(time_us):
                failed.add(candidate)
                continue
            total, weights = weighed.get(candidate, (0.0, 0.0))
            weighed[candidate] = total + weight * math.log(time_us / best), weights + weight
    able = {c: total / weights for c, (total, weights) in weighed.items() if c not in failed and legal(c)}
    expected = heapq.nsmallest(count, able, key=able.__getitem__)
    bests: list[C] = []
    for other in sorted(measured, key=lambda other: distance(problem, other)):
        times = measured[other]
        bests += heapq.nsmallest(BESTS, (c for c in times if c in able), key=times.__getitem__)
    return list(dict.fromkeys([*expected, *bests]))


def _octaves(problem: Problem) -> list[float]:
    return [math.log2(max(1, int(size))) for _, size in problem.dims]


def _volume(problem: Problem) -> float:
    return sum(_octaves(problem))
