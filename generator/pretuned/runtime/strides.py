"""Rows that lie apart: what a call's arrays say of the strides that the spec names."""

from __future__ import annotations

import math
from itertools import pairwise

from .errors import ArgumentError, qualified
from .remedies import instead
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .adapters import ArrayView
    from .table import Array, Kernel


def contiguous(array: Array, shape: Sequence[int]) -> dict[str, int]:
    """Return the named strides of an array, in elements, where all of it is contiguous."""
    return {name: math.prod(shape[axis + 1 :]) for axis, name in enumerate(array.strides)}


def strides_of(kernel: Kernel, array: Array, shape: Sequence[int], view: ArrayView | None) -> dict[str, int]:
    """Return the named strides of a call's array, in elements; an extent of 1 or 0 has that of a contiguous array.

    Raises ArgumentError where rows overlap or lie in another order, and where what has no name is not contiguous.
    """
    if view is None or view.strides is None:
        return contiguous(array, shape)
    size, found = DTYPES[view.dtype].size_bytes, dict[str, int]()
    row = side_by_side = 1  # elements that one index of the axis reaches over, and that it would if contiguous
    for axis in reversed(range(len(shape))):
        stride, beyond = divmod(view.strides[axis], size)
        name = array.strides[axis] if axis < len(array.strides) else ""
        if shape[axis] <= 1:
            stride = side_by_side
        elif not name and (beyond or stride != side_by_side):
            raise _wrong(kernel, array, view, f"an array that is C-contiguous but for {' and '.join(array.strides)}")
        elif beyond:
            raise _wrong(kernel, array, view, f"{name} to be a whole number of elements, {size} bytes each")
        elif stride < row:
            raise _wrong(kernel, array, view, f"{name} of at least {row} elements, so that none overlap")
        if name:
            found[name] = stride
        row += (shape[axis] - 1) * stride
        side_by_side = shape[axis] * stride
    return found


def _wrong(kernel: Kernel, array: Array, view: ArrayView, expected: str) -> ArgumentError:
    return ArgumentError(
        f"{qualified(kernel.name)}: {array.name}: expected {expected}, found strides {view.strides} in bytes for shape "
        f"{view.shape}; {instead(kernel, array, view)}"
    )


def collapsed(kernel: Kernel, array: Array, view: ArrayView, count: int) -> tuple[int, ...] | None:
    """Return a view's strides in bytes with the first `count` dimensions as one; None for a contiguous view.

    Raises ArgumentError where these do not lie at one distance.
    """
    if view.strides is None:
        return None
    leading = [pair for pair in zip(view.shape[:count], view.strides, strict=False) if pair[0] != 1]
    for (_, outer), (extent, inner) in pairwise(leading):
        if outer != extent * inner:
            raise ArgumentError(
                f"{qualified(kernel.name)}: {array.name}: expected leading dimensions that are one, with rows at one "
                f"distance, found strides {view.strides} in bytes for shape {view.shape}; "
                f"{instead(kernel, array, view)}"
            )
    return leading[-1][1] if leading else 0, *view.strides[count:]


def interleaving(one: ArrayView, other: ArrayView) -> tuple[int, int, int]:
    """Return at which distances arrays have no byte in common, though they reach over each other: pitch, least, most.

    They have none where the bytes from one's address to the other's, modulo the pitch, are from least to most.
    """
    (pitch, row), (others, other_row) = _rows(one), _rows(other)
    pitch = math.gcd(pitch, others)
    return (pitch, row, pitch - other_row) if pitch else (1, 1, 0)  # nowhere


def _rows(view: ArrayView) -> tuple[int, int]:
    """Return the bytes that all distances between rows are multiples of, 0 for one row, and how long rows are."""
    row = DTYPES[view.dtype].size_bytes
    if view.strides is None:
        return 0, view.nbytes
    pairs = [pair for pair in zip(view.shape, view.strides, strict=True) if pair[0] > 1]
    while pairs and pairs[-1][1] == row:
        row *= pairs.pop()[0]
    return math.gcd(*(stride for _, stride in pairs)), row
