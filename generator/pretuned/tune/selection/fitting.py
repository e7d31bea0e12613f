"""Costs: the non-negative sum of few terms that comes nearest to what a configuration was measured to take. Pure.

Errors are relative: an error of 1% counts the same at a problem of 2 us and at one of 2 ms. Coefficients are not
negative, as none of the terms saves time, and with that constraint alone few of many terms are taken: each pair of
terms that could only fit noise by cancelling each other is out. The algorithm adds the term that reduces the error most
until that gains nothing, or until there are as many as people still read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pretuned.record.selections import Cost
from pretuned.tune.selection.terms import ProblemTable, Reals, Term

FEMTOSECONDS: Final = 10**9  # of a microsecond
KIBI: Final = 1024
COARSE: Final = 1000  # femtoseconds, below which rounding to a whole number shows
MOST_TERMS: Final = 14  # of a cost: what people still read, and what a call still computes in a microsecond
COMPETITIVE: Final = 0.7  # of the best time; what a configuration takes longer by that counts half
_GAIN: Final = 1e-3  # what a further term must correlate with what is left, as a share of all
_RIDGE: Final = 1e-4  # of a term's own square: chooses between terms that say the same


def fit(terms: Sequence[Term], problems: ProblemTable, times_us: Reals, best_us: Reals) -> Cost:
    """Return the cost of a configuration that took `times_us` at each problem, where the fastest took `best_us`.

    A time is nan where it did not run; with no other the cost is empty. A problem counts by how near to the fastest it
    came there: how much too slow it is where it will never be chosen decides nothing. A term is not used that has no
    value at one of the problems, or that a call could not compute.
    """
    timed = np.isfinite(times_us)
    if not timed.any():
        return ()
    counts = 1 / (1 + (times_us[timed] / best_us[timed] - 1) / COMPETITIVE)
    terms = [term for term in terms if term.text]
    matrix = problems.matrix(tuple(terms))[timed]
    usable = np.flatnonzero((matrix >= 0).all(axis=0) & (matrix > 0).any(axis=0))  # nan is neither
    weights = nonnegative(matrix[:, usable] * (counts / times_us[timed])[:, None], counts, most=MOST_TERMS)
    found: dict[str, int] = {}
    for place in np.flatnonzero(weights):
        term, femtoseconds = _in_femtoseconds(terms[usable[place]], float(weights[place]))
        if femtoseconds > 0:
            found[term.text] = found.get(term.text, 0) + femtoseconds
    return tuple(sorted(found.items()))


def _in_femtoseconds(term: Term, weight_us: float) -> tuple[Term, int]:
    """Return a term with a whole number of femtoseconds; what takes too few of them is counted by the thousand."""
    divisor = 1
    while 0 < weight_us * divisor * FEMTOSECONDS < COARSE and divisor < COARSE**4:
        divisor *= KIBI
    return replace(term, divisor=divisor), round(weight_us * divisor * FEMTOSECONDS)


def nonnegative(matrix: Reals, target: Reals, *, most: int, ridge: float = _RIDGE) -> Reals:
    """Return the x >= 0 with at most `most` positive entries that makes `matrix @ x` come near to `target`.

    Active sets after Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23, on the normal equations of
    columns of length 1; it ends early where a further column would gain too little.
    """
    lengths = np.sqrt((matrix**2).sum(axis=0))
    scaled = matrix / np.where(lengths == 0, np.inf, lengths)
    gram, wanted = scaled.T @ scaled, scaled.T @ target
    least = _GAIN * math.sqrt(len(target))
    solution = np.zeros(matrix.shape[1])
    active: list[int] = []
    barred: set[int] = set()  # what was added and fell out again at once
    while len(active) < most:
        gradient = wanted - gram @ solution
        gradient[[*active, *barred]] = -np.inf
        best = int(gradient.argmax())
        if not gradient[best] > least:
            break
        active.append(best)
        solution, active = _settled(gram, wanted, solution, active, ridge)
        if best not in active:
            barred.add(best)
    found: Reals = solution / np.where(lengths == 0, np.inf, lengths)
    return found


def _settled(gram: Reals, wanted: Reals, solution: Reals, active: list[int], ridge: float) -> tuple[Reals, list[int]]:
    """Return the solution of the active columns, less those that would become negative on the way to it."""
    while active:
        chosen = np.array(active)
        best = np.linalg.solve(gram[np.ix_(chosen, chosen)] + ridge * np.eye(len(chosen)), wanted[chosen])
        old = solution[chosen]
        solution = np.zeros_like(solution)
        if best.min() > 0:
            solution[chosen] = best
            break
        falling = best <= 0
        step = float(np.min(old[falling] / np.maximum(old[falling] - best[falling], np.finfo(float).tiny)))
        moved = old + step * (best - old)
        stays = (moved > 0) & ~(falling & (moved <= moved[falling].min()))
        solution[chosen[stays]] = moved[stays]
        active = [index for index, kept in zip(active, stays, strict=True) if kept]
    return solution, active


def prediction(cost: Cost, problems: ProblemTable) -> Reals:
    """Return the microseconds that `cost` predicts at each problem, nan where a term has no value."""
    total = np.zeros(problems.size)
    for text, femtoseconds in cost:
        total = total + femtoseconds * problems.quantity(text)
    predicted: Reals = total / FEMTOSECONDS if cost else np.full(problems.size, np.nan)
    return predicted
