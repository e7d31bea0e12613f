"""The language of costs: from the texts of a lock, which anybody may edit, to a function of the dims.

A cost is a sum of terms, each a text with a whole number of femtoseconds. A text may hold dims, whole numbers, + and -
and *, // and % and `ceil_div` by a positive number or by `max(1, ...)`, comparisons, and/or/not, `x if c else y`, `min`
and `max`. So a cost has a value at every problem, found in exact integers, and nothing can be written that takes long
to compute.
"""

from __future__ import annotations

import ast
from collections import Counter
from copy import copy
from functools import lru_cache

from .expressions import LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from .table import Formula

    TermTimes = Iterable[tuple[str, int]]  # a cost: its terms, each with its femtoseconds
    # Of an expression: what it is but for its operands, a tree whose operands do not count, and where those stand.
    Part = tuple[tuple[object, ...], ast.expr, tuple[int, ...]]

LONGEST = 3000  # characters of a term
DEEPEST = 30  # levels of a term
MOST_TERMS = 200  # of a cost
KEPT = 1 << 14  # terms that stay read: the costs of a kernel have most of theirs in common, and are read several times
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


def shared(costs: Iterable[TermTimes], dims: Collection[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return costs as Python: the parts that they have more than once, each with a name, and the costs by these names.

    Parts come before those that they are a part of. Costs of one kernel have most of what they divide by in common.
    Raises ValueError as `check`.
    """
    prefix = "_"
    while any(name.startswith(prefix) for name in dims):
        prefix += "_"
    found, roots = _Parts(), []
    for cost in costs:
        check(listed := tuple(cost), dims)
        roots.append(found.place(listed))
    parts = [(name, ast.unparse(tree)) for name, tree in found.name(prefix)]
    return parts, [ast.unparse(found.tree(root)) for root in roots]


def names_read(costs: Iterable[TermTimes], dims: Collection[str]) -> list[str]:
    """Return which of `dims` costs, which were checked, read; sorted."""
    nodes = [node for cost in costs for text, _ in cost for _, node, _ in _parts_of(text)]
    return sorted({node.id for node in nodes if isinstance(node, ast.Name)} & set(dims))


def compiled(costs: Iterable[TermTimes], dims: Collection[str]) -> Formula:
    """Return a function of the dims that costs read, by name, to their values; raises ValueError as `check`."""
    listed = [tuple(cost) for cost in costs]
    parts, values = shared(listed, dims)
    body = f"({', '.join(values)},)" if values else "()"
    named = "".join(f"{name} := {text}, " for name, text in parts)
    source = f"lambda {', '.join(names_read(listed, dims))}: " + (f"({named}{body})[-1]" if parts else body)
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


def _is_plain(node: ast.expr) -> bool:
    """Return whether computing a part costs no more than looking up its name."""
    match node:
        case ast.UnaryOp(operand=operand):
            return isinstance(operand, ast.Name)
    return isinstance(node, ast.Name | ast.Constant)


class _Distinct:
    """Parts of expressions, each distinct one once and behind its operands."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._places: dict[tuple[object, ...], int] = {}

    def keep(self, head: tuple[object, ...], node: ast.expr, below: tuple[int, ...]) -> int:
        """Return where a part stands; a new one is added."""
        key = *head, *below
        if key not in self._places:
            self._places[key] = len(self.parts)
            self.parts.append((head, node, below))
        return self._places[key]

    def joined(self, left: int, op: ast.operator, right: int) -> int:
        """Return where two parts stand that are joined by an operator."""
        node = ast.BinOp(left=self.parts[left][1], op=op, right=self.parts[right][1])
        return self.keep((ast.BinOp, type(op)), node, (left, right))

    def negated(self, place: int) -> int:
        """Return where a part stands with its sign turned."""
        node = ast.UnaryOp(op=ast.USub(), operand=self.parts[place][1])
        return self.keep((ast.UnaryOp, ast.USub), node, (place,))

    def place(self, node: ast.expr) -> int:
        """Take the parts of an expression, and return where it stands.

        `ceil_div(a, b)` becomes `-(-a // b)`, which costs no call.
        """
        match node:
            case ast.Call(func=ast.Name(id="ceil_div"), args=[a, b]):
                return self.negated(self.joined(self.negated(self.place(a)), ast.FloorDiv(), self.place(b)))
            case ast.Name(id=name):
                return self.keep((ast.Name, name), node, ())
            case ast.Constant(value=value):
                return self.keep((ast.Constant, type(value), value), node, ())
        head: list[object] = [type(node)]
        below: list[int] = []
        for field in node._fields:
            value = getattr(node, field)
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, ast.expr):
                    below.append(self.place(one))
                else:
                    head.append(type(one))
        return self.keep(tuple(head), node, tuple(below))


@lru_cache(KEPT)
def _parts_of(text: str) -> tuple[Part, ...]:
    """Return the distinct parts of a term, which was checked; the term itself is the last."""
    found = _Distinct()
    found.place(ast.parse(text, mode="eval").body)
    return tuple(found.parts)


class _Parts:
    """The parts of some costs, each distinct one once, in an order in which parts come before their wholes."""

    def __init__(self) -> None:
        self._distinct = _Distinct()
        self._terms: dict[str, int] = {}  # where terms stand, by their texts
        self._roots: list[int] = []  # where costs stand
        self._names: dict[int, str] = {}

    def place(self, cost: TermTimes) -> int:
        """Take the parts of a cost, the sum of its terms by their femtoseconds; return where it stands."""
        total: int | None = None
        for text, femtoseconds in cost:
            place = self._distinct.place(ast.Constant(femtoseconds))
            if _parts_of(text)[-1][0] != (ast.Constant, int, 1):
                place = self._distinct.joined(place, ast.Mult(), self._term(text))
            total = place if total is None else self._distinct.joined(total, ast.Add(), place)
        root = self._distinct.place(ast.Constant(0)) if total is None else total
        self._roots.append(root)
        return root

    def name(self, prefix: str) -> Iterator[tuple[str, ast.expr]]:
        """Give a name to each part that is used more than once and has to be computed; yield them with their trees.

        Uses are those by distinct wholes, and by costs.
        """
        parts = self._distinct.parts
        uses = Counter([*self._roots, *(one for _, _, below in parts for one in below)])
        for place, (_, node, _) in enumerate(parts):
            if uses[place] > 1 and not _is_plain(node):
                tree, name = self.tree(place), f"{prefix}{len(self._names)}"
                self._names[place] = name
                yield name, tree

    def tree(self, place: int) -> ast.expr:
        """Return the tree of a part, by the names that were given."""
        if place in self._names:
            return ast.Name(self._names[place])
        _, node, below = self._distinct.parts[place]
        made, trees = copy(node), iter(below)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(made, name, self.tree(next(trees)))
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                setattr(made, name, [self.tree(next(trees)) for _ in value])
        return made

    def _term(self, text: str) -> int:
        if text not in self._terms:
            places: list[int] = []
            for head, node, below in _parts_of(text):
                places.append(self._distinct.keep(head, node, tuple([places[one] for one in below])))
            self._terms[text] = places[-1]
        return self._terms[text]
