"""Costs: the non-negative sum of few terms that comes nearest to what a configuration was measured to take. Pure.

Errors are relative: an error of 1% counts the same at a problem of 2 us and at one of 2 ms. Coefficients are not
negative, as none of the terms saves time, and with that constraint alone few of many terms are taken: each pair of
terms that could only fit noise by cancelling each other is out. The algorithm adds the term that reduces the error most
until that gains nothing, or until there are as many as people still read.

Configurations of one implementation do the same, in tiles of other sizes. What matters to one of them matters to the
others, and is seen more surely in the times of all than in those of one: so the first terms are those whose *roles*
gain most in all of them (simultaneous orthogonal matching pursuit: J. Tropp, A. Gilbert and M. Strauss, 2006), each
with a weight of its own.

What a term takes under a condition is told from what it always takes only where problems with and without it were
measured. A cost in which a condition stands for the whole (`1 if rows % 4 else 0` for the launch itself) says next to
nothing of the problems where it does not hold. So a term with a condition has to gain several times as much as one
without as long as the same without its condition is not in the cost (heredity: H. Chipman, 1996).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
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
ORPHANED: Final = 0.3  # what counts of a conditional term's gain as long as the cost lacks the same without condition
_GAIN: Final = 1e-3  # what a further term must correlate with what is left, as a share of all
_RIDGE: Final = 1e-4  # of a term's own square: chooses between terms that say the same


def fit(terms: Sequence[Sequence[Term]], problems: ProblemTable, times_us: Reals, best_us: Reals) -> list[Cost]:
    """Return the costs of configurations of one implementation, each with its own terms.

    They took `times_us` (problems, configurations), where the fastest of all took `best_us`. A time is nan where one
    did not run; with no other its cost is empty. A problem counts by how near to the fastest a configuration came
    there: how much too slow it is where it will never be chosen decides nothing. A term is not used that has no value
    at one of the problems, or that a call could not compute.
    """
    columns = enumerate(zip(terms, times_us.T, strict=True))
    fits = {place: _Fit(own, problems, times, best_us) for place, (own, times) in columns if np.isfinite(times).any()}
    _add_shared(list(fits.values()))
    for one in fits.values():
        one.complete()
    return [fits[place].cost if place in fits else () for place in range(len(terms))]


def _add_shared(fits: Sequence[_Fit]) -> None:
    """Add up to SHARED terms to all fits, each the one whose role gains most in all of them together."""
    for _ in range(SHARED):
        gains = [one.gains() for one in fits]
        together: defaultdict[str, float] = defaultdict(float)
        for role, gain in itertools.chain.from_iterable(own.items() for own in gains):
            together[role] += gain**2
        best = max(together, key=together.__getitem__, default="")
        if not math.sqrt(together[best] / max(1, len(fits))) > _GAIN:
            break
        for one, own in zip(fits, gains, strict=True):
            if best in own:
                one.add(best)


class _Fit:
    """The terms of one configuration that can be used, and the sum of squares of its relative errors."""

    def __init__(self, terms: Sequence[Term], problems: ProblemTable, times_us: Reals, best_us: Reals) -> None:
        timed = np.isfinite(times_us)
        counts = 1 / (1 + (times_us[timed] / best_us[timed] - 1) / COMPETITIVE)
        terms = [term for term in terms if term.text]
        matrix = problems.matrix(tuple(terms))[timed]
        usable = np.flatnonzero((matrix >= 0).all(axis=0) & (matrix > 0).any(axis=0))  # nan is neither
        self._terms = [terms[place] for place in usable]
        self._roles = [term.role or term.text for term in self._terms]
        always = {(term.factors, term.divisor): place for place, term in enumerate(self._terms) if not term.where}
        parents = [always.get((term.factors, term.divisor), -1) if term.where else -1 for term in self._terms]
        relative = matrix[:, usable] * (counts / times_us[timed])[:, None]
        self._squares = NonNegativeSquares(relative, counts, parents=parents)

    def gains(self) -> dict[str, float]:
        """Return by role what each term gains that can be added, where that is anything."""
        return {role: gain for role, gain in zip(self._roles, self._squares.gains().tolist(), strict=True) if gain > 0}

    def add(self, role: str) -> None:
        """Add the term of a role."""
        self._squares.add(self._roles.index(role))

    def complete(self) -> None:
        """Add what gains most of this configuration's own terms, until there are as many as a cost may have."""
        self._squares.complete(MOST_TERMS)

    @property
    def cost(self) -> Cost:
        """The terms with their weights, in whole femtoseconds."""
        found: dict[str, int] = {}
        weights = self._squares.weights
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


class NonNegativeSquares:
    """Least squares with weights that are not negative, of few columns, which are added one after the other.

    `matrix @ weights` comes near to `target`, and a weight's own square counts `ridge` times. `parents` names for each
    column another, or -1; until that is active, it gains only the share ORPHANED. Active sets after Lawson and Hanson,
    Solving Least Squares Problems (1974), chapter 23, on the normal equations of columns of length 1.
    """

    def __init__(
        self, matrix: Reals, target: Reals, ridge: float = _RIDGE, *, parents: Sequence[int] | None = None
    ) -> None:
        lengths = np.sqrt((matrix**2).sum(axis=0))
        self._lengths = np.where(lengths == 0, np.inf, lengths)
        scaled = matrix / self._lengths
        self._gram, self._wanted, self._ridge = scaled.T @ scaled, scaled.T @ target, ridge
        self._unit = math.sqrt(len(target))
        self._solution = np.zeros(matrix.shape[1])
        self._active: list[int] = []
        self._barred: set[int] = set()  # what was added and fell out again at once
        self._parents = np.array(parents if parents is not None else [-1] * matrix.shape[1], dtype=np.intp)

    @property
    def weights(self) -> Reals:
        """What each column is multiplied by."""
        found: Reals = self._solution / self._lengths
        return found

    def gains(self) -> Reals:
        """Return how each column correlates with what is left, as a share of all; -inf where it cannot be added.

        That of a column whose parent is not active counts less.
        """
        gains: Reals = (self._wanted - self._gram @ self._solution) / self._unit
        active = np.zeros(len(gains), dtype=np.bool_)
        active[self._active] = True
        gains[(self._parents >= 0) & ~active[self._parents]] *= ORPHANED
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
