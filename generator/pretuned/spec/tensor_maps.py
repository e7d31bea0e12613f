"""Tensor maps as a spec has them, and what TMA asks of configurations and calls for each, as conditions.

Conditions join those of `where`. So a box that no tensor map has prunes the space, rows that do not end where TMA wants
them are a guard, and a default that has to serve them is a fault with a problem to show for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Final, Literal, Protocol

from pydantic import Field

from pretuned.runtime.tensor_maps import ADDRESS_BYTES, LARGEST_BOX, LARGEST_RANK, MAPS_FROM, width_bytes
from pretuned.runtime.types import DTYPES
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.parts import Model
from pretuned.spec.values import Expr, Name

ADDRESS: Final = Expression(str(ADDRESS_BYTES))


class ShapedArray(Protocol):
    """What maps ask of an array."""

    @property
    def name(self) -> str: ...  # noqa: D102 - as of an argument

    @property
    def role(self) -> str | None: ...  # noqa: D102 - as above

    @property
    def dtype(self) -> str: ...  # noqa: D102 - as above

    @property
    def shape(self) -> tuple[Expression, ...] | None: ...  # noqa: D102 - as above

    @property
    def strides(self) -> tuple[Expression, ...] | None: ...  # noqa: D102 - as above


class TensorMapSpec(Model):
    """A CUtensorMap of an array, passed by value: `box` are the elements that one copy moves, an entry for each dim.

    `swizzle` is how they lie in shared memory, `l2` the bytes that are brought into L2 at once, `fill` what stands
    outside the array.
    """

    name: Name
    array: Name
    box: Annotated[tuple[Expr, ...], Field(min_length=1, max_length=LARGEST_RANK)]
    swizzle: Literal["none", "32B", "64B", "128B"] = "none"
    l2: Literal["none", "64B", "128B", "256B"] = "none"
    fill: Literal["zeros", "nan"] = "zeros"


def available(maps: Collection[TensorMapSpec], compute_capability: int) -> bool:
    """Return whether a device has maps, where there are any."""
    return not maps or compute_capability >= MAPS_FROM


def conditions(
    maps: Iterable[TensorMapSpec], arrays: Iterable[ShapedArray], known: Collection[str]
) -> tuple[Expression, ...]:
    """Return what maps ask; nothing of one that is at fault, which is reported elsewhere."""
    named, known = {array.name: array for array in arrays}, {*known, *DTYPES}
    found: dict[Expression, None] = {}
    for one in maps:
        array = named.get(one.array)
        if array is None or not array.shape:
            continue
        if any(not extent.names <= known for extent in (*one.box, *array.shape, *(array.strides or ()))):
            continue
        for text in _texts(one, array):
            with suppress(ExpressionError):  # too long or too deep: what it says is found at the problem
                found[Expression.parse(text)] = None
    return tuple(found)


def _texts(one: TensorMapSpec, array: ShapedArray) -> Iterator[str]:
    size = f"sizeof({array.dtype})"
    for extent in one.box:
        if extent.constant is None:
            yield f"1 <= {extent} <= {LARGEST_BOX}" if _plain(extent) else f"1 <= ({extent}) <= {LARGEST_BOX}"
    inner = _factor(one.box[-1])
    if one.box[-1].constant is None:
        yield f"{inner} * {size} % {ADDRESS_BYTES} == 0"
        if width := width_bytes(one.swizzle):
            yield f"{inner} * {size} <= {width}"
    shape = array.shape or ()
    for stride in (array.strides or ())[:-1]:
        if stride.constant is None:  # no product: strides may be so large that it has no value
            yield f"{_factor(stride)} % ({ADDRESS_BYTES} // {size}) == 0"
    apart = array.strides is None and len(shape) > 1  # by multiples of the last extent
    if (apart or array.role != "in") and shape[-1].constant is None:  # stores end with a unit, not with the row
        yield f"{_factor(shape[-1])} * {size} % {ADDRESS_BYTES} == 0"


def _plain(extent: Expression) -> bool:
    return str(extent).isidentifier()


def _factor(extent: Expression) -> str:
    return str(extent) if _plain(extent) else f"({extent})"
