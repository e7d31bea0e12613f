"""The expression language of specs: integer and boolean arithmetic over named values.

An expression is parsed once with `ast` and held to a whitelist (`pretuned.spec.grammar`). Its value is found by walking
the tree (`pretuned.spec.evaluation`), never as text. Because the language is a subset of Python, the bake prints an
expression into the generated package: `Expression.python` is its canonical source, and `ceil_div` and `sizeof` are
functions that the generated package has as well.

Names are parameters, dims, specialisations and the attributes of `device` in `DEVICE_ATTRIBUTES`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pretuned.runtime.records import Value
from pretuned.runtime.table import ceil_div
from pretuned.spec.evaluation import INTEGERS, ZERO_DIVISION, Environment, NoValue, function_of
from pretuned.spec.folding import fold, literal_value
from pretuned.spec.grammar import (
    DEVICE_ATTRIBUTES,
    FUNCTIONS,
    MAX_LITERAL,
    RESIDENT_BLOCKS,
    ExpressionError,
    children_of,
    literal_comparisons,
    names_in,
    plain_literal,
    syntax_tree,
)


@dataclass(frozen=True)
class Expression:
    """A parsed expression; equal and hashed by its canonical text."""

    python: str

    @classmethod
    def parse(cls, source: str | int) -> Expression:
        """Parse `source`, or raise `ExpressionError` that says what is not allowed and what to write instead."""
        if isinstance(source, int) and abs(source) > MAX_LITERAL:
            raise ExpressionError("is an integer beyond 2**62")
        return _parsed(str(source).strip())

    @classmethod
    def derived(cls, text: str) -> Expression:
        """Return the expression of a text that was made of expressions: nothing of it is checked again."""
        return _derived(text)

    @cached_property
    def tree(self) -> ast.expr:
        """The whitelisted syntax tree."""
        return ast.parse(self.python, mode="eval").body

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name the expression reads, `device.` attributes with their prefix, sizeof() operands included."""
        return names_in(self.tree)

    @cached_property
    def type_names(self) -> frozenset[str]:
        """The names that stand inside `sizeof(...)`."""
        return frozenset(
            operand
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sizeof"
            for operand in names_in(node)
        )

    @cached_property
    def value_names(self) -> frozenset[str]:
        """The names that have to be numbers: not those inside `sizeof(...)`, or compared with a text or a float."""
        return names_in(self.tree, operands_of_sizeof=False)

    @cached_property
    def comparisons(self) -> tuple[tuple[str, str | float], ...]:
        """Each name that is compared with a text or a float, with that."""
        return tuple(literal_comparisons(self.tree))

    @property
    def quoted(self) -> str:
        """The expression as messages quote it: in backticks where it has texts, whose quotes would end others."""
        return f"`{self}`" if "'" in str(self) else f"'{self}'"

    @property
    def reads_device(self) -> bool:
        """Whether the value depends on the device."""
        return not self.names.isdisjoint(DEVICE_ATTRIBUTES)

    def evaluate(self, environment: Environment) -> int:
        """Return the value under `environment`; raise ExpressionError where there is none, with the reason."""
        value = self._function(environment)
        if isinstance(value, NoValue):
            raise ExpressionError(f"'{self.python}' {value.why}")
        return value

    def fold(self, environment: Environment) -> Expression:
        """Replace what `environment` decides by its value and simplify; names it lacks stay."""
        return _of_tree(fold(self.tree, environment))

    @cached_property
    def constant(self) -> int | None:
        """The value, where the expression is a single literal; else None."""
        return literal_value(self.tree)

    @cached_property
    def _function(self) -> Callable[[Environment], int | NoValue]:
        return function_of(self.tree, INTEGERS)

    def __reduce__(self) -> tuple[Callable[..., Expression], tuple[type[Expression], str]]:
        # The cached closures cannot be pickled. One process gets the same spec with many requests: each text is parsed
        # once there, and its tree, thousands of objects, is kept once.
        return _unpickled, (type(self), self.python)

    def __str__(self) -> str:
        return self.python


