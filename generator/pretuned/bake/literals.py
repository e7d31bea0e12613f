"""Data and expressions as Python source. Nothing that came from outside gets into code but through here.

Strings may hold anything (any pull request may edit a lock): they are written by `repr()`, which
leaves no way out of the literal, and in docstrings and comments with every special character escaped.
"""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Iterable, Mapping

from pretuned.errors import BakeError
from pretuned.runtime.expressions import LIMIT
from pretuned.runtime.types import DTYPES
from pretuned.spec.expressions import Expression

LARGEST_FACT = 2**40  # of a device or a type: bytes and counts
WIDTH = 116  # of a docstring's line, within 120 columns


def literal(value: object) -> str:
    """Return `value` (None, bool, int, float, str, tuples and dicts of them) as source; raises BakeError for others."""
    match value:
        case None | bool() | int():
            return repr(value)
        case float():
            if not math.isfinite(value):
                raise BakeError(f"{value} is not a number that a table can hold")
            return repr(value)
        case str():
            text = repr(value)
            return text if '"' in value or "'" in value else f'"{text[1:-1]}"'
        case tuple():
            return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
        case Mapping():
            return f"{{{', '.join(f'{literal(key)}: {literal(item)}' for key, item in value.items())}}}"
    raise BakeError(f"a value of type {type(value).__name__} has no place in a generated package")


def prose(text: str) -> str:
    """Return `text` for a comment: one line, printable, without double quotes."""
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line).replace('"', "'")


def wrapped(text: str, indent: str, hanging: str = "") -> list[str]:
    """Return `text` as the lines of a docstring; `hanging` is added to the indent from the second line on."""
    lines = textwrap.wrap(prose(text), WIDTH, initial_indent=indent, subsequent_indent=indent + hanging)
    return [line.replace("\\", "\\\\") for line in lines]  # escaped after wrapping, which could part a pair


def function(expressions: Iterable[Expression], *, several: bool) -> str:
    """Return a lambda of exactly the names that `expressions` read: of one value, or of a tuple."""
    listed = list(expressions)
    names = sorted({name.partition(".")[0] for expression in listed for name in expression.names} - DTYPES.keys())
    bodies = [python(expression) for expression in listed]
    body = f"({', '.join(bodies)}{',' if len(bodies) == 1 else ''})" if several else bodies[0]
    return f"lambda {', '.join(names)}: {body}" if names else f"lambda: {body}"


def python(expression: Expression) -> str:
    """Return `expression` as Python: as it stands, but for types, which are strings, and for what is not bounded.

    Names are bound to `Integer`s, whose operators keep the bound of the language. Where neither operand of an operation
    has to do with a name (a comparison's truth, an attribute of the device) one is made an `Integer`. So is a truth
    value to the left of a name: Python asks its operator first, which keeps no bound.
    """
    return ast.unparse(_Printable().visit(ast.parse(expression.python, mode="eval"))).replace("'", '"')


class _Printable(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        most = _plain(node)
        if (most is not None and most > LIMIT) or (_truth(node.left) and _named(node.right)):
            return ast.BinOp(left=_call("Integer", [node.left]), op=node.op, right=node.right)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="sizeof"), args=[ast.Name(id=name)]) if name in DTYPES:
                return _call("sizeof", [ast.Constant(name)])
        return node


def _plain(node: ast.expr) -> int | None:  # noqa: PLR0911 - one return a kind of node
    """Return how large `node` may be where it is a plain integer; None where it always is an `Integer`."""
    match node:
        case ast.Name() | ast.Call(func=ast.Name(id="Integer")):
            return None
        case ast.Constant(value=int() as value):
            return abs(value)
        case ast.Attribute() | ast.Call(func=ast.Name(id="sizeof")):
            return LARGEST_FACT
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _plain(left), _plain(right)
            if isinstance(op, ast.Pow) and not isinstance(right, ast.Constant):
                b = LIMIT  # it may be negative
            return None if a is None or b is None else _largest(op, a, b)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _plain(operand)
        case ast.IfExp(body=body, orelse=orelse):
            return _any_plain([body, orelse])
        case ast.BoolOp(values=operands) | ast.Call(func=ast.Name(id="min" | "max"), args=operands):
            return _any_plain(operands)
        case ast.Call(func=ast.Name(id="ceil_div"), args=[left, right]):
            return None if _plain(right) is None else _plain(left)
    return 1  # the truth of a comparison or of `not`


def _truth(node: ast.expr) -> bool:
    """Return whether `node` may be True or False."""
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return True
        case ast.IfExp(body=body, orelse=orelse):
            return _truth(body) or _truth(orelse)
        case ast.BoolOp(values=operands) | ast.Call(func=ast.Name(id="min" | "max"), args=operands):
            return any(map(_truth, operands))
    return False


def _named(node: ast.expr) -> bool:
    """Return whether a name has to do with `node`, so that it may be an `Integer`."""
    return any(isinstance(part, ast.Name) for part in ast.walk(node))


def _any_plain(nodes: list[ast.expr]) -> int | None:
    found = [most for most in map(_plain, nodes) if most is not None]
    return max(found, default=None)


def _largest(op: ast.operator, a: int, b: int) -> int:
    match op:
        case ast.Add() | ast.Sub():
            return a + b
        case ast.Mult():
            return a * b
        case ast.Pow():
            return int(a**b) if b <= LIMIT.bit_length() else LIMIT + 1
        case ast.Mod():
            return b
    return a


def _call(function: str, args: list[ast.expr]) -> ast.Call:
    return ast.Call(func=ast.Name(id=function, ctx=ast.Load()), args=args, keywords=[])
