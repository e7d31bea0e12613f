"""Terms, which costs are sums of: expressions over the free dims, and their values at many problems. Pure."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt

from pretuned.runtime.costs import DEEPEST, LONGEST, is_allowed
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.grammar import children_of
from pretuned.spec.space import Problem
from pretuned.tune.space.columns import evaluate

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operand:
    """The canonical text of an expression, how tightly its operator binds, and how deep operators are nested."""

    text: str
    binds: int
    height: int

    def within(self, binds: int) -> str:
        """Return the text as it stands beside an operator: in parentheses where it binds less tightly than `binds`."""
        return self.text if self.binds >= binds else f"({self.text})"


_CHOICE, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _ATOM = range(8)  # how tightly operators bind, in Python's order
_ONE = _Operand(text="1", binds=_ATOM, height=0)


@lru_cache(maxsize=1 << 14)
def _text_of(term: Term) -> str:
    # Written from the texts of its parts, of which terms have most in common: a kernel has thousands, and to write each
    # from its tree takes milliseconds.
    parts = [_operand(text) for text in (*term.factors, *((term.where,) if term.where else ()))]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return ""
    test = known.pop() if term.where else None
    made = reduce(_times, known) if known else _ONE
    if term.divisor > 1:
        text, height = f"{made.within(_PRODUCT)} // {term.divisor}", 1 + made.height
        made = _Operand(text=text, binds=_PRODUCT, height=height)
    if test is not None:
        text, height = f"{made.within(_OR)} if {test.within(_OR)} else 0", 1 + max(made.height, test.height)
        made = _Operand(text=text, binds=_CHOICE, height=height)
    return made.text if len(made.text) <= LONGEST and made.height < DEEPEST else ""


def _times(left: _Operand, right: _Operand) -> _Operand:
    text = f"{left.within(_PRODUCT)} * {right.within(_ATOM)}"
    return _Operand(text=text, binds=_PRODUCT, height=1 + max(left.height, right.height))


@lru_cache(maxsize=1 << 14)
def _operand(text: str) -> _Operand | None:
    """Return what becomes of a text in a term; None where costs cannot have it, or it divides by what might be 0."""
    try:
        part = Expression.derived(text)
    except ExpressionError:
        return None
    if not is_allowed(part.tree, part.names):
        return None
    return _Operand(text=part.python, binds=_binding(part.tree), height=_height(part.tree))


def _binding(node: ast.expr) -> int:
    match node:
        case ast.IfExp():
            return _CHOICE
        case ast.BoolOp(op=op):
            return _OR if isinstance(op, ast.Or) else _AND
        case ast.UnaryOp(op=ast.Not()):
            return _NOT
        case ast.Compare():
            return _COMPARISON
        case ast.BinOp(op=op):
            return _SUM if isinstance(op, ast.Add | ast.Sub) else _PRODUCT
    return _ATOM


def _height(node: ast.expr) -> int:
    below = children_of(node)
    return 1 + max(map(_height, below)) if below else 0


class ProblemTable:
    """Problems of one specialisation as columns, with the values of every quantity that was asked for."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.size = len(problems)
        names = [name for name, _ in problems[0].dims] if problems else []
        sizes = np.array([[size for _, size in problem.dims] for problem in problems], dtype=np.int64)
        self._columns = {name: sizes[:, position] for position, name in enumerate(names)}
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
