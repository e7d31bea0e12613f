"""Texts of expressions, as terms are made of them: folded, multiplied, divided, and what they turn on. Pure.

Hundreds of configurations differ in the few parameters that one expression reads. So what was folded is remembered by
the values that were read, and what becomes of a text by the text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce

from pretuned.runtime.records import Value
from pretuned.spec.expressions import Expression, is_positive
from pretuned.spec.folding import fold


@lru_cache(maxsize=1 << 14)
def simplify(text: str) -> str:
    """Return the canonical text of an expression, with what literals decide folded."""
    return _written(Expression.derived(text).tree)


def _written(tree: ast.expr) -> str:
    return ast.unparse(fold(tree, {}))


def fold_in(expression: Expression, known: Mapping[str, Value]) -> Expression:
    """Return what `known` leaves of an expression; most configurations agree in the few names that one reads."""
    read = tuple((name, type(known[name]), known[name]) for name in sorted(expression.names) if name in known)
    return _of_read(expression, read)


@lru_cache(maxsize=1 << 14)
def _of_read(expression: Expression, read: tuple[tuple[str, type, Value], ...]) -> Expression:
    return expression.fold({name: value for name, _, value in read})


def multiply(texts: Sequence[str]) -> str:
    """Return the text of the product of expressions; what the same condition chooses is multiplied under it."""
    return _multiplied(tuple(texts))


@lru_cache(maxsize=1 << 14)
def _multiplied(texts: tuple[str, ...]) -> str:
    trees = [Expression.derived(text).tree for text in texts if text != "1"]
    return _written(reduce(_product, trees)) if trees else "1"


def _product(left: ast.expr, right: ast.expr) -> ast.expr:
    match left, right:
        case ast.IfExp(), ast.IfExp() if ast.dump(left.test) == ast.dump(right.test):
            body, orelse = _product(left.body, right.body), _product(left.orelse, right.orelse)
            return body if ast.dump(body) == ast.dump(orelse) else ast.IfExp(test=left.test, body=body, orelse=orelse)
        case ast.Constant(value=int() as a), ast.Constant(value=int() as b):
            return ast.Constant(a * b)
    return ast.BinOp(left=left, op=ast.Mult(), right=right)


def nest(text: str) -> str:
    """Return a text that can stand as an operand."""
    return text if text.isidentifier() or text.isdigit() else f"({text})"


class _Hoisting(ast.NodeTransformer):
    """Takes conditions out of divisors: `ceil_div(n, 4 if c else 1)` becomes `ceil_div(n, 4) if c else n`.

    Those of what is divided by literals with a condition too: `128 // (4 if c else 1)` becomes `32 if c else 128`.
    """

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.BinOp(left=ast.Constant(), right=ast.IfExp() as by):
                body, orelse = (
                    self.visit_BinOp(ast.BinOp(left=node.left, op=node.op, right=one))
                    if isinstance(one, ast.IfExp)
                    else ast.BinOp(left=node.left, op=node.op, right=one)
                    for one in (by.body, by.orelse)
                )
                return ast.IfExp(test=by.test, body=body, orelse=orelse)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="ceil_div"), args=[number, ast.IfExp() as by]):
                body, orelse = (
                    self.visit_Call(ast.Call(func=node.func, args=[number, one], keywords=[]))
                    for one in (by.body, by.orelse)
                )
                return ast.IfExp(test=by.test, body=body, orelse=orelse)
            case ast.Call(func=ast.Name(id="ceil_div"), args=[number, ast.Constant(value=1)]):
                return number
        return node


class _Guarding(ast.NodeTransformer):
    """Makes divisors positive that might be 0: `n // k` becomes `n // max(1, k)`. No launch divides by 0."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.FloorDiv | ast.Mod):
            node.right = _at_least_one(node.right)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="ceil_div"), args=[number, by]):
                node.args = [number, _at_least_one(by)]
        return node