class LeadingDims(Expression):
    """`rows...`, the first entry of a shape: any number of dims, of which `rows` is the product."""

    @classmethod
    def parse(cls, source: str | int) -> LeadingDims:
        """Parse `NAME...`; raises ExpressionError."""
        name = str(source).strip().removesuffix("...").strip()
        if not name.isidentifier():
            raise ExpressionError(
                f"'{source}' does not name leading dims; write `rows...`, where the dim `rows` is their product"
            )
        return cls(name)

    def __str__(self) -> str:
        return f"{self.python}..."


class OwnExtent(Expression):
    """`rows[]` in the shape of a list: an extent that each of its arrays has for itself; `rows` is their sum."""

    @classmethod
    def parse(cls, source: str | int) -> OwnExtent:
        """Parse `NAME[]`; raises ExpressionError."""
        name = str(source).strip().removesuffix("[]").strip()
        if not name.isidentifier():
            raise ExpressionError(
                f"'{source}' does not name an extent of each array; write `rows[]`, where the dim `rows` is their sum"
            )
        return cls(name)

    def __str__(self) -> str:
        return f"{self.python}[]"


def has_value_everywhere(expression: Expression) -> bool:
    """Return whether an expression has a value whatever the dims are: it divides by positive numbers, has no power.

    Positive is a literal, or the larger one of it and something: `max(1, blocks // strips)`.
    """
    for node in ast.walk(expression.tree):
        match node:
            case (
                ast.Call(func=ast.Name(id="ceil_div"), args=[_, by])
                | ast.BinOp(op=ast.FloorDiv() | ast.Mod(), right=by)
            ):
                if not is_positive(by):
                    return False
            case ast.Pow() | ast.Attribute() | ast.Name(id="sizeof"):
                return False
    return True


def is_positive(node: ast.expr) -> bool:
    """Return whether a part of an expression is 1 or more by what is written there: `8`, `max(1, n)`."""
    match node:
        case ast.Call(func=ast.Name(id="max"), args=args):
            return any(is_positive(one) for one in args)
    return (value := literal_value(node)) is not None and value >= 1


@lru_cache(maxsize=1 << 14)
def _unpickled(kind: type[Expression], python: str) -> Expression:
    return kind(python)


@lru_cache(maxsize=1 << 14)
def _derived(text: str) -> Expression:
    return Expression(text)


@lru_cache(maxsize=1 << 14)
def _parsed(text: str) -> Expression:
    tree = syntax_tree(text)
    nameless: list[ast.expr] = []
    _collect_nameless(tree, nameless)
    for node in nameless:
        if plain_literal(node) is None:
            _require_value(node, text)
    return _of_tree(tree)


def _of_tree(tree: ast.expr) -> Expression:
    found = Expression(ast.unparse(tree))
    found.__dict__["tree"] = tree  # as the property would parse it once more
    return found


def _collect_nameless(node: ast.expr, found: list[ast.expr]) -> bool:
    """Add to `found` the parts of `node` that read no name, and return whether it is one of them itself."""
    match node:
        case ast.Name() | ast.Attribute():
            return False
    nameless = True
    for child in children_of(node):
        nameless = _collect_nameless(child, found) and nameless
    if nameless:
        found.append(node)
    return nameless


def _require_value(node: ast.expr, text: str) -> None:
    """Raise ExpressionError for a part without names, such as `1 // 0` or `9 ** 9 ** 9`, that has no value."""
    value = function_of(node, INTEGERS)({})
    if isinstance(value, NoValue):
        raise ExpressionError(f"'{text}' {'always ' if value is ZERO_DIVISION else ''}{value.why}")


__all__ = [
    "DEVICE_ATTRIBUTES",
    "FUNCTIONS",
    "RESIDENT_BLOCKS",
    "Environment",
    "Expression",
    "ExpressionError",
    "Value",
    "ceil_div",
    "has_value_everywhere",
    "is_positive",
]
