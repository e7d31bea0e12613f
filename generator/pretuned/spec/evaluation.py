"""The value of an expression: a whitelisted tree becomes nested closures, or a smaller tree.

The meaning is Python's own, operators, short circuits and all, since the bake writes expressions into the generated
package as they stand. Only the bounds on powers and products are stricter: no expression can take long.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pretuned.runtime.types import DTYPES
from pretuned.spec.grammar import ExpressionError, children_of

Value = int | bool | str  # str only for types, which nothing but sizeof() accepts
Environment = Mapping[str, Value]
Function = Callable[[Environment], int]

MAX_EXPONENT: Final = 64  # 2 ** 64 is past every size that CUDA knows
MAX_BITS: Final = 256  # of a power or product: a few int64 multiplied are fine, towers of powers are not


def ceil_div(a: int, b: int) -> int:
    """Return a / b rounded up to an integer."""
    return -(-a // b)


def _multiply(a: int, b: int) -> int:
    if a.bit_length() + b.bit_length() > MAX_BITS:
        raise ExpressionError(f"a product is out of bounds: results have at most {MAX_BITS} bits")
    return a * b


def _power(a: int, b: int) -> int:
    if not (0 <= b <= MAX_EXPONENT and a.bit_length() * b <= MAX_BITS):
        raise ExpressionError(
            f"a power is out of bounds: exponents go from 0 to {MAX_EXPONENT}, results have at most {MAX_BITS} bits"
        )
    return int(a**b)


_BINARY: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[int, int], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[int], int]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_CALLS: Final[dict[str, Callable[..., int]]] = {"ceil_div": ceil_div, "min": min, "max": max}


def function_of(node: ast.expr) -> Function:  # noqa: PLR0911 - one return a kind of node
    """Return the function from an environment to the value of `node`.

    The function raises ExpressionError, ZeroDivisionError, or KeyError for a name without a value.
    """
    match node:
        case ast.Constant(value=int() as value):
            return lambda _: value
        case ast.Name() | ast.Attribute():
            return _reading(ast.unparse(node))
        case ast.BinOp(left=left, right=right):
            return _binary(_BINARY[type(node.op)], function_of(left), function_of(right))
        case ast.UnaryOp(operand=operand):
            apply, of_operand = _UNARY[type(node.op)], function_of(operand)
            return lambda environment: apply(of_operand(environment))
        case ast.BoolOp(op=op, values=values):
            return _until(isinstance(op, ast.Or), [function_of(value) for value in values])
        case ast.Compare(ops=ops):
            operands = [function_of(child) for child in (node.left, *node.comparators)]
            return _comparing([_COMPARE[type(op)] for op in ops], operands)
        case ast.IfExp():
            test, body, orelse = (function_of(child) for child in (node.test, node.body, node.orelse))
            return lambda environment: body(environment) if test(environment) else orelse(environment)
        case ast.Call(func=ast.Name(id="sizeof"), args=[ast.Name(id=name)]):
            return _sizing(name)
        case ast.Call(func=ast.Name(id=name), args=args):
            call, of_args = _CALLS[name], [function_of(argument) for argument in args]
            return lambda environment: call(*[argument(environment) for argument in of_args])
    raise AssertionError(f"not in the language: {ast.dump(node)}")


def _reading(name: str) -> Function:
    def read(environment: Environment) -> int:
        value = environment[name]
        if isinstance(value, str):
            raise ExpressionError(f"'{name}' is a type; only sizeof({name}) has a value")
        return value

    return read


def _binary(apply: Callable[[int, int], int], left: Function, right: Function) -> Function:
    return lambda environment: apply(left(environment), right(environment))


def _until(ends: bool, values: Sequence[Function]) -> Function:
    """Return the first value whose truth is `ends`, or else the last: `or` ends at a true one, `and` at a false one."""

    def first(environment: Environment) -> int:
        result = 0
        for value in values:
            result = value(environment)
            if bool(result) is ends:
                break
        return result

    return first


def _comparing(operators: Sequence[Callable[[int, int], bool]], operands: Sequence[Function]) -> Function:
    def compare(environment: Environment) -> bool:
        left = operands[0](environment)
        for holds, operand in zip(operators, operands[1:], strict=True):
            right = operand(environment)
            if not holds(left, right):
                return False
            left = right
        return True

    return compare


def _sizing(name: str) -> Function:
    def size(environment: Environment) -> int:
        dtype = environment.get(name, name)
        if not isinstance(dtype, str):
            raise ExpressionError(f"sizeof({name}): '{name}' is no type")
        if dtype not in DTYPES:
            raise KeyError(name)
        return DTYPES[dtype].size_bytes

    return size


def literal_value(node: ast.expr) -> int | None:
    """Return the value of a literal, a negative one included; None for every other node."""
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    return None


def _literal(value: int) -> ast.expr:
    if value < 0:  # a negative Constant would be written without the parentheses that `(-2) ** n` needs
        return ast.UnaryOp(op=ast.USub(), operand=ast.Constant(-value))
    return ast.Constant(value)


def fold(node: ast.expr, environment: Environment) -> ast.expr:  # noqa: PLR0911 - one return a kind of node
    """Return `node` with what `environment` decides replaced by its value; `node` itself stays as it is.

    Where the whole has a value, so has the result, and it is equal; an operation that has none is left in place.
    """
    match node:
        case ast.Constant():
            return node
        case ast.Name() | ast.Attribute():
            value = environment.get(ast.unparse(node))
            return node if value is None or isinstance(value, str) else _literal(value)
        case ast.Call(func=ast.Name(id="sizeof")):
            return _settled(node, environment)
        case ast.BoolOp(op=op, values=values):
            return _chain(op, [fold(value, environment) for value in values])
        case ast.IfExp():
            test, body, orelse = (fold(child, environment) for child in (node.test, node.body, node.orelse))
            if (decided := literal_value(test)) is not None:
                return body if decided else orelse
            return ast.IfExp(test=test, body=body, orelse=orelse)
    folded = _with_operands(node, [fold(child, environment) for child in children_of(node)])
    if isinstance(folded, ast.BinOp) and isinstance(folded.op, ast.Mod) and literal_value(folded.right) == 1:
        return ast.Constant(0)  # what `n % vec == 0` comes to where vec is 1
    if all(literal_value(child) is not None for child in children_of(folded)):
        return _settled(folded, {})
    return folded


def _with_operands(node: ast.expr, operands: list[ast.expr]) -> ast.expr:
    match node:
        case ast.BinOp(op=op):
            return ast.BinOp(left=operands[0], op=op, right=operands[1])
        case ast.UnaryOp(op=unary):
            return ast.UnaryOp(op=unary, operand=operands[0])
        case ast.Compare(ops=ops):
            return ast.Compare(left=operands[0], ops=ops, comparators=operands[1:])
        case ast.Call(func=func):
            return ast.Call(func=func, args=operands, keywords=[])
    raise AssertionError(f"not in the language: {ast.dump(node)}")


def _settled(node: ast.expr, environment: Environment) -> ast.expr:
    try:
        return _literal(function_of(node)(environment))
    except (ExpressionError, ZeroDivisionError, KeyError):
        return node


def _chain(op: ast.boolop, values: list[ast.expr]) -> ast.expr:
    """Return `and`/`or` over folded `values`, without what cannot change its value.

    A literal that ends the chain drops what follows it; one that does not is dropped, unless it is the last, whose
    value may be the result. Only where all others are truth values does a last literal decide or vanish.
    """
    ends = isinstance(op, ast.Or)
    kept: list[ast.expr] = []
    for position, value in enumerate(values):
        known = literal_value(value)
        if known is not None and bool(known) is ends:
            kept.append(value)
            break
        if known is None or position == len(values) - 1:
            kept.append(value)
    *before, last = kept
    known = literal_value(last)
    if before and known is not None and known in (0, 1) and all(_is_truth(value) for value in before):
        if bool(known) is ends:
            return last
        kept = before
    return kept[0] if len(kept) == 1 else ast.BoolOp(op=op, values=kept)


def _is_truth(node: ast.expr) -> bool:
    """Whether the value can only be true or false (or 1 or 0)."""
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.BoolOp(values=values):
            return all(_is_truth(value) for value in values)
    return literal_value(node) in (0, 1)
