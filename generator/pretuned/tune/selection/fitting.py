"""Costs: the non-negative sum of few terms that comes nearest to what a configuration was measured to take. Pure.

Errors are relative: an error of 1% counts the same at a problem of 2 us and at one of 2 ms. Coefficients are not
negative, as none of the terms saves time, and with that constraint alone few of many terms are taken: each pair of
terms that could only fit noise by cancelling each other is out. The algorithm adds the term that reduces the error most
until that gains nothing, or until there are as many as people still read.

Configurations of one implementation do the same, in tiles of other sizes. What matters to one of them matters to the
others, and is seen more surely in the times of all than in those of one: so the first terms are those whose *roles*
gain most in all of them (simultaneous orthogonal matching pursuit: J. Tropp, A. Gilbert and M. Strauss, 2006), each
with a weight of its own.
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
SHARED: Final = 8  # terms that all configurations of an implementation take, as far as each gains by them
MOST_TERMS: Final = 14  # of a cost: what people still read, and what a call still computes in a microsecond
COMPETITIVE: Final = 0.7  # of the best time; what a configuration takes longer by that counts half
_GAIN: Final = 1e-3  # what a further term must correlate with what is left, as a share of all
_RIDGE: Final = 1e-4  # of a term's own square: chooses between terms that say the same


def fit(terms: Sequence[Sequence[Term]], problems: ProblemTable, times_us: Reals, best_us: Reals) -> list[Cost]:
    """Return the costs of configurations of one implementation, each with its own terms.

    They took `times_us` (problems, configurations), where the fastest of all took `best_us`. A time is nan where one
    did not run; with no other its cost is empty. A problem counts by how near to the fastest a configuration came
    there: how much too slow it is where it will never be chosen decides nothing. A term is not used that has no value
    at one of the problems, or that a call could not compute.
    """
    fits = [
        _Fit(own, problems, times, best_us) if np.isfinite(times).any() else None
        for own, times in zip(terms, times_us.T, strict=True)
    ]
    _add_shared([one for one in fits if one is not None])
    for one in fits:
        if one is not None:
            one.squares.complete(MOST_TERMS)
    return [() if one is None else one.cost for one in fits]


def _add_shared(fits: Sequence[_Fit]) -> None:
    """Add up to SHARED terms to all fits, each the one whose role gains most in all of them together."""
    roles = {role: place for place, role in enumerate(dict.fromkeys(role for one in fits for role in one.roles))}
    places = [np.array([roles[role] for role in one.roles], dtype=np.int64) for one in fits]
    for _ in range(min(SHARED, len(roles))):
        gains = np.zeros(len(roles))
        for one, own in zip(fits, places, strict=True):
            gains[own] += np.maximum(one.squares.gains(), 0) ** 2
        best = int(gains.argmax())
        if not math.sqrt(gains[best] / len(fits)) > _GAIN:
            break
        for one, own in zip(fits, places, strict=True):
            column = int((own == best).argmax())
            if own[column] == best and one.squares.gains()[column] > 0:
                one.squares.add(column)


class _Fit:
    """The terms of one configuration that can be used, and the sum of squares of its relative errors."""

    def __init__(self, terms: Sequence[Term], problems: ProblemTable, times_us: Reals, best_us: Reals) -> None:
        timed = np.isfinite(times_us)
        counts = 1 / (1 + (times_us[timed] / best_us[timed] - 1) / COMPETITIVE)
        terms = [term for term in terms if term.text]
        matrix = problems.matrix(tuple(terms))[timed]
        usable = np.flatnonzero((matrix >= 0).all(axis=0) & (matrix > 0).any(axis=0))  # nan is neither
        self._terms = [terms[place] for place in usable]
        self.roles = [term.role or term.text for term in self._terms]
        self.squares = _Squares(matrix[:, usable] * (counts / times_us[timed])[:, None], counts)

    @property
    def cost(self) -> Cost:
        """The terms with their weights, in whole femtoseconds."""
        found: dict[str, int] = {}
        weights = self.squares.weights
        for place in np.flatnonzero(weights):
            term, femtoseconds = _in_femtoseconds(self._terms[place], float(weights[place]))
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
    """Return the x >= 0 with at most `most` positive entries that makes `matrix @ x` come near to `target`."""
    squares = _Squares(matrix, target, ridge)
    squares.complete(most)
    return squares.weights


class _Squares:
    """Non-negative least squares of few columns, which are added one after the other.

    Active sets after Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23, on the normal equations of
    columns of length 1.
    """

    def __init__(self, matrix: Reals, target: Reals, ridge: float = _RIDGE) -> None:
        lengths = np.sqrt((matrix**2).sum(axis=0))
        self._lengths = np.where(lengths == 0, np.inf, lengths)
        scaled = matrix / self._lengths
        self._gram, self._wanted, self._ridge = scaled.T @ scaled, scaled.T @ target, ridge
        self._unit = math.sqrt(len(target))
        self._solution = np.zeros(matrix.shape[1])
        self._active: list[int] = []
        self._barred: set[int] = set()  # what was added and fell out again at once

    @property
    def weights(self) -> Reals:
        """What each column is multiplied by."""
        found: Reals = self._solution / self._lengths
        return found

    def gains(self) -> Reals:
        """Return how each column correlates with what is left, as a share of all; -inf where it cannot be added."""
        gains: Reals = (self._wanted - self._gram @ self._solution) / self._unit
        gains[[*self._active, *self._barred]] = -np.inf
        return gains

    def add(self, column: int) -> None:
        """Add a column, and solve anew."""
        self._active.append(column)
        self._settle()
        if column not in self._active:
            self._barred.add(column)

    def complete(self, most: int) -> None:
        """Add the column that gains most until that gains too little, or there are as many as allowed."""
        while len(self._active) < min(most, len(self._solution)):
            gains = self.gains()
            best = int(gains.argmax())
            if not gains[best] > _GAIN:
                break
            self.add(best)

    def _settle(self) -> None:
        """Solve for the active columns, less those that would become negative on the way to it."""
        while self._active:
            chosen = np.array(self._active)
            damped = self._gram[np.ix_(chosen, chosen)] + self._ridge * np.eye(len(chosen))
            best = np.linalg.solve(damped, self._wanted[chosen])
            old = self._solution[chosen]
            self._solution = np.zeros_like(self._solution)
            if best.min() > 0:
                self._solution[chosen] = best
                return
            falling = best <= 0
            step = float(np.min(old[falling] / np.maximum(old[falling] - best[falling], np.finfo(float).tiny)))
            moved = old + step * (best - old)
            stays = (moved > 0) & ~(falling & (moved <= moved[falling].min()))
            self._solution[chosen[stays]] = moved[stays]
            self._active = [column for column, kept in zip(self._active, stays, strict=True) if kept]


def prediction(cost: Cost, problems: ProblemTable) -> Reals:
    """Return the microseconds that `cost` predicts at each problem, nan where a term has no value."""
    total = np.zeros(problems.size)
    for text, femtoseconds in cost:
        total = total + femtoseconds * problems.quantity(text)
    predicted: Reals = total / FEMTOSECONDS if cost else np.full(problems.size, np.nan)
    return predicted
