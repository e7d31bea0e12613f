"""All that a kernel's default may be: what its formulas give together, over every problem that calls may bring.

Each of these is compiled and ships, so that a call always has the default of its problem. Conditions are tried true and
false, one after the other. What cannot be, such as n < 64 with n > 128, is left out where conditions compare single
dims with numbers; of others every combination counts, which may be more than there are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from pretuned.runtime.expressions import LIMIT
from pretuned.runtime.records import Value
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.folding import literal_value
from pretuned.spec.formulas import Formula, formulas, given
from pretuned.spec.grammar import TURNED, children_of
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, choices, default_of, offered, pairs

MAX_DEFAULTS: Final = 16  # of one specialisation; each is compiled for every architecture
MAX_TRIED: Final = 1024  # combinations of conditions

Spans = Mapping[str, tuple[int, int]]  # the least and the most that a dim may be


def defaults(spec: KernelSpec, specialisation: Pairs, implementation: str | None = None) -> tuple[Configuration, ...]:
    """Return what an implementation's default may be for one specialisation, sorted; by default the kernel's.

    It is one configuration where no formula reads what a call decides, and none where the implementation takes no part
    in the specialisation. Raises ExpressionError where there are too many, which a sound spec does not have.
    """
    name = spec.default_implementation if implementation is None else implementation
    default = spec.all_implementations[name].default
    if not offered(spec, specialisation, name):
        return ()
    if not formulas(default):
        return (default_of(spec, name),)
    known = choices(spec, specialisation)
    open_ones = {parameter: one.fold(known) for parameter, one in formulas(default).items()}
    spans = dict.fromkeys(spec.free_dims, (0, LIMIT))
    found: set[Configuration] = set()
    for tried, chosen in enumerate(_outcomes(open_ones, {}, spans)):
        found.add(Configuration(implementation=name, values=pairs(given(default | chosen, known))))
        if tried == MAX_TRIED or len(found) > MAX_DEFAULTS:
            raise ExpressionError(
                f"its formulas give more than {MAX_DEFAULTS} configurations, each of which ships, or have too many "
                "conditions; let them have fewer branches, or the same conditions"
            )
    return tuple(sorted(found))


def _outcomes(chains: Mapping[str, Formula], truths: Mapping[str, bool], spans: Spans) -> Iterator[dict[str, Value]]:
    """Yield what formulas give together; `truths` are the conditions that are settled, by their texts."""
    found: dict[str, Value] = {}
    for name, formula in chains.items():
        for branch in formula.branches:
            text = str(branch.condition)
            if branch.condition is not None and text not in truths:
                for truth in (True, False):
                    if (left := _narrowed(spans, branch.condition.tree, truth=truth)) is not None:
                        yield from _outcomes(chains, {**truths, text: truth}, left)
                return
            if branch.condition is None or truths[text]:
                found[name] = branch.value
                break
    yield found


def _narrowed(spans: Spans, node: ast.expr, *, truth: bool) -> Spans | None:
    """Return the sizes at which a condition may hold, or not (`truth`); None where there are none."""
    if not _always_has_value(node):
        return spans
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _narrowed(spans, operand, truth=not truth)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is truth:
            return _all_narrowed(spans, values, truth=truth)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(spans, left, op, right, truth=truth)
        case ast.Compare(left=left, ops=ops, comparators=comparators) if truth:
            links = zip([left, *comparators], ops, comparators, strict=False)
            return _all_narrowed(spans, [ast.Compare(a, [op], [b]) for a, op, b in links], truth=True)
    return spans


def _all_narrowed(spans: Spans, nodes: list[ast.expr] | list[ast.Compare], *, truth: bool) -> Spans | None:
    left: Spans | None = spans
    for node in nodes:
        left = None if left is None else _narrowed(left, node, truth=truth)
    return left


def _always_has_value(node: ast.expr) -> bool:
    """Whether a condition compares names and numbers, without arithmetic that may have no value."""
    match node:
        case ast.Name():
            return True
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return all(_always_has_value(child) for child in children_of(node))
    return literal_value(node) is not None


_OPPOSITE: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


def _compared(spans: Spans, left: ast.expr, op: ast.cmpop, right: ast.expr, *, truth: bool) -> Spans | None:
    kind = type(op)
    if not isinstance(left, ast.Name):
        left, right, kind = right, left, TURNED.get(kind, kind)
    kind = kind if truth else _OPPOSITE[kind]
    number = literal_value(right)
    if not isinstance(left, ast.Name) or number is None or left.id not in spans:
        return spans
    low, high = spans[left.id]
    if kind is ast.NotEq:  # takes an end away, or leaves a gap that nothing here remembers
        low, high = low + (number == low), high - (number == high)
    least = {ast.Gt: number + 1, ast.GtE: number, ast.Eq: number}.get(kind, low)
    most = {ast.Lt: number - 1, ast.LtE: number, ast.Eq: number}.get(kind, high)
    low, high = max(low, least), min(high, most)
    return None if low > high else {**spans, left.id: (low, high)}


def depends(spec: KernelSpec) -> bool:
    """Return whether the kernel's default depends on the problem."""
    return bool(formulas(spec.all_implementations[spec.default_implementation].default))


def conditions(spec: KernelSpec) -> list[Expression]:
    """Return the conditions that the kernel's default depends on."""
    own = formulas(spec.all_implementations[spec.default_implementation].default)
    return [branch.condition for one in own.values() for branch in one.branches if branch.condition is not None]
