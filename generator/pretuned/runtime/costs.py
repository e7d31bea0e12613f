"""The language of costs: from the texts of a lock, which anybody may edit, to a function of the dims.

A cost is a sum of terms, each a text with a whole number of femtoseconds. A text may hold dims, whole numbers, + and -
and *, // and % and `ceil_div` by a positive number or by `max(1, ...)`, comparisons, and/or/not, `x if c else y`, `min`
and `max`. So a cost has a value at every problem, found in exact integers, and nothing can be written that takes long
to compute.
"""

from __future__ import annotations

import ast
from copy import copy
from functools import lru_cache

from .expressions import LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from .table import Formula

    TermTimes = Iterable[tuple[str, int]]  # a cost: its terms, each with its femtoseconds

LONGEST = 1000  # characters of a term
DEEPEST = 20  # levels of a term
MOST_TERMS = 200  # of a cost
KEPT = 4096  # terms that stay read: the costs of a kernel have most of theirs in common, and are read several times
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)
_DIVISION = (ast.FloorDiv, ast.Mod)
_UNARY = (ast.USub, ast.UAdd, ast.Not)
_COMPARISON = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
ALLOWED = (
    "dims, integers, + - *, // and % and ceil_div by a positive integer or max(1, ...), comparisons, and/or/not, "
    "if/else, min, max"
)


def check(cost: TermTimes, dims: Collection[str]) -> None:
    """Raise ValueError for what is not a cost over `dims`."""
    terms, known = tuple(cost), frozenset(dims)
    if len(terms) > MOST_TERMS:
        raise ValueError(f"a cost has {len(terms)} terms; at most {MOST_TERMS} can be read")
    for text, femtoseconds in terms:
        if type(femtoseconds) is not int or not 0 <= femtoseconds <= LIMIT:
            raise ValueError(
                f"the term {text!r:.80} has {femtoseconds!r:.40} femtoseconds; write a number of 0 or more"
            )
        if not isinstance(text, str) or len(text) > LONGEST:
            raise ValueError(f"a term is {text!r:.80}; write an expression of at most {LONGEST} characters")
        _check_term(text, known)


def written(cost: TermTimes, dims: Collection[str]) -> str:
    """Return a cost as Python over `dims`; raises ValueError as `check`."""
    terms = tuple(cost)
    check(terms, dims)
    return " + ".join(f"{femtoseconds}{_factor(text)}" for text, femtoseconds in terms) or "0"


