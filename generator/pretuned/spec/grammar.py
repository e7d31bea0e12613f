"""What may stand in an expression: a whitelist over the syntax tree of Python.

Nothing here evaluates. A tree that passes `require` holds integers, bools, names, the attributes of `device` and the
operators and functions below, nested at most MAX_DEPTH deep; `pretuned.spec.evaluation` relies on that.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from pretuned.errors import Error
from pretuned.runtime.expressions import LIMIT
from pretuned.runtime.text import closest

RESIDENT_BLOCKS: Final = "device.resident_blocks"  # of one launch: its grid alone may read it
DEVICE_ATTRIBUTES: Final = frozenset(
    {"device.sm_count", "device.shared_bytes", "device.compute_capability", "device.l2_bytes", RESIDENT_BLOCKS}
)
FUNCTIONS: Final = frozenset({"ceil_div", "min", "max", "sizeof"})
BINARY: Final = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow)
UNARY: Final = (ast.USub, ast.UAdd, ast.Not)
COMPARE: Final = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
BOOLEANS: Final = {"true": True, "false": False}  # TOML spells them so, and so may an expression

MAX_LENGTH: Final = 500  # characters; what a person can still review in a diff
MAX_DEPTH: Final = 20
MAX_LITERAL: Final = LIMIT

_CALLABLE: Final = ", ".join(sorted(FUNCTIONS))
_CEIL_DIV: Final = "; write ceil_div(a, b), which is a / b rounded up"
_INSTEAD: Final = {
    **dict.fromkeys(("ceil", "cdiv", "div_up", "divup"), _CEIL_DIV),
    **dict.fromkeys(("floor", "int", "trunc"), "; write a // b, which is a / b rounded down"),
    "aligned": "; it stands in `requires`, and what a configuration asks of an address is the argument's `align`",
}
_ALLOWED: Final = (
    "allowed are + - * // % **, comparisons, and/or/not, x if c else y, ceil_div(a, b), min, max and sizeof(T)"
)
_PLAIN: Final = "write one comparison, as in layout == 'row' or alpha < 0.5"
_SYMBOLS: Final[dict[type[ast.AST], str]] = {
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Invert: "~",
    ast.LShift: "<<",
    ast.MatMult: "@",
    ast.RShift: ">>",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}


class ExpressionError(Error):
    """An expression is not in the language, or has no value in some environment."""


def syntax_tree(text: str) -> ast.expr:
    """Return the whitelisted tree of `text`, true and false replaced; else raise ExpressionError."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"is {len(text)} characters long; at most {MAX_LENGTH} are allowed")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"'{text}' is not an expression; {_ALLOWED}") from None
    _require(tree, text, MAX_DEPTH)
    booleans = _Booleans().visit(tree)
    assert isinstance(booleans, ast.expr)  # it replaces expressions by expressions
    return booleans


def plain_literal(node: ast.expr) -> str | float | None:
    """Return the value of a text or a float, a negative one included; None for every other node."""
    match node:
        case ast.Constant(value=str() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float() as value)):
            return -value
    return None


def literal_comparison(node: ast.expr) -> tuple[str, ast.cmpop, str | float] | None:
    """Return (name, operator, literal) of a comparison of a name with a text or a float, the name first; else None."""
    match node:
        case ast.Compare(left=ast.Name(id=name), ops=[operator], comparators=[other]):
            literal, compared = plain_literal(other), operator
        case ast.Compare(left=other, ops=[operator], comparators=[ast.Name(id=name)]):
            literal, compared = plain_literal(other), TURNED.get(type(operator), type(operator))()
        case _:
            return None
    return None if literal is None else (name, compared, literal)


TURNED: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {  # a comparison with its sides exchanged
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}


def literal_comparisons(node: ast.expr) -> list[tuple[str, str | float]]:
    """Return each name that is compared with a text or a float, with that."""
    found = (literal_comparison(each) for each in ast.walk(node) if isinstance(each, ast.expr))
    return [(name, literal) for name, _, literal in filter(None, found)]


def children_of(node: ast.expr) -> list[ast.expr]:
    """Return the operands of `node`; a function's name is none, nor is the `device` of its attributes."""
    match node:
        case ast.Attribute():
            return []
        case ast.Call():
            return list(node.args)
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def name_of(node: ast.Name | ast.Attribute) -> str:
    """Return the name that a node reads, an attribute of `device` in full."""
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)


def names_in(node: ast.expr, *, operands_of_sizeof: bool = True) -> frozenset[str]:
    """Return the names that `node` reads, the attributes of `device` in full.

    Without `operands_of_sizeof` those that have to be numbers: neither these nor what a text or float is compared with.
    """
    match node:
        case ast.Name() | ast.Attribute():
            return frozenset({name_of(node)})
        case ast.Call(func=ast.Name(id="sizeof")) if not operands_of_sizeof:
            return frozenset()
        case ast.Compare() if not operands_of_sizeof and literal_comparison(node) is not None:
            return frozenset()
    below = (names_in(child, operands_of_sizeof=operands_of_sizeof) for child in children_of(node))
    return frozenset().union(*below)


