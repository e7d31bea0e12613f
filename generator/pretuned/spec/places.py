"""Where a call tells a dim: an extent of an array, solved for the dim where it is not the dim alone; or a keyword.

An extent can be solved that reads one name and is linear in it: `2 * d`, `n + 1`, `4 * k + 2`. Inputs come before
outputs, and an extent that is the dim alone before one that has to be solved. Of the outputs, which a call must bring
then, those count that tell all such dims and are few.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pretuned.spec.expressions import Expression, ExpressionError, OwnExtent

if TYPE_CHECKING:
    from pretuned.spec.model import Argument, KernelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DimPlace:
    """An extent that gives a dim: it is `factor * dim + offset`, and stands in the spec as `extent`."""

    argument: str
    axis: int
    factor: int
    offset: int
    extent: Expression

    @property
    def alone(self) -> bool:
        """Whether the extent is the dim itself."""
        return self.factor == 1 and self.offset == 0


def linear(expression: Expression) -> tuple[str, int, int] | None:
    """Return (name, factor, offset) of an expression that is `factor * name + offset`, factor at least 1; or None."""
    if len(expression.names) != 1 or expression.type_names or expression.reads_device:
        return None
    (name,) = expression.names
    if not _is_linear(expression.tree):
        return None
    try:
        offset = int(expression.evaluate({name: 0}))
        factor = int(expression.evaluate({name: 1})) - offset
    except ExpressionError:
        return None
    return (name, factor, offset) if factor >= 1 else None


def _is_linear(node: ast.expr) -> bool:
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _is_linear(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return _is_linear(left) and _is_linear(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            named = [side for side in (left, right) if any(isinstance(node, ast.Name) for node in ast.walk(side))]
            return len(named) < 2 and _is_linear(left) and _is_linear(right)  # noqa: PLR2004 - both sides
    return False


def place_of(spec: KernelSpec, dim: str) -> DimPlace | None:
    """Return the extent that gives a dim; None where none does, or a keyword or lists of arrays do."""
    if dim in spec.dims and spec.dims[dim].keyword:
        return None
    if any(dim == one.count or dim in one.own for one in spec.lists):
        return None
    return _best(_places(spec.required_inputs, dim)) or _best(_places(_few_outputs(spec), dim))


def _best(places: Sequence[DimPlace]) -> DimPlace | None:
    return next((place for place in places if place.alone), places[0] if places else None)


def _few_outputs(spec: KernelSpec) -> list[Argument]:
    """Return outputs that together tell the dims that no input and no keyword does: the one that tells most first."""
    told = {name for one in spec.lists for name in (one.count, *one.own)}
    told |= {name for name, dim in spec.dims.items() if dim.keyword}
    untold = {name for name in spec.dims if name not in told and not _places(spec.required_inputs, name)}
    outputs = [argument for argument in spec.arrays if argument.role == "out"]
    chosen: list[Argument] = []

    def tells(output: Argument) -> tuple[int, int]:
        found = [place for place in map(_best, (_places([output], dim) for dim in sorted(untold))) if place is not None]
        return len(found), sum(place.alone for place in found)

    while outputs and tells(best := max(outputs, key=tells)) > (0, 0):
        chosen.append(best)
        untold -= {dim for dim in untold if _places([best], dim)}
    return chosen


def _places(arguments: Sequence[Argument], dim: str) -> list[DimPlace]:
    """Return the extents of arrays that give a dim."""
    return [
        DimPlace(argument=argument.name, axis=axis, factor=solved[1], offset=solved[2], extent=extent)
        for argument in arguments
        for axis, extent in enumerate(argument.shape or ())
        if not isinstance(extent, OwnExtent) and (solved := linear(extent)) is not None and solved[0] == dim
    ]


def telling_outputs(spec: KernelSpec) -> dict[str, list[str]]:
    """Return the outputs that a call must bring, since their shapes give dims that no input does, with those dims."""
    found: dict[str, list[str]] = {}
    outputs = {argument.name for argument in spec.arrays if argument.role == "out"}
    for dim in spec.dims:
        place = place_of(spec, dim)
        if place is not None and place.argument in outputs:
            found.setdefault(place.argument, []).append(dim)
    return found
