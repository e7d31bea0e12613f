"""Values that depend on the problem, as in `at = "1024 if tokens < 256 else 256"`.

What a formula chooses between stands in it as literals. So all that it can give is known when the spec is read, and is
compiled and shipped. Inside it is a chain: (tokens < 256, 1024), (None, 256); the first whose condition holds gives the
value. A condition that has no value, since it divides by zero, does not hold.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pretuned.config.toml import spelled
from pretuned.runtime.records import Value
from pretuned.spec.expressions import Environment, Expression, ExpressionError
from pretuned.spec.folding import literal_value
from pretuned.spec.grammar import BOOLEANS, MAX_LENGTH, plain_literal

MAX_BRANCHES: Final = 16
EXAMPLE: Final = '{ at = "1024 if tokens < 256 else 256" }'


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A value, and the condition under which it is taken; None where nothing above it was."""

    condition: Expression | None
    value: Value

    def holds(self, known: Environment) -> bool:
        """Return whether the condition holds; one without a value does not."""
        try:
            return self.condition is None or bool(self.condition.evaluate(known))
        except ExpressionError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A value by conditions on the problem; the last of its branches has none."""

    branches: tuple[Branch, ...]

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Parse `x if c else y`; raises ExpressionError that says what to write instead."""
        if len(text) > MAX_LENGTH:
            raise ExpressionError(f"is {len(text)} characters long; at most {MAX_LENGTH} are allowed")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ExpressionError(f"'{text}' is not an expression; write it as in `{EXAMPLE}`") from None
        branches = _branches(tree, (), text)
        if len(branches) > MAX_BRANCHES:
            raise ExpressionError(f"'{text}' has {len(branches)} branches; at most {MAX_BRANCHES} are allowed")
        if len(branches) == 1:
            raise ExpressionError(f"is the same at every problem; write {spelled(branches[0].value)} without `at`")
        return cls(branches=branches)

    def value(self, known: Environment) -> Value:
        """Return the value where the names are `known`."""
        return next(branch.value for branch in self.branches if branch.holds(known))

    def fold(self, known: Environment) -> Formula:
        """Return the formula with what `known` decides left out; names that it lacks stay."""
        kept = []
        for branch in self.branches:
            condition = branch.condition and branch.condition.fold(known)
            if condition is not None and not condition.names:
                if not branch.holds(known):
                    continue
                condition = None
            kept.append(Branch(condition=condition, value=branch.value))
            if condition is None:
                break
        return Formula(branches=tuple(kept))

    def __str__(self) -> str:
        *before, last = self.branches
        return "".join(f"{branch.value!r} if {branch.condition} else " for branch in before) + repr(last.value)


Default = Mapping[str, Value | Formula]


def given(default: Default, known: Environment) -> dict[str, Value]:
    """Return a default's values where the names are `known`."""
    return {name: one.value(known) if isinstance(one, Formula) else one for name, one in default.items()}


def formulas(default: Default) -> dict[str, Formula]:
    """Return the parameters whose values depend on the problem, sorted, with their formulas."""
    return {name: one for name, one in sorted(default.items()) if isinstance(one, Formula)}


def _branches(node: ast.expr, under: tuple[ast.expr, ...], text: str) -> tuple[Branch, ...]:
    """Return the branches of `node`, which is reached where all conditions `under` hold."""
    if not isinstance(node, ast.IfExp):
        conditions: list[ast.expr] = list(under)
        both = ast.BoolOp(op=ast.And(), values=conditions) if len(conditions) > 1 else None
        condition = both or next(iter(conditions), None)
        parsed = None if condition is None else Expression.parse(ast.unparse(condition))
        return (Branch(condition=parsed, value=_literal(node, text)),)
    return (*_branches(node.body, (*under, node.test), text), *_branches(node.orelse, under, text))


def _literal(node: ast.expr, text: str) -> Value:
    match node:
        case ast.Name(id=name) if name in BOOLEANS:
            return BOOLEANS[name]
    for found in (literal_value(node), plain_literal(node)):
        if found is not None:
            return found
    message = f"'{text}' chooses '{ast.unparse(node)}', which is not a value"
    raise ExpressionError(f"{message}; write the values that it chooses between, as in `{EXAMPLE}`")