def _at_least_one(node: ast.expr) -> ast.expr:
    if is_positive(node):
        return node
    return ast.Call(func=ast.Name("max"), args=[ast.Constant(1), node], keywords=[])


@lru_cache(maxsize=1 << 12)
def hoist(expression: Expression) -> str:
    """Return the text of an expression with conditions taken out of its divisors, which are all positive."""
    hoisted = _Hoisting().visit(ast.parse(expression.python, mode="eval").body)
    return _written(_Guarding().visit(hoisted))


@lru_cache(maxsize=1 << 14)
def turns_of(text: str) -> tuple[str, ...]:
    """Return the conditions at which a launch changes: tests of `x if c else y`, and where min and max take over."""
    return tuple(_turns(text))


def _turns(text: str) -> Iterator[str]:
    for node in ast.walk(Expression.derived(text).tree):
        match node:
            case ast.IfExp(test=test):
                yield ast.unparse(test)
            case ast.Call(func=ast.Name(id="min" | "max"), args=[ast.Constant(value=int() as end), other]):
                yield f"{ast.unparse(other)} > {end}"
            case ast.Call(func=ast.Name(id="min" | "max"), args=[other, ast.Constant(value=int() as end)]):
                yield f"{ast.unparse(other)} > {end}"


@lru_cache(maxsize=1 << 14)
def condition_of(text: str) -> str:
    """Return a short condition that holds where `text`, a number of blocks, is not 0."""
    parts = list(_not_zero(Expression.derived(text).tree))
    return ast.unparse(_all_of(parts)) if parts else text


def _not_zero(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the conditions that all hold where a number of blocks is not 0; none where it never is."""
    match node:
        case ast.Constant(value=int() as value) if value:
            pass
        case ast.IfExp(test=test, body=body, orelse=ast.Constant(value=0)):
            yield from (test, *_not_zero(body))
        case ast.IfExp(test=test, body=ast.Constant(value=0), orelse=orelse):
            yield from (_negated(test), *_not_zero(orelse))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            yield from (*_not_zero(left), *_not_zero(right))
        case ast.Call(func=ast.Name(id="ceil_div"), args=[number, _]) if not _may_be_negative(number):
            yield from _not_zero(number)
        case ast.Call(func=ast.Name(id="max"), args=args) if not all(any(_not_zero(one)) for one in args):
            pass
        case _:
            yield node


def _may_be_negative(node: ast.expr) -> bool:
    return any(isinstance(one, ast.Sub | ast.USub) for one in ast.walk(node))


def _negated(test: ast.expr) -> ast.expr:
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=comparators):
            return ast.Compare(left=left, ops=[ast.NotEq()], comparators=comparators)
    return ast.UnaryOp(op=ast.Not(), operand=test)


def _all_of(tests: Sequence[ast.expr]) -> ast.expr:
    once = list({ast.dump(test): test for test in tests}.values())
    return once[0] if len(once) == 1 else ast.BoolOp(op=ast.And(), values=once)


@lru_cache(maxsize=1 << 14)
def ceil_divs_of(text: str) -> tuple[tuple[str, int], ...]:
    """Return (a, b) of each `ceil_div(a, b)` with a literal b above 1."""
    return tuple(_ceil_divs(text))


def _ceil_divs(text: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(Expression.derived(text).tree):
        match node:
            case ast.Call(func=ast.Name(id="ceil_div"), args=[number, ast.Constant(value=int() as by)]) if by > 1:
                yield ast.unparse(number), by


@lru_cache(maxsize=1 << 14)
def divide(text: str, by: str) -> str:
    """Return the text of `ceil_div(text, by)`; of a ceil_div, the same by the product of both divisors."""
    match Expression.derived(text).tree:
        case ast.Call(func=ast.Name(id="ceil_div"), args=[number, ast.Constant(value=int() as inner)]) if inner > 0:
            return simplify(f"ceil_div({ast.unparse(number)}, {multiply([str(inner), by])})")
    return simplify(f"ceil_div({text}, {by})")