def shared(costs: Sequence[str], dims: Collection[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the parts that written costs have more than once, each with a name, and the costs by these names.

    Parts come before those that they are a part of. Costs of one kernel have most of what they divide by in common.
    """
    prefix = "_"
    while any(name.startswith(prefix) for name in dims):
        prefix += "_"
    found = _Parts()
    roots = [found.place(ast.parse(cost, mode="eval").body) for cost in costs]
    parts = [(name, ast.unparse(tree)) for name, tree in found.name(prefix)]
    return parts, [ast.unparse(found.tree(root)) for root in roots]


def names_read(costs: Iterable[str], dims: Collection[str]) -> list[str]:
    """Return which of `dims` written costs read, sorted."""
    trees = [ast.parse(cost, mode="eval") for cost in costs]
    found = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return sorted(found & set(dims))


def compiled(costs: Iterable[TermTimes], dims: Collection[str]) -> Formula:
    """Return a function of the dims that costs read, by name, to their values; raises ValueError as `written`."""
    texts = [written(cost, dims) for cost in costs]
    parts, values = shared(texts, dims)
    body = f"({', '.join(values)},)" if texts else "()"
    named = "".join(f"{name} := {text}, " for name, text in parts)
    source = f"lambda {', '.join(names_read(texts, dims))}: " + (f"({named}{body})[-1]" if parts else body)
    made: Formula = eval(source, {"__builtins__": {}, "min": min, "max": max})  # noqa: S307 - of trees that were checked
    return made


@lru_cache(KEPT)
def _check_term(text: str, dims: frozenset[str]) -> None:
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"the term {text!r:.80} is not an expression; write {ALLOWED}") from None
    if not is_allowed(tree, dims):
        raise ValueError(f"the term {text!r:.80} is not a cost over {', '.join(sorted(dims))}; write {ALLOWED}")


@lru_cache(KEPT)
def _factor(text: str) -> str:
    """Return a term, which was checked, as what follows its femtoseconds, ` * (n + 1)`; nothing for the term 1."""
    term = _WrittenOut().visit(ast.parse(text, mode="eval").body)
    if isinstance(term, ast.Constant) and term.value == 1:
        return ""
    return ast.unparse(ast.BinOp(left=ast.Constant(1), op=ast.Mult(), right=term)).removeprefix("1")


def is_allowed(node: ast.expr, dims: Collection[str], depth: int = DEEPEST) -> bool:
    """Return whether a tree is in the language, and at most so deep."""
    match node:
        case ast.Constant(value=int() as value):
            return value <= LIMIT
        case ast.Name(id=name):
            return name in dims
        case ast.BinOp(left=left, op=op, right=right):
            divides = isinstance(op, _DIVISION)
            below: Sequence[ast.expr] = [left, right]
            allowed = _is_positive(right) if divides else isinstance(op, _ARITHMETIC)
        case ast.UnaryOp(op=op, operand=operand):
            below, allowed = [operand], isinstance(op, _UNARY)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            below, allowed = [left, *comparators], all(isinstance(op, _COMPARISON) for op in ops)
        case ast.BoolOp(values=values):
            below, allowed = values, True
        case ast.IfExp(test=test, body=body, orelse=orelse):
            below, allowed = [test, body, orelse], True
        case ast.Call(func=ast.Name(id="ceil_div"), args=[_, divisor] as args, keywords=[]):
            below, allowed = args, _is_positive(divisor)
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _, *_] as args, keywords=[]):
            below, allowed = args, True
        case _:
            return False
    return allowed and depth > 1 and all(is_allowed(one, dims, depth - 1) for one in below)


def _is_positive(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="max"), args=args):
            return any(map(_is_positive, args))
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0


class _WrittenOut(ast.NodeTransformer):
    """Writes `ceil_div(a, b)` as `-(-a // b)`, which costs no call."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="ceil_div"), args=[a, b]):
                below = ast.BinOp(left=ast.UnaryOp(op=ast.USub(), operand=a), op=ast.FloorDiv(), right=b)
                return ast.UnaryOp(op=ast.USub(), operand=below)
        return node


def _is_plain(node: ast.expr) -> bool:
    """Return whether computing a part costs no more than looking up its name."""
    match node:
        case ast.UnaryOp(operand=operand):
            return isinstance(operand, ast.Name)
    return isinstance(node, ast.Name | ast.Constant)


class _Parts:
    """The parts of some expressions, each distinct one once, in an order in which parts come before their wholes."""

    def __init__(self) -> None:
        self._places: dict[tuple[object, ...], int] = {}
        self._nodes: list[tuple[ast.expr, tuple[int, ...]]] = []
        self._uses: list[int] = []  # by how many distinct wholes and expressions
        self._names: dict[int, str] = {}

    def place(self, root: ast.expr) -> int:
        """Take the parts of an expression; return where it stands."""
        place = self._place(root)
        self._uses[place] += 1
        return place

    def name(self, prefix: str) -> Iterator[tuple[str, ast.expr]]:
        """Give a name to each part that is used more than once and has to be computed; yield them with their trees."""
        for place, (node, _) in enumerate(self._nodes):
            if self._uses[place] > 1 and not _is_plain(node):
                tree, name = self.tree(place), f"{prefix}{len(self._names)}"
                self._names[place] = name
                yield name, tree

    def tree(self, place: int) -> ast.expr:
        """Return the tree of a part, by the names that were given."""
        if place in self._names:
            return ast.Name(self._names[place])
        node, below = self._nodes[place]
        made, trees = copy(node), iter(below)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(made, name, self.tree(next(trees)))
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                setattr(made, name, [self.tree(next(trees)) for _ in value])
        return made

    def _place(self, node: ast.expr) -> int:
        below = tuple(self._place(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        kind = [type(one) for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr)]
        own = getattr(node, "id", getattr(node, "value", None))
        key = (type(node), *kind, own if isinstance(own, str | int) else None, type(own), *below)
        if (found := self._places.get(key)) is None:
            found = self._places[key] = len(self._nodes)
            self._nodes.append((node, below))
            self._uses.append(0)
            for child in below:
                self._uses[child] += 1
        return found
