"""Expressions over columns: `Expression.evaluate` for many rows at once, with exactly its meaning.

Every part of an expression is computed for every row, and beside its values stands what evaluating it would have met: a
state that says that there is no value (a division by zero, an unknown name, a power out of bounds), or that the value
is too large to be sure of in 64 bits. Short circuits then choose whose state counts, so that in `vec == 0 or
n % vec == 0` nothing divides by zero. Rows that end too large are evaluated one by one, as Python integers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pretuned.spec.evaluation import MAX_EXPONENT, function_of
from pretuned.spec.expressions import Environment, Expression, ExpressionError
from pretuned.spec.grammar import names_in

Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]
Columns = Mapping[str, Integers]
States = npt.NDArray[np.uint8]

_NO_VALUE: Final = np.uint8(1)
_TOO_LARGE: Final = np.uint8(2)
_NEITHER: Final = np.uint8(0)
# Values below this in magnitude can be added, negated and divided in 64 bits whatever they are.
_LIMIT: Final = 2**62
# Where magnitudes are estimated in float64: half of that, far more than rounding can hide.
_EDGE: Final = 2.0**61


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The value of an expression in each row, where it is `known`; `values` are Python integers beyond 64 bits."""

    values: npt.NDArray[Any]
    known: Truths


def evaluate(expression: Expression, columns: Columns, environment: Environment) -> Evaluated:
    """Return the value of `expression` in every row of `columns`, which broadcast against each other.

    `environment` gives the other names; a name in both has the column's values. What has no value raises nothing: it
    is not known. Bools are 0 and 1.
    """
    part, shape = _evaluated(expression, columns, environment)
    values, known = _spread(_integers(part), shape), _spread(_known(part), shape)
    found = dict(_one_by_one(part, shape, expression, columns, environment))
    if any(value is not None and abs(value) > np.iinfo(np.int64).max for value in found.values()):
        values = values.astype(object)
    for position, value in found.items():
        known[position] = value is not None
        values[position] = value or 0
    return Evaluated(values=values, known=known)


