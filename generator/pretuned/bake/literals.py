"""Data and expressions as Python source. Nothing that came from outside gets into code but through here.

Strings may hold anything (a lock is edited by whoever sends the pull request): they are written by `repr()`, which
leaves no way out of the literal, and in docstrings and comments with every special character escaped.
"""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Iterable, Mapping

from pretuned.errors import BakeError
from pretuned.runtime.types import DTYPES
from pretuned.spec.expressions import Expression

WIDTH = 116  # of a docstring's line, within 120 columns


def literal(value: object) -> str:
    """Return `value` (None, bool, int, float, str, tuples and dicts of them) as source; raises BakeError for others."""
    match value:
        case None | bool() | int():
            return repr(value)
        case float():
            if not math.isfinite(value):
                raise BakeError(f"{value} is no number that a table can hold")
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
    """Return `expression` as Python: as it stands, but for powers, which are bounded, and types, which are strings."""
    return ast.unparse(_Translator().visit(ast.parse(expression.python, mode="eval"))).replace("'", '"')


class _Translator(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow) or (
            isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
        ):
            return node
        return _call("power", [node.left, node.right])

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="sizeof"), args=[ast.Name(id=name)]) if name in DTYPES:
                return _call("sizeof", [ast.Constant(name)])
        return node


def _call(function: str, args: list[ast.expr]) -> ast.Call:
    return ast.Call(func=ast.Name(id=function, ctx=ast.Load()), args=args, keywords=[])
