"""What an expression means: one visitor over its tree, with a table of operations for each kind of value.

The meaning is Python's own, operators, short circuits and all, since the bake prints expressions into the generated
package. There is one bound: a result beyond 2 ** 62 has no value, just as a division by zero has none. Here is the
table for integers. `pretuned.tune.space.columns` has the one for arrays, and printed expressions compute with
`pretuned.runtime.expressions`. Tests hold all three against each other.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pretuned.runtime.expressions import BEYOND_LIMIT, LIMIT, bounded, power
from pretuned.runtime.records import Value
from pretuned.runtime.types import DTYPES
from pretuned.spec.grammar import literal_comparison, name_of

Environment = Mapping[str, Value]
V = TypeVar("V")
Evaluator = Callable[[Mapping[str, object]], V]


@dataclass(frozen=True, kw_only=True)
class Operations(Generic[V]):
    """How expressions are computed with values of one kind, which may each say that there is no value.

    - `read`: a literal, or what an environment gives for a name
    - `absent`: no value, and why
    - `first`: of operands, the first whose truth is given, or else the last; `or` ends at a true one, `and` at a false;
      each is computed when it is asked for
    - `chosen`: by a test, the second or the third operand, each of which is given by a function
    - `plain`: by an operation, whether it holds between what an environment gives and a text or a float
    """

    read: Callable[[int], V]
    absent: Callable[[str], V]
    binary: Mapping[type[ast.operator], Callable[[V, V], V]]
    unary: Mapping[type[ast.unaryop], Callable[[V], V]]
    compare: Mapping[type[ast.cmpop], Callable[[V, V], V]]
    functions: Mapping[str, Callable[..., V]]
    first: Callable[[bool, Iterator[V]], V]
    chosen: Callable[[V, Callable[[], V], Callable[[], V]], V]
    plain: Callable[[Callable[[Any, Any], Any], Any, str | float], V]


def function_of(node: ast.expr, do: Operations[V]) -> Evaluator[V]:
    """Return the function from an environment to the value of `node`; which of its parts are computed, `do` decides."""
    return _KINDS[type(node)](node, do)


def _of_constant(node: ast.Constant, do: Operations[V]) -> Evaluator[V]:
    assert isinstance(node.value, int), "the grammar has texts and floats in comparisons alone"
    constant = do.read(node.value)
    return lambda _: constant


def _of_name(node: ast.Name | ast.Attribute, do: Operations[V]) -> Evaluator[V]:
    return _reading(name_of(node), do)


def _of_binary(node: ast.BinOp, do: Operations[V]) -> Evaluator[V]:
    binary, of_left, of_right = do.binary[type(node.op)], function_of(node.left, do), function_of(node.right, do)
    return lambda environment: binary(of_left(environment), of_right(environment))


def _of_unary(node: ast.UnaryOp, do: Operations[V]) -> Evaluator[V]:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):  # read as it is, like a name
            negative = do.read(-value)
            return lambda _: negative
    unary, of_operand = do.unary[type(node.op)], function_of(node.operand, do)
    return lambda environment: unary(of_operand(environment))


def _of_truths(node: ast.BoolOp, do: Operations[V]) -> Evaluator[V]:
    ends, listed = isinstance(node.op, ast.Or), [function_of(operand, do) for operand in node.values]
    return lambda environment: do.first(ends, (function(environment) for function in listed))


def _of_comparison(node: ast.Compare, do: Operations[V]) -> Evaluator[V]:
    compared = literal_comparison(node)
    return _comparing(node, do) if compared is None else _comparing_plainly(*compared, do)


def _of_choice(node: ast.IfExp, do: Operations[V]) -> Evaluator[V]:
    test, body, orelse = (function_of(child, do) for child in (node.test, node.body, node.orelse))
    return lambda environment: do.chosen(test(environment), lambda: body(environment), lambda: orelse(environment))


def _of_call(node: ast.Call, do: Operations[V]) -> Evaluator[V]:
    assert isinstance(node.func, ast.Name), "the grammar has no other calls"
    if node.func.id == "sizeof":
        (operand,) = node.args
        assert isinstance(operand, ast.Name), "the grammar has no other sizeof"
        return _sizing(operand.id, do)
    call, of_args = do.functions[node.func.id], [function_of(argument, do) for argument in node.args]
    return lambda environment: call(*[function(environment) for function in of_args])


# What the grammar admits. Expressions are long where a spec derives names from names, so a kind is looked up.
_KINDS: Final[Mapping[type[ast.AST], Callable[[Any, Operations[Any]], Evaluator[Any]]]] = {
    ast.Constant: _of_constant,
    ast.Name: _of_name,
    ast.Attribute: _of_name,
    ast.BinOp: _of_binary,
    ast.UnaryOp: _of_unary,
    ast.BoolOp: _of_truths,
    ast.Compare: _of_comparison,
    ast.IfExp: _of_choice,
    ast.Call: _of_call,
}


def _reading(name: str, do: Operations[V]) -> Evaluator[V]:
    missing = do.absent(f"needs a value for {name!r}")
    of_type = do.absent(f"has no value: '{name}' is a type; only sizeof({name}) has a value")

    def read(environment: Mapping[str, object]) -> V:
        value = environment.get(name)
        if value is None:
            return missing
        return of_type if isinstance(value, str) else do.read(value)  # type: ignore[arg-type]

    return read


def _sizing(name: str, do: Operations[V]) -> Evaluator[V]:
    def size(environment: Mapping[str, object]) -> V:
        dtype = environment.get(name, name)
        if not isinstance(dtype, str):
            return do.absent(f"has no value: sizeof({name}): '{name}' is not a type")
        return do.read(DTYPES[dtype].size_bytes) if dtype in DTYPES else do.absent(f"needs a value for {name!r}")

    return size


PLAIN: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _comparing_plainly(name: str, op: ast.cmpop, literal: str | float, do: Operations[V]) -> Evaluator[V]:
    """Return the function of a comparison of a name with a text or a float."""
    missing, compare = do.absent(f"needs a value for {name!r}"), PLAIN[type(op)]
    other = do.absent(f"has no value: '{name}' is not of the kind of {literal!r}")

    def of(environment: Mapping[str, object]) -> V:
        value = environment.get(name)
        if value is None:
            return missing
        try:
            return do.plain(compare, value, literal)
        except TypeError:  # a text is neither less nor more than a number
            return other

    return of


def _comparing(node: ast.Compare, do: Operations[V]) -> Evaluator[V]:
    """Return the function of a chain: `a < b < c` is `a < b and b < c`."""
    compare = [do.compare[type(op)] for op in node.ops]
    operands = [function_of(child, do) for child in (node.left, *node.comparators)]
    if len(compare) == 1:
        (holds,), (left, right) = compare, operands
        return lambda environment: holds(left(environment), right(environment))

    def of(environment: Mapping[str, object]) -> V:
        values = [operand(environment) for operand in operands]
        return do.first(False, map(lambda apply, *pair: apply(*pair), compare, values, values[1:]))

    return of


@dataclass(frozen=True, slots=True)
class NoValue:
    """That an expression has no value, and why, as a message goes on after the expression."""

    why: str


ZERO_DIVISION: Final = NoValue("divides by zero")
BEYOND: Final = NoValue(f"has no value: {BEYOND_LIMIT}")


def _computing(operation: Callable[..., int], *, limited: bool = False) -> Callable[..., int | NoValue]:
    """Return `operation` on operands of which each may have no value; the first that has none is the result.

    Of one that is `limited` a result beyond the limit is no value.
    """

    def compute(*operands: int | NoValue) -> int | NoValue:
        for operand in operands:
            if type(operand) is NoValue:
                return operand
        try:
            value = operation(*operands)
        except ZeroDivisionError:
            return ZERO_DIVISION
        except ArithmeticError as error:
            return NoValue(f"has no value: {error}")
        return BEYOND if limited and not -LIMIT <= value <= LIMIT else value

    return compute


def _first(ends: bool, values: Iterator[int | NoValue]) -> int | NoValue:
    value: int | NoValue = ends
    for value in values:
        if type(value) is NoValue or bool(value) is ends:
            return value
    return value


def _chosen(
    test: int | NoValue, body: Callable[[], int | NoValue], orelse: Callable[[], int | NoValue]
) -> int | NoValue:
    if isinstance(test, NoValue):
        return test
    return body() if test else orelse()


INTEGERS: Final[Operations[int | NoValue]] = Operations(
    read=lambda value: value,
    absent=NoValue,
    binary={
        ast.Add: _computing(operator.add, limited=True),
        ast.Sub: _computing(operator.sub, limited=True),
        ast.Mult: _computing(operator.mul, limited=True),
        ast.FloorDiv: _computing(operator.floordiv, limited=True),
        ast.Mod: _computing(operator.mod, limited=True),
        ast.Pow: _computing(power),
    },
    unary={
        ast.USub: _computing(operator.neg, limited=True),
        ast.UAdd: _computing(operator.pos, limited=True),
        ast.Not: _computing(operator.not_),
    },
    compare={
        ast.Eq: _computing(operator.eq),
        ast.NotEq: _computing(operator.ne),
        ast.Lt: _computing(operator.lt),
        ast.LtE: _computing(operator.le),
        ast.Gt: _computing(operator.gt),
        ast.GtE: _computing(operator.ge),
    },
    functions={
        "ceil_div": _computing(lambda a, b: bounded(-bounded(bounded(-a) // b))),
        "min": _computing(min),
        "max": _computing(max),
    },
    first=_first,
    chosen=_chosen,
    plain=lambda compare, value, literal: bool(compare(value, literal)),
)