def _require(node: ast.expr, text: str, depth: int) -> None:
    """Raise ExpressionError unless `node` is in the language; recursion is bounded by `depth`."""
    if depth == 0:
        raise ExpressionError(f"'{text}' is nested more than {MAX_DEPTH} deep; split it into several constraints")
    match node:
        case ast.Constant():
            _require_literal(node, text)
        case ast.Attribute():
            _require_attribute(node, text)
        case ast.Call():
            _require_call(node, text)
        case ast.BinOp() | ast.UnaryOp() | ast.Compare():
            _require_operators(node, text)
        case ast.Name() | ast.BoolOp() | ast.IfExp():
            pass
        case _:
            raise _refusal(text, node)
    compared = _compares_plainly(node, text)
    for child in children_of(node):
        if not (compared and plain_literal(child) is not None):
            _require(child, text, depth - 1)


def _compares_plainly(node: ast.expr, text: str) -> bool:
    """Return whether `node` compares a name with a text or a float; raise ExpressionError where it cannot."""
    if not isinstance(node, ast.Compare):
        return False
    literals = [found for one in (node.left, *node.comparators) if (found := plain_literal(one)) is not None]
    if not literals:
        return False
    if literal_comparison(node) is None:
        raise ExpressionError(f"'{text}' compares {literals[0]!r} with what is not one name; {_PLAIN}")
    if isinstance(literals[0], str) and not isinstance(node.ops[0], ast.Eq | ast.NotEq):
        raise ExpressionError(f"'{text}' orders a text; write == or !=")
    if isinstance(literals[0], str) and not (literals[0].isprintable() and literals[0].isascii()):
        raise ExpressionError(f"'{text}' has a text that is not printable ASCII")
    if isinstance(literals[0], str) and set(literals[0]) & set("'\"\\"):
        raise ExpressionError(f"'{text}' has a text with a quote or a backslash in it")
    return True


def _require_operators(node: ast.BinOp | ast.UnaryOp | ast.Compare, text: str) -> None:
    for operator in node.ops if isinstance(node, ast.Compare) else [node.op]:
        if isinstance(operator, ast.Div):
            raise ExpressionError(f"'{text}' divides with '/'; write '//' or ceil_div(a, b)")
        if not isinstance(operator, (*BINARY, *UNARY, *COMPARE)):
            raise _refusal(text, operator)


def _refusal(text: str, node: ast.AST) -> ExpressionError:
    return ExpressionError(f"'{text}' uses {_SYMBOLS.get(type(node), type(node).__name__)}; {_ALLOWED}")


def _require_literal(node: ast.Constant, text: str) -> None:
    if not isinstance(node.value, int):
        said = "only integers and bools are allowed"
        said = f"{said}, and texts and floats alone in a comparison with a name" if plain_literal(node) else said
        raise ExpressionError(f"'{text}' has the literal {node.value!r}; {said}")
    if node.value > MAX_LITERAL:
        raise ExpressionError(f"'{text}' has a literal beyond 2**62")


def _require_attribute(node: ast.Attribute, text: str) -> None:
    dotted = ast.unparse(node) if isinstance(node.value, ast.Name) else f"...{node.attr}"
    if dotted not in DEVICE_ATTRIBUTES:
        known = closest(dotted, DEVICE_ATTRIBUTES) or f"; only {', '.join(sorted(DEVICE_ATTRIBUTES))} can be read"
        raise ExpressionError(f"'{text}' reads the attribute '{dotted}'{known}")


def _require_call(node: ast.Call, text: str) -> None:
    name = ast.unparse(node.func)
    if name not in FUNCTIONS:
        plain = name.rpartition(".")[2]
        known = _INSTEAD.get(plain) or closest(plain, FUNCTIONS) or f"; only {_CALLABLE} can be called"
        raise ExpressionError(f"'{text}' calls '{name}'{known}")
    if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
        raise ExpressionError(f"'{text}' passes a keyword or starred argument to {name}; pass plain values")
    count = len(node.args)
    match name:
        case "sizeof":
            operand = node.args[0] if count == 1 else None
            if not isinstance(operand, ast.Name) or operand.id in BOOLEANS:
                raise ExpressionError(f"'{text}' must give sizeof one type, as in sizeof(T)")
        case "ceil_div":
            if count != 2:  # noqa: PLR2004 - a / b
                raise ExpressionError(f"'{text}' must give ceil_div two values, as in ceil_div(n, block)")
        case _:
            if count < 2:  # noqa: PLR2004 - Python's own min(x) wants an iterable
                raise ExpressionError(f"'{text}' must give {name} at least two values")


class _Booleans(ast.NodeTransformer):
    """Replaces the names true and false."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(BOOLEANS[node.id]) if node.id in BOOLEANS else node
