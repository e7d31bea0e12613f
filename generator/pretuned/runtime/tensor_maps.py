"""Tensor maps: how the tensor memory accelerator (TMA) finds the boxes of an array, as a CUtensorMap of 128 bytes.

A map is passed by value. All of it but the array's address is known with the problem, so that a plan has an encoder for
each map, which asks the driver once an address. Names, numbers and limits are those of cuTensorMapEncodeTiled in
cuda.h; rows lie side by side or as far apart as the strides that the spec names say, element strides are 1, and nothing
is interleaved.
"""

from __future__ import annotations

import math
from ctypes import addressof, c_int, c_uint32, c_uint64, c_void_p, create_string_buffer
from functools import lru_cache

from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .driver import Driver
    from .table import Foreign
    from .types import DType

    Encode = Callable[[int], bytes]  # the map of an array at an address

TYPE_NAME = "CUtensorMap"
MAP_BYTES = 128
MAP_ALIGNMENT = 64
MAPS_FROM = 90  # the compute capability that brought them
ADDRESS_BYTES = 16  # that an array's address, its rows and a box's rows are multiples of
LARGEST_RANK = 5
LARGEST_BOX = 256  # elements along a dim
_LARGEST_EXTENT, _LARGEST_STRIDE_BYTES = 2**32, 2**40
_ENCODED = 1024  # addresses of a map that are kept

# CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
FILLS = {"zeros": 0, "nan": 1}
# CUtensorMapDataType: of floating types by bytes and bits of the fraction, of integers by bytes.
_FLOATING = {(2, 10): 6, (4, 23): 7, (8, 52): 8, (2, 7): 9}
_SIGNED = {4: 3, 8: 5}
_UNSIGNED = {1: 0, 2: 1, 4: 2, 8: 4}


def _element(record: DType) -> int | None:
    """Return the number of an element type; that of its bits where TMA has none of the kind, None where neither."""
    number = None
    if record.kind == "float":
        number = _FLOATING.get((record.size_bytes, record.fraction_bits))
    elif record.kind == "int":
        number = _SIGNED.get(record.size_bytes)
    return _UNSIGNED.get(record.size_bytes) if number is None else number


ELEMENTS = {name: number for name, one in DTYPES.items() if (number := _element(one)) is not None}
WITH_NAN = frozenset({name for name, number in ELEMENTS.items() if number in _FLOATING.values()})


def width_bytes(swizzle: str) -> int:
    """Return the bytes that a swizzle mixes, which a box's row must not exceed; 0 for none."""
    return int(swizzle.removesuffix("B")) if swizzle != "none" else 0


def misfit(
    dtype: str,
    shape: Sequence[int],
    box: Sequence[int],
    swizzle: str,
    strides: Sequence[int] = (),
    *,
    written: bool = False,
) -> str | None:
    """Return what TMA does not take of an array of a shape in boxes of so many elements, both outermost first; or None.

    `strides` are those of its first dims, in elements; the others follow from the shape. What is written has rows of
    whole units, as stores end there rather than with the row. The array itself may be empty: then nothing is read by
    its map, which is zeros.
    """
    size = DTYPES[dtype].size_bytes
    reason = _misfit_of_box(box, size, swizzle) or _misfit_of_array(shape, _pitches(shape, strides, size))
    if not reason and written and (row := shape[-1] * size) % ADDRESS_BYTES:
        return f"an array that is written, with rows of {row} bytes, and TMA writes whole units of {ADDRESS_BYTES}"
    return reason


def _pitches(shape: Sequence[int], strides: Sequence[int], size: int) -> list[int]:
    """Return how many bytes apart the entries of each dim lie but for the last, outermost first."""
    return [
        (strides[axis] if axis < len(strides) else math.prod(shape[axis + 1 :])) * size
        for axis in range(len(shape) - 1)
    ]


def _misfit_of_box(box: Sequence[int], size: int, swizzle: str) -> str | None:
    if not all(1 <= extent <= LARGEST_BOX for extent in box):
        return f"a box of {' x '.join(map(str, box))} elements, and 1 to {LARGEST_BOX} along a dim are possible"
    inner, width = box[-1] * size, width_bytes(swizzle)
    if inner % ADDRESS_BYTES:
        return f"a box whose rows are {inner} bytes, which is not a multiple of {ADDRESS_BYTES}"
    if width and inner > width:
        return f"a box whose rows are {inner} bytes, and a swizzle of {swizzle} holds {width}"
    return None


def _misfit_of_array(shape: Sequence[int], pitches: Sequence[int]) -> str | None:
    for pitch in reversed(pitches):
        if pitch % ADDRESS_BYTES:
            return f"an array whose rows lie {pitch} bytes apart, which is not a multiple of {ADDRESS_BYTES}"
    if max(shape) > _LARGEST_EXTENT:
        return f"an array of {max(shape)} elements along a dim, and 2**32 are possible"
    if max(pitches, default=0) >= _LARGEST_STRIDE_BYTES:
        return f"an array whose entries lie {max(pitches)} bytes apart, and 2**40 are possible"
    return None


def encoder(
    driver: Driver,
    *,
    dtype: str,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    modes: tuple[str, str, str],
) -> Encode:
    """Return what makes the map of an array of a shape at an address; shape, strides and box as in `misfit`.

    `modes` are the names of swizzle, L2 promotion and fill. It raises DriverError for an address that the driver does
    not take. The map of an empty array is zeros.
    """
    if 0 in shape:
        return _zeros
    rank, (swizzle, l2, fill) = len(shape), modes
    pitches = _pitches(shape, strides, DTYPES[dtype].size_bytes)[::-1] or [0]
    before = c_int(ELEMENTS[dtype]), c_uint32(rank)
    behind = (
        (c_uint64 * rank)(*shape[::-1]),
        (c_uint64 * len(pitches))(*pitches),
        (c_uint32 * rank)(*box[::-1]),
        (c_uint32 * rank)(*[1] * rank),
        *map(c_int, (0, SWIZZLES[swizzle], PROMOTIONS[l2], FILLS[fill])),
    )

    def encode(address: int) -> bytes:
        memory = create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
        begin = -addressof(memory) % MAP_ALIGNMENT
        made = c_void_p(addressof(memory) + begin)
        driver.ask("cuTensorMapEncodeTiled", made, *before, c_void_p(address), *behind)
        return memory.raw[begin : begin + MAP_BYTES]

    return lru_cache(_ENCODED)(encode)


def _zeros(_address: int) -> bytes:
    return bytes(MAP_BYTES)


def packing_maps(pack_into: Callable[..., None], encoders: Sequence[tuple[int, int, Encode]]) -> Callable[..., None]:
    """Return what packs values as `pack_into` does, and then maps into the same memory.

    Each encoder has the place of its array's address among the values, and where its map begins in the memory.
    """
    if not encoders:
        return pack_into

    def pack(memory: Foreign, offset: int, *values: Foreign) -> None:
        pack_into(memory, offset, *values)
        for place, begin, encode in encoders:
            memory[begin : begin + MAP_BYTES] = encode(values[place])

    return pack
