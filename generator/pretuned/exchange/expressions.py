"""The expressions of T1 files, translated into the language of specs.

T1 conditions are Python. What the specs' language does not have is written in it where both mean the same: `x in
[1, 2]` as comparisons, a comparison of `a / b` without the division, `abs(x)` as a maximum. The rest is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Final

from pretuned.exchange.results import ParameterValue
from pretuned.spec.expressions import Expression, ExpressionError

MAX_LENGTH: Final = 4000  # characters
MAX_ITEMS: Final = 100_000  # of a list of values


def conditions_of(text: str) -> tuple[Expression, ...]:
    """Return the conditions that hold together where the one in `text` does; raise ExpressionError."""
    tree = translated(text)
    parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    return tuple(_expression(part, text) for part in parts)


def expression_of(text: str, values: Mapping[str, Sequence[int]], sizes: Sequence[int]) -> Expression:
    """Return the expression in `text`; raise ExpressionError.

    `ProblemSize[i]` is one of `sizes`, and `max(name)` the largest of a parameter's `values`.
    """
    return _expression(_Sizes(values, sizes).visit(translated(text)), text)


def _expression(tree: ast.expr, text: str) -> Expression:
    try:
        return Expression.parse(ast.unparse(ast.fix_missing_locations(tree)))
    except ExpressionError as error:
        raise ExpressionError(f"'{text}' is not an expression of a spec: {error}") from None


def translated(text: str) -> ast.expr:
    """Return the tree of `text`, in which what specs do not have is replaced where that can be."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"is {len(text)} characters long; at most {MAX_LENGTH} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        found = _Translator().visit(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"'{text}' is not an expression") from None
    assert isinstance(found, ast.expr)
    return found


class _Translator(ast.NodeTransformer):
    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Write a chain as single comparisons, and each of them without `in` and `/`."""
        self.generic_visit(node)
        operands = [node.left, *node.comparators]
        single = [_compared(a, op, b) for a, op, b in zip(operands, node.ops, operands[1:], strict=False)]
        return single[0] if len(single) == 1 else ast.BoolOp(op=ast.And(), values=single)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Write abs(x) as max(x, -x); int(x) and round(x) of an integer are x."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="abs"), args=[value], keywords=[]):
                negative = ast.UnaryOp(op=ast.USub(), operand=value)
                return ast.Call(func=ast.Name(id="max"), args=[value, negative], keywords=[])
            case ast.Call(func=ast.Name(id="int" | "round"), args=[value], keywords=[]):
                return value
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Write a float that is an integer as one."""
        whole = isinstance(node.value, float) and node.value.is_integer()
        return ast.Constant(int(node.value)) if whole else node  # type: ignore[arg-type]


def _compared(a: ast.expr, op: ast.cmpop, b: ast.expr) -> ast.expr:
    match op, b:
        case ast.In(), ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items) if items:
            return _joined(ast.Or(), [_compared(a, ast.Eq(), item) for item in items])
        case ast.NotIn(), ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items) if items:
            return _joined(ast.And(), [_compared(a, ast.NotEq(), item) for item in items])
    match a:
        case ast.BinOp(left=dividend, op=ast.Div(), right=divisor):
            # a / b < c is (a - c * b) * b < 0, since b * b is positive where there is a quotient at all.
            rest = ast.BinOp(left=dividend, op=ast.Sub(), right=ast.BinOp(left=b, op=ast.Mult(), right=divisor))
            sign = ast.BinOp(left=rest, op=ast.Mult(), right=divisor)
            defined = ast.Compare(left=divisor, ops=[ast.NotEq()], comparators=[ast.Constant(0)])
            holds = ast.Compare(left=sign, ops=[op], comparators=[ast.Constant(0)])
            return ast.BoolOp(op=ast.And(), values=[defined, holds])
    match b:
        case ast.BinOp(op=ast.Div()) if type(op) in _TURNED:
            return _compared(b, _TURNED[type(op)](), a)
    return ast.Compare(left=a, ops=[op], comparators=[b])


_TURNED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}


def _joined(op: ast.boolop, values: list[ast.expr]) -> ast.expr:
    return values[0] if len(values) == 1 else ast.BoolOp(op=op, values=values)


class _Sizes(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, Sequence[int]], sizes: Sequence[int]) -> None:
        self._values, self._sizes = values, sizes

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Replace ProblemSize[i]."""
        match node:
            case ast.Subscript(value=ast.Name(id="ProblemSize"), slice=ast.Constant(value=int() as axis)):
                return ast.Constant(self._sizes[axis] if 0 <= axis < len(self._sizes) else 1)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a ProblemSize that is one number."""
        return ast.Constant(self._sizes[0]) if node.id == "ProblemSize" and self._sizes else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace max(name) and min(name) by that of the parameter's values."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="max" | "min" as function), args=[ast.Name(id=name)]) if (
                name in self._values
            ):
                return ast.Constant(max(self._values[name]) if function == "max" else min(self._values[name]))
        return node


def parse_values(text: str) -> tuple[ParameterValue, ...]:
    """Return the values in `text`: a list, list(range(...)), a comprehension over a range, or a sum of those."""
    if len(text) > MAX_LENGTH * 4:
        raise ExpressionError(f"is {len(text)} characters long; at most {MAX_LENGTH * 4} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        items = _items(tree, {})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"'{text}' is not a list of values") from None
    if not items or len(items) > MAX_ITEMS:
        raise ExpressionError(f"'{text}' is not a list of 1 to {MAX_ITEMS:,} values")
    return tuple(items)


def _items(node: ast.expr, scope: Mapping[str, int]) -> Sequence[ParameterValue]:
    match node:
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return [_item(item, scope) for item in elts]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_items(left, scope), *_items(right, scope)]
        case ast.Call(func=ast.Name(id="list"), args=[inner], keywords=[]):
            return _items(inner, scope)
        case ast.Call(func=ast.Name(id="range"), args=[_, *_] as bounds, keywords=[]) if len(bounds) <= 3:  # noqa: PLR2004
            found = range(*(_integer(bound, scope) for bound in bounds))
            if len(found) > MAX_ITEMS:
                raise ExpressionError(f"'{ast.unparse(node)}' has more than {MAX_ITEMS:,} values")
            return found
        case ast.ListComp(
            elt=elt, generators=[ast.comprehension(target=ast.Name(id=name), iter=inner, ifs=[], is_async=0)]
        ):
            return [_integer(elt, {**scope, name: int(item)}) for item in _items(inner, scope)]
    raise ExpressionError(f"'{ast.unparse(node)}' is not a list of values")


def _item(node: ast.expr, scope: Mapping[str, int]) -> ParameterValue:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float() as value)):
            return -value
        case ast.List() | ast.Tuple() | ast.Dict() | ast.Set():
            raise ExpressionError(f"'{ast.unparse(node)}' is neither a number nor a string")
    return _integer(node, scope)


def _integer(node: ast.expr, scope: Mapping[str, int]) -> int:
    return _expression(node, ast.unparse(node)).evaluate(scope)
