"""How numbers are passed by value: packed as the type that the kernel takes, or refused in words."""

from __future__ import annotations

import struct

from .errors import ArgumentError, ArgumentTypeError, qualified
from .text import shown
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .table import Foreign, Kernel

INVALID = (struct.error, OverflowError, TypeError)  # what packing raises for a number that cannot be passed
_structs: dict[str, struct.Struct] = {}  # one for all plans of a kernel


def struct_of(codes: str) -> struct.Struct:
    """Return the struct of some codes."""
    found = _structs.get(codes)
    if found is None:
        found = _structs[codes] = struct.Struct(codes)
    return found


def packer(codes: str, dtypes: Mapping[int, str]) -> Callable[..., None]:
    """Return what packs values of struct codes into memory at an offset; it raises one of INVALID.

    `dtypes` has the types of the numbers among the values, by place: one that the struct module does not know is
    rounded to its bits.
    """
    pack_into = struct_of(codes).pack_into
    rounded = [(place, DTYPES[dtype].code_of) for place, dtype in dtypes.items() if DTYPES[dtype].as_bits]
    if not rounded:
        return pack_into

    def pack(memory: Foreign, offset: int, *values: Foreign) -> None:
        bits = list(values)
        for place, code_of in rounded:
            bits[place] = code_of(bits[place])
        pack_into(memory, offset, *bits)

    return pack


def packed(dtype: str, value: float) -> bytes:
    """Return a number as a type has it; raises one of INVALID."""
    record = DTYPES[dtype]
    return struct.pack(f"={record.code}", record.code_of(value) if record.as_bits else value)


def packs(dtype: str, value: Foreign) -> bool:
    """Return whether a number can be passed as a type; anything has a truth, but only a bool, or 0 or 1, is meant."""
    try:
        return value in {True, False} if dtype == "bool" else bool(packed(dtype, value))
    except INVALID:
        return False


def wrong_scalar(
    kernel: Kernel, dtypes: Sequence[str], scalars: Sequence[Foreign]
) -> ArgumentError | ArgumentTypeError:
    """Return the error for the scalar that cannot be packed as its type, of `dtypes`."""
    for scalar, name, value in zip(kernel.scalars, dtypes, scalars, strict=True):
        if not packs(name, value):
            dtype = DTYPES[name]
            numeric = isinstance(value, int) or (isinstance(value, float) and dtype.range is None)
            kind: type[ArgumentError | ArgumentTypeError] = ArgumentError if numeric else ArgumentTypeError
            return kind(
                f"{qualified(kernel.name)}: {scalar.name}: expected {dtype.name} ({dtype.values}), found {shown(value)}"
            )
    raise AssertionError("every scalar packs")
