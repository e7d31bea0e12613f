"""The text of a term, written from the texts of its parts. Pure.

A kernel has thousands of terms, which have most of their parts in common. To write each from a tree of its own takes
milliseconds; here each part is read once. What is written is what `ast.unparse` writes of a term.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

from pretuned.runtime.costs import DEEPEST, LONGEST, is_allowed
from pretuned.spec.expressions import Expression
from pretuned.spec.grammar import children_of

# How tightly operators bind: `if`, then sums, comparisons and the like, then `*` and what divides, then all else.
_CHOICE, _LOOSE, _PRODUCT, _ATOM = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The canonical text of an expression, how tightly its operator binds, and how deep operators are nested."""

    text: str
    binds: int
    height: int

    def within(self, binds: int) -> str:
        """Return the text as it stands beside an operator: in parentheses where it binds less tightly than `binds`."""
        return self.text if self.binds >= binds else f"({self.text})"


_ONE = _Part(text="1", binds=_ATOM, height=0)


def written(factors: Sequence[str], divisor: int, where: str) -> str:
    """Return the text of the product of `factors`, divided by `divisor` and rounded down, where `where` holds; else 0.

    "" where a cost cannot have that: what is not in its language, divides by what might be 0, is too long or too deep.
    """
    parts = [_read(factor) for factor in factors]
    test = _read(where) if where else _ONE
    if None in parts or test is None:
        return ""
    made = reduce(_times, filter(None, parts)) if parts else _ONE
    if divisor > 1:
        text = f"{made.within(_PRODUCT)} // {divisor}"
        made = _Part(text=text, binds=_PRODUCT, height=1 + made.height)
    if where:
        text = f"{made.within(_LOOSE)} if {test.within(_LOOSE)} else 0"
        made = _Part(text=text, binds=_CHOICE, height=1 + max(made.height, test.height))
    return made.text if len(made.text) <= LONGEST and made.height < DEEPEST else ""


def _times(left: _Part, right: _Part) -> _Part:
    text = f"{left.within(_PRODUCT)} * {right.within(_ATOM)}"
    return _Part(text=text, binds=_PRODUCT, height=1 + max(left.height, right.height))


@lru_cache(maxsize=1 << 14)
def _read(text: str) -> _Part | None:
    """Return a part of terms; None where a cost cannot have it."""
    part = Expression.derived(text)
    if not is_allowed(part.tree, part.names):
        return None
    return _Part(text=part.python, binds=_binding(part.tree), height=_height(part.tree))


def _binding(node: ast.expr) -> int:
    match node:
        case ast.IfExp():
            return _CHOICE
        case ast.BinOp(op=ast.Mult() | ast.FloorDiv() | ast.Mod()):
            return _PRODUCT
        case ast.BinOp() | ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return _LOOSE
    return _ATOM


def _height(node: ast.expr) -> int:
    below = children_of(node)
    return 1 + max(map(_height, below)) if below else 0
