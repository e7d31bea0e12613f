"""The expressions of T1 files: conditions on parameters, and lists of values, in the syntax of Python.

A text is parsed with `ast`, held to a whitelist and bounded in length and depth; its value is found by walking the
tree, never by evaluating the text. The meaning is Python's own, `/` and chained comparisons included.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pretuned.exchange.results import ParameterValue

MAX_LENGTH: Final = 4000  # characters
MAX_DEPTH: Final = 50
MAX_EXPONENT: Final = 64
MAX_ITEMS: Final = 100_000  # of a list of values
MAX_NUMBER: Final = 2**64  # for operands of * and **, so that nothing takes long

_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {"min": min, "max": max, "abs": abs, "int": int, "round": round}
_SEQUENCES: Final = {"list", "range"}  # what values may be built of besides
_NODES: Final = (ast.BoolOp, ast.IfExp, ast.List, ast.Tuple, ast.Set, ast.Name, ast.ListComp, ast.Load)

Environment = Mapping[str, Any]


class ExpressionError(ValueError):
    """A text is no expression of the language, or has no value."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition; equal and hashed by its text. `names` are the parameters that it reads."""

    text: str
    names: frozenset[str] = field(compare=False)
    tree: ast.expr = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the condition in `text`; raise ExpressionError that says what is not allowed."""
        tree = _checked(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.ListComp) or (isinstance(node, ast.Name) and node.id in _SEQUENCES):
                raise ExpressionError(f"'{text}' builds a list, which no condition needs")
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - _FUNCTIONS.keys()
        return cls(text, frozenset(names), tree)

    def holds(self, values: Mapping[str, ParameterValue]) -> bool:
        """Return whether the condition is true under `values`; one that has no value there (x % 0) does not hold."""
        try:
            return bool(_value(self.tree, values))
        except (ArithmeticError, TypeError, ValueError):
            return False


def parse_values(text: str) -> tuple[ParameterValue, ...]:
    """Return the values in `text`: a literal list, list(range(...)), a comprehension over one, or a sum of those."""
    try:
        items = _value(_checked(text), {})
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        raise ExpressionError(str(error) or f"'{text}' has no value") from None
    if not isinstance(items, list | tuple | range) or not items:
        raise ExpressionError(f"'{text}' is no list of values")
    if odd := [item for item in items if not isinstance(item, int | float | str)]:
        raise ExpressionError(f"'{text}' holds {odd[0]!r}, which is neither a number nor a string")
    return tuple(items)


def _checked(text: str) -> ast.expr:
    """Return the tree of `text`, all of it in the language."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"is {len(text)} characters long; at most {MAX_LENGTH} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"'{text}' is not an expression") from None
    _require(tree, text, MAX_DEPTH)
    return tree


def _require(node: ast.AST, text: str, depth: int) -> None:
    if depth == 0:
        raise ExpressionError(f"'{text}' is nested more than {MAX_DEPTH} deep")
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return
        case ast.BinOp(op=op) | ast.UnaryOp(op=op):
            allowed = type(op) in _OPERATORS
        case ast.Compare(ops=ops):
            allowed = all(type(op) in _OPERATORS for op in ops)
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            allowed = name in _FUNCTIONS or name in _SEQUENCES
        case ast.ListComp(generators=[ast.comprehension(target=ast.Name(), ifs=[], is_async=0)]):
            allowed = True
        case ast.comprehension() | ast.operator() | ast.unaryop() | ast.cmpop() | ast.boolop() | ast.Store():
            allowed = True  # looked at with what they stand in
        case _:
            allowed = isinstance(node, _NODES) and not isinstance(node, ast.ListComp)
    if not allowed:
        raise ExpressionError(f"'{text}' uses {type(node).__name__}, which is not read here")
    for child in ast.iter_child_nodes(node):
        _require(child, text, depth - 1)


def _value(node: ast.expr, environment: Environment) -> Any:  # noqa: ANN401, C901, PLR0911 - one case a kind
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return environment[name]
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
            return [_value(item, environment) for item in elts]
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _value(left, environment), _value(right, environment))
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_value(operand, environment))
        case ast.BoolOp(op=op, values=values):
            return _until(isinstance(op, ast.Or), (_value(value, environment) for value in values))
        case ast.Compare():
            return _compared(node, environment)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, environment) else orelse, environment)
        case ast.Call(func=ast.Name(id=name), args=args):
            return _called(name, [_value(argument, environment) for argument in args])
        case ast.ListComp(elt=elt, generators=[ast.comprehension(target=ast.Name(id=name), iter=items)]):
            return [_value(elt, {**environment, name: item}) for item in _value(items, environment)]
    raise AssertionError(f"not in the language: {ast.dump(node)}")


def _binary(op: ast.operator, left: Any, right: Any) -> Any:  # noqa: ANN401
    if isinstance(op, ast.Pow) and not abs(right) <= MAX_EXPONENT:
        raise ExpressionError(f"the exponent {right} is beyond {MAX_EXPONENT}")
    if isinstance(op, ast.Mult | ast.Pow):
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise ExpressionError("only numbers are multiplied")
        if max(abs(left), abs(right)) > MAX_NUMBER:
            raise ExpressionError("a factor is beyond 2**64")
    return _OPERATORS[type(op)](left, right)


def _until(ends: bool, values: Iterator[Any]) -> Any:  # noqa: ANN401
    """Return the first value whose truth is `ends`, or else the last, as `or` and `and` do."""
    value = not ends
    for value in values:
        if bool(value) is ends:
            break
    return value


def _compared(node: ast.Compare, environment: Environment) -> bool:
    left = _value(node.left, environment)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = _value(comparator, environment)
        if not _OPERATORS[type(op)](left, right):
            return False
        left = right
    return True


def _called(name: str, arguments: list[Any]) -> Any:  # noqa: ANN401
    if name not in _SEQUENCES:
        return _FUNCTIONS[name](*arguments)
    items = range(*arguments) if name == "range" else arguments[0]
    if not isinstance(items, list | range) or len(items) > MAX_ITEMS:
        raise ExpressionError(f"{name}(...) is no list of at most {MAX_ITEMS} values")
    return items if name == "range" else list(items)