def holds(expression: Expression, columns: Columns, environment: Environment) -> Truths:
    """Return in which rows of `columns` the value of `expression` is known and true; as in `evaluate`."""
    part, shape = _evaluated(expression, columns, environment)
    true = _spread(_truth(part) & _known(part), shape)
    for position, value in _one_by_one(part, shape, expression, columns, environment):
        true[position] = bool(value)
    return true


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression: values (bool or int64) from `low` to `high`, and states where some row has one.

    Where a state stands, the value is arbitrary.
    """

    values: npt.NDArray[Any]
    low: int
    high: int
    state: States | None = None


def _evaluated(expression: Expression, columns: Columns, environment: Environment) -> tuple[_Part, tuple[int, ...]]:
    shape = np.broadcast_shapes(*(column.shape for column in columns.values()))
    with np.errstate(all="ignore"):  # what wraps or divides by zero stands in rows whose state says so
        return _part(expression.tree, columns, environment), shape


def _one_by_one(
    part: _Part, shape: tuple[int, ...], expression: Expression, columns: Columns, environment: Environment
) -> Iterator[tuple[tuple[int, ...], int | None]]:
    """Yield (position, value) of the rows that are too large for columns; the value is None where there is none."""
    if part.state is None:
        return
    whole = {name: np.broadcast_to(column, shape) for name, column in columns.items() if name in expression.names}
    for place in np.argwhere(np.broadcast_to(part.state, shape) == _TOO_LARGE):
        position = tuple(place.tolist())
        row = {name: int(column[position]) for name, column in whole.items()}
        try:
            yield position, int(expression.evaluate({**environment, **row}))
        except ExpressionError:
            yield position, None


def _spread(values: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.broadcast_to(values, shape).copy()


def _part(node: ast.expr, columns: Columns, environment: Environment) -> _Part:  # noqa: PLR0911 - one a kind of node
    if names_in(node).isdisjoint(columns):
        return _scalar(node, environment)
    match node:
        case ast.Name(id=name):
            return _column(columns[name])
        case ast.BinOp(left=left, right=right):
            return _BINARY[type(node.op)](_part(left, columns, environment), _part(right, columns, environment))
        case ast.UnaryOp(operand=operand):
            return _UNARY[type(node.op)](_part(operand, columns, environment))
        case ast.BoolOp(op=op, values=values):
            return _until(isinstance(op, ast.Or), [_part(value, columns, environment) for value in values])
        case ast.Compare(ops=ops):
            operands = [_part(child, columns, environment) for child in (node.left, *node.comparators)]
            return _compared([_COMPARE[type(op)] for op in ops], operands)
        case ast.IfExp():
            test, body, orelse = (_part(child, columns, environment) for child in (node.test, node.body, node.orelse))
            return _chosen(test, body, orelse)
        case ast.Call(func=ast.Name(id="sizeof")):
            return _nothing(_NO_VALUE)  # of a column, and a column is no type
        case ast.Call(func=ast.Name(id=name), args=args):
            return _CALLS[name](*[_part(argument, columns, environment) for argument in args])
    raise AssertionError(f"not in the language: {ast.dump(node)}")


def _scalar(node: ast.expr, environment: Environment) -> _Part:
    """Return what is the same in every row, evaluated once."""
    try:
        value = int(function_of(node)(environment))
    except (ExpressionError, ZeroDivisionError, KeyError):
        return _nothing(_NO_VALUE)
    if abs(value) >= _LIMIT:
        return _nothing(_TOO_LARGE)
    return _Part(np.array(value, dtype=np.int64), value, value)


def _nothing(state: np.uint8) -> _Part:
    return _Part(np.array(0, dtype=np.int64), 0, 0, np.array(state))


def _column(column: Integers) -> _Part:
    if column.size == 0:
        return _Part(column, 0, 0)
    return _bounded(column, int(column.min()), int(column.max()), None)


def _bounded(
    values: Integers, low: int, high: int, state: States | None, estimate: npt.NDArray[np.float64] | None = None
) -> _Part:
    """Return the part, with the rows marked whose value (or its `estimate`, where 64 bits may wrap) is too large."""
    if low > -_LIMIT and high < _LIMIT:
        return _Part(values, low, high, state)
    magnitude = np.abs(values.astype(np.float64) if estimate is None else estimate)
    state = _first(state, np.where(magnitude >= _EDGE, _TOO_LARGE, _NEITHER))
    return _Part(values, max(low, 1 - _LIMIT), min(high, _LIMIT - 1), state)


def _first(*states: States | None) -> States | None:
    """Return what is met first in each row, where parts are evaluated in this order."""
    met: States | None = None
    for state in states:
        if state is not None:
            met = state if met is None else np.where(met != _NEITHER, met, state)
    return met


def _where(reached: Truths, state: States | None) -> States | None:
    return None if state is None else np.where(reached, state, _NEITHER)


def _known(part: _Part) -> Truths:
    return np.array(True) if part.state is None else np.asarray(part.state == _NEITHER)


def _truth(part: _Part) -> Truths:
    return part.values if part.values.dtype == np.bool_ else np.asarray(part.values != 0)


def _integers(part: _Part) -> Integers:
    return part.values.astype(np.int64, copy=False)


def _add(a: _Part, b: _Part) -> _Part:
    return _bounded(_integers(a) + _integers(b), a.low + b.low, a.high + b.high, _first(a.state, b.state))


def _subtract(a: _Part, b: _Part) -> _Part:
    return _add(a, _negate(b))


def _multiply(a: _Part, b: _Part) -> _Part:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = min(corners), max(corners)
    estimate = None
    if not (low > -_LIMIT and high < _LIMIT):
        estimate = a.values.astype(np.float64) * b.values.astype(np.float64)
    return _bounded(_integers(a) * _integers(b), low, high, _first(a.state, b.state), estimate)


def _divisor(a: _Part, b: _Part) -> tuple[Integers, States | None]:
    """Return `b` without zeros, and the states of `a` divided by it."""
    state, divisor = _first(a.state, b.state), _integers(b)
    if b.low > 0 or b.high < 0:
        return divisor, state
    zero = divisor == 0
    return np.where(zero, 1, divisor), _first(state, np.where(zero, _NO_VALUE, _NEITHER))


def _floor_divide(a: _Part, b: _Part) -> _Part:
    divisor, state = _divisor(a, b)
    most = max(abs(a.low), abs(a.high))
    return _Part(_integers(a) // divisor, -most, most, state)


def _modulo(a: _Part, b: _Part) -> _Part:
    divisor, state = _divisor(a, b)
    most = max(abs(b.low), abs(b.high))
    return _Part(_integers(a) % divisor, -most, most, state)


def _power(a: _Part, b: _Part) -> _Part:
    """Raise to a power. One that is out of bounds by its bits is too large before, and judged row by row."""
    state, given = _first(a.state, b.state), _integers(b)
    exponent = given.clip(0, MAX_EXPONENT)  # NumPy refuses negative ones, and rows without a value may have any
    if b.low < 0 or b.high > MAX_EXPONENT:
        state = _first(state, np.where(exponent != given, _NO_VALUE, _NEITHER))
    most = int(max(abs(a.low), abs(a.high), 1) ** min(max(b.high, 0), MAX_EXPONENT))
    estimate = None if most < _LIMIT else a.values.astype(np.float64) ** exponent.astype(np.float64)
    return _bounded(_integers(a) ** exponent, -most, most, state, estimate)


def _ceil_divide(a: _Part, b: _Part) -> _Part:
    return _negate(_floor_divide(_negate(a), b))


def _least(*parts: _Part) -> _Part:
    values = parts[0].values
    for part in parts[1:]:
        values = np.minimum(values, part.values)
    low, high = min(part.low for part in parts), min(part.high for part in parts)
    return _Part(values, low, high, _first(*(part.state for part in parts)))


def _most(*parts: _Part) -> _Part:
    return _negate(_least(*map(_negate, parts)))


def _negate(a: _Part) -> _Part:
    return _Part(-_integers(a), -a.high, -a.low, a.state)


def _not(a: _Part) -> _Part:
    return _Part(~_truth(a), 0, 1, a.state)


def _until(ends: bool, parts: list[_Part]) -> _Part:
    """Return the first value whose truth is `ends`, or else the last: `or` ends at a true one, `and` at a false one."""
    values, state = parts[0].values, parts[0].state
    going = _truth(parts[0]) != ends
    for part in parts[1:]:
        values = np.where(going, part.values, values)
        state = _first(state, _where(going, part.state))
        going = going & (_truth(part) != ends)
    return _Part(values, min(part.low for part in parts), max(part.high for part in parts), state)


def _compared(operators: list[Callable[[Any, Any], Any]], operands: list[_Part]) -> _Part:
    left = operands[0]
    true, state = np.array(True), left.state
    for operator, right in zip(operators, operands[1:], strict=True):
        state = _first(state, _where(true, right.state))  # an operand after a false comparison is not evaluated
        true = true & operator(left.values, right.values)
        left = right
    return _Part(np.asarray(true), 0, 1, state)


def _chosen(test: _Part, body: _Part, orelse: _Part) -> _Part:
    true = _truth(test)
    state = _first(test.state, _where(true, body.state), _where(~true, orelse.state))
    values = np.where(true, body.values, orelse.values)
    return _Part(values, min(body.low, orelse.low), max(body.high, orelse.high), state)


_BINARY: Final[dict[type[ast.operator], Callable[[_Part, _Part], _Part]]] = {
    ast.Add: _add,
    ast.Sub: _subtract,
    ast.Mult: _multiply,
    ast.FloorDiv: _floor_divide,
    ast.Mod: _modulo,
    ast.Pow: _power,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[_Part], _Part]]] = {
    ast.USub: _negate,
    ast.UAdd: lambda part: part,
    ast.Not: _not,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
_CALLS: Final[dict[str, Callable[..., _Part]]] = {"ceil_div": _ceil_divide, "min": _least, "max": _most}
