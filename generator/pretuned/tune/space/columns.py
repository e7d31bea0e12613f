"""Expressions over arrays: what `Expression.evaluate` gives, for many rows at once.

This is the table of operations for `pretuned.spec.evaluation`'s visitor. All parts of an expression are computed in all
rows. Beside the values stands which rows have one, and short circuits choose whose rows count: in `vec == 0 or
n % vec == 0` no row divides by zero.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pretuned.runtime.expressions import LIMIT
from pretuned.spec.evaluation import Environment, Operations, function_of
from pretuned.spec.expressions import Expression

Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]
Columns = Mapping[str, npt.NDArray[Any]]  # int64; or texts, or floats, which are only compared
Operation = Callable[[Any, Any], Any]

_SURE: Final = 2.0**62.5  # an estimate below this in float64 is of a result that 64 bits hold


@dataclass(frozen=True, slots=True)
class Column:
    """A part of an expression in each row: bools or int64, all of them from `least` to `most`.

    `known` says which rows have a value, None that all have. The values of the other rows are arbitrary.
    """

    values: npt.NDArray[Any]
    least: int
    most: int
    known: Truths | None = None


ColumnsOrArrays = Mapping[str, npt.NDArray[Any] | Column]


def evaluate(expression: Expression, columns: ColumnsOrArrays, environment: Environment) -> tuple[Integers, Truths]:
    """Return the value of `expression` in every row of `columns`, and which rows have one.

    The columns broadcast against each other; those of `column_of` are read the fastest. `environment` gives the other
    names; a name in both has the column's values. Bools are 0 and 1.
    """
    column, shape = _evaluated(expression, columns, environment)
    return _spread(_integers(column), shape), _spread(_known(column), shape)


def holds(expression: Expression, columns: Columns, environment: Environment) -> Truths:
    """Return in which rows of `columns` the expression has a value that is true; as in `evaluate`."""
    column, shape = _evaluated(expression, columns, environment)
    return _spread(_truth(column) & _known(column), shape)


def _evaluated(
    expression: Expression, columns: ColumnsOrArrays, environment: Environment
) -> tuple[Column, tuple[int, ...]]:
    shape = np.broadcast_shapes(*(_plain(column).shape for column in columns.values()))
    with np.errstate(all="ignore"):  # what wraps or divides by zero stands in rows without a value
        return _function(expression)({**environment, **columns}), shape


@lru_cache(maxsize=1024)
def _function(expression: Expression) -> Callable[[Mapping[str, object]], Column]:
    return function_of(expression.tree, ARRAYS)


def _spread(values: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.broadcast_to(values, shape).copy()


def column_of(values: Integers) -> Column:
    """Return values with their bounds, which are found once for all expressions that read them."""
    if values.size == 0:
        return Column(values, 0, 0)
    return Column(values, int(values.min()), int(values.max()))


def _read(value: int | Integers | Column) -> Column:
    match value:
        case Column():
            return value
        case int():
            return Column(np.asarray(value, dtype=np.int64), value, value)
    return column_of(np.asarray(value, dtype=np.int64))


def _plain(value: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - what an environment gives
    return value.values if isinstance(value, Column) else np.asarray(value)


def _absent(_why: str) -> Column:
    return Column(np.asarray(0, dtype=np.int64), 0, 0, np.asarray(False))


def _integers(column: Column) -> Integers:
    return column.values.astype(np.int64, copy=False)


def _truth(column: Column) -> Truths:
    return column.values if column.values.dtype == np.bool_ else np.asarray(column.values != 0)


def _known(column: Column) -> Truths:
    return np.asarray(True) if column.known is None else column.known


def _all(*known: Truths | None) -> Truths | None:
    """Return in which rows all are known; None for all rows."""
    met: Truths | None = None
    for one in known:
        if one is not None:
            met = one if met is None else met & one
    return met


# Arithmetic: computed in 64 bits, and held to the limit where the operands' bounds leave it open.


def _computed(operation: Operation, a: Column, b: Column, least: int, most: int) -> Column:
    """Return `operation` of `a` and `b`, whose results lie from `least` to `most`, where those are within the limit."""
    values, known = operation(_integers(a), _integers(b)), _all(a.known, b.known)
    if least >= -LIMIT and most <= LIMIT:
        return Column(values, least, most, known)
    estimate = operation(a.values.astype(np.float64), b.values.astype(np.float64))
    within = (np.abs(estimate) < _SURE) & (values >= -LIMIT) & (values <= LIMIT)
    return Column(values, max(least, -LIMIT), min(most, LIMIT), _all(known, within))


def _add(a: Column, b: Column) -> Column:
    return _computed(np.add, a, b, a.least + b.least, a.most + b.most)


def _subtract(a: Column, b: Column) -> Column:
    return _computed(np.subtract, a, b, a.least - b.most, a.most - b.least)


def _multiply(a: Column, b: Column) -> Column:
    corners = [x * y for x in (a.least, a.most) for y in (b.least, b.most)]
    return _computed(np.multiply, a, b, min(corners), max(corners))


def _floor_divide(a: Column, b: Column) -> Column:
    largest = max(abs(a.least), abs(a.most))
    return _computed(np.floor_divide, a, _divisor(b), -largest, largest)


def _modulo(a: Column, b: Column) -> Column:
    largest = max(abs(b.least), abs(b.most))
    return _computed(np.mod, a, _divisor(b), -largest, largest)


def _divisor(column: Column) -> Column:
    """Return the column with 1 for each zero, which makes its row one without a value."""
    if column.least > 0 or column.most < 0:
        return column
    values = _integers(column)
    zero = values == 0
    return Column(np.where(zero, 1, values), column.least, max(column.most, 1), _all(column.known, ~zero))


def _power(a: Column, b: Column) -> Column:
    """Return powers. Exponents that stay are from 0 to 65: a larger one has the same power of 0, 1 and -1, or none."""
    given = _integers(b)
    exponent = np.where(given > 65, 64 + given % 2, np.maximum(given, 0))  # noqa: PLR2004 - past 62, even and odd
    largest = int(max(abs(a.least), abs(a.most), 1) ** min(max(b.most, 0), 65))
    known = b.known if b.least >= 0 else _all(b.known, given >= 0)
    return _computed(np.power, a, Column(exponent, 0, 65, known), -largest, largest)


def _negate(a: Column) -> Column:
    return _subtract(_read(0), a)


def _ceil_divide(a: Column, b: Column) -> Column:
    return _negate(_floor_divide(_negate(a), b))


def _least(*columns: Column) -> Column:
    values = columns[0].values
    for column in columns[1:]:
        values = np.minimum(values, column.values)
    low, high = min(column.least for column in columns), min(column.most for column in columns)
    return Column(values, low, high, _all(*(column.known for column in columns)))


def _most(*columns: Column) -> Column:
    values = columns[0].values
    for column in columns[1:]:
        values = np.maximum(values, column.values)
    low, high = max(column.least for column in columns), max(column.most for column in columns)
    return Column(values, low, high, _all(*(column.known for column in columns)))


# Truths and choices: whose rows count.


def _comparing(operation: Operation) -> Callable[[Column, Column], Column]:
    return lambda a, b: Column(np.asarray(operation(a.values, b.values)), 0, 1, _all(a.known, b.known))


def _where(reached: Truths, known: Truths | None) -> Truths | None:
    """Return `known` where the part is reached; elsewhere nothing is missing."""
    return None if known is None else known | ~reached


def _first(ends: bool, operands: Iterator[Column]) -> Column:
    columns = list(operands)
    values, known = columns[0].values, columns[0].known
    going = _truth(columns[0]) != ends
    for column in columns[1:]:
        values = np.where(going, column.values, values)
        known = _all(known, _where(going, column.known))
        going = going & (_truth(column) != ends)
    return Column(values, min(column.least for column in columns), max(column.most for column in columns), known)


def _chosen(test: Column, of_true: Callable[[], Column], of_false: Callable[[], Column]) -> Column:
    true, body, orelse = _truth(test), of_true(), of_false()
    known = _all(test.known, _where(true, body.known), _where(~true, orelse.known))
    values = np.where(true, body.values, orelse.values)
    return Column(values, min(body.least, orelse.least), max(body.most, orelse.most), known)


ARRAYS: Final[Operations[Column]] = Operations(
    read=_read,
    absent=_absent,
    binary={
        ast.Add: _add,
        ast.Sub: _subtract,
        ast.Mult: _multiply,
        ast.FloorDiv: _floor_divide,
        ast.Mod: _modulo,
        ast.Pow: _power,
    },
    unary={
        ast.USub: _negate,
        ast.UAdd: lambda column: _add(column, _read(0)),
        ast.Not: lambda column: Column(~_truth(column), 0, 1, column.known),
    },
    compare={
        ast.Eq: _comparing(np.equal),
        ast.NotEq: _comparing(np.not_equal),
        ast.Lt: _comparing(np.less),
        ast.LtE: _comparing(np.less_equal),
        ast.Gt: _comparing(np.greater),
        ast.GtE: _comparing(np.greater_equal),
    },
    functions={"ceil_div": _ceil_divide, "min": _least, "max": _most},
    first=_first,
    chosen=_chosen,
    plain=lambda compare, value, literal: Column(np.asarray(compare(_plain(value), literal), dtype=np.bool_), 0, 1),
)
