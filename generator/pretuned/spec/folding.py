"""A smaller expression: what an environment decides is replaced by its value, and what cannot matter is dropped."""

from __future__ import annotations

import ast

from pretuned.spec.evaluation import INTEGERS, Environment, NoValue, function_of
from pretuned.spec.grammar import children_of, literal_comparison, name_of


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
            value = environment.get(name_of(node))
            return node if value is None or isinstance(value, str | float) else _literal(value)
        case ast.Compare() if (compared := literal_comparison(node)) is not None:
            return _settled(node, environment) if compared[0] in environment else node
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
    value = function_of(node, INTEGERS)(environment)
    return node if isinstance(value, NoValue) else _literal(value)


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
