"""Terms, which costs are sums of: expressions over the free dims, and their values at many problems. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pretuned.spec.expressions import Expression
from pretuned.spec.space import Problem
from pretuned.tune.selection.writing import written
from pretuned.tune.space.columns import column_of, evaluate

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """The product of `factors`, divided by `divisor` and rounded down, where the condition `where` holds; else 0.

    `role` says what it is of a call, in words that hold for every configuration of an implementation.
    """

    factors: tuple[str, ...] = ()
    divisor: int = 1
    where: str = ""
    role: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The canonical text of the expression; "" where costs cannot have it, or it divides by what might be 0."""
        return _text_of(self)


@lru_cache(maxsize=1 << 14)
def _text_of(term: Term) -> str:
    return written(term.factors, term.divisor, term.where)


class ProblemTable:
    """Problems of one specialisation as columns, with the values of every quantity that was asked for."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.size = len(problems)
        names = [name for name, _ in problems[0].dims] if problems else []
        sizes = np.array([[size for _, size in problem.dims] for problem in problems], dtype=np.int64)
        self._columns = {name: column_of(sizes[:, position].copy()) for position, name in enumerate(names)}
        self._known: dict[str, Reals] = {}
        self._matrices: dict[tuple[Term, ...], Reals] = {}

    def quantity(self, text: str) -> Reals:
        """Return the value of an expression at each problem, nan where it has none."""
        if (found := self._known.get(text)) is None:
            if self._columns:
                integers, known = evaluate(Expression.derived(text), self._columns, {})
                found = np.where(known, integers.astype(np.float64), np.nan)
            else:
                found = np.full(self.size, float(Expression.derived(text).evaluate({})))
            self._known[text] = found
        return found

    def matrix(self, terms: tuple[Term, ...]) -> Reals:
        """Return the values of each term (column) at each problem (row), nan where one has none."""
        if terms not in self._matrices:
            self._matrices[terms] = np.stack([self.values(term) for term in terms], axis=1)
        return self._matrices[terms]

    def values(self, term: Term) -> Reals:
        """Return the value of a term at each problem, nan where it has none."""
        product = np.ones(self.size)
        for factor in term.factors:
            product = product * self.quantity(factor)
        if term.divisor > 1:
            product = np.floor(product / term.divisor)
        return product * (self.quantity(term.where) != 0) if term.where else product
