"""How numbers are passed by value: packed as the type that the kernel takes, or refused in words."""

from __future__ import annotations

import struct

from .errors import ArgumentError, ArgumentTypeError, qualified
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .structs import Struct
    from .table import Foreign, Kernel
    from .types import DType

_structs: dict[str, struct.Struct] = {}  # one for all plans of a kernel


def struct_of(codes: str) -> struct.Struct:
    """Return the struct of some codes."""
    found = _structs.get(codes)
    if found is None:
        found = _structs[codes] = struct.Struct(codes)
    return found


def type_of(kernel: Kernel, name: str) -> DType | Struct:
    """Return the type of a number that a call brings, by its name: an element type, or a struct of the kernel's."""
    found = kernel.layouts.get(name)
    return DTYPES[name] if found is None else found


def packer(codes: str, types: Mapping[int, DType | Struct]) -> Callable[..., None]:
    """Return what packs values of struct codes into memory at an offset; it raises one of INVALID.

    `types` has the types of the numbers among the values, by place: one that the struct module does not know is
    rounded to its bits, and a struct to its bytes.
    """
    pack_into = struct_of(codes).pack_into
    rounded = [(place, found.code_of) for place, found in types.items() if found.as_bits]
    if not rounded:
        return pack_into

    def pack(memory: Foreign, offset: int, *values: Foreign) -> None:
        bits = list(values)
        for place, code_of in rounded:
            bits[place] = code_of(bits[place])
        pack_into(memory, offset, *bits)

    return pack


def wrong_scalar(
    kernel: Kernel, dtypes: Sequence[str], scalars: Sequence[Foreign]
) -> ArgumentError | ArgumentTypeError:
    """Return the error for the scalar that cannot be packed as its type, of `dtypes`."""
    for scalar, name, value in zip(kernel.scalars, dtypes, scalars, strict=True):
        found = type_of(kernel, name)
        if found.packs(value):
            continue
        place, message = found.fault(value) or ("", "cannot be packed")
        numeric = isinstance(value, int) or (isinstance(value, float) and found.kind in {"float", "complex", "bool"})
        numeric = numeric or found.kind == "struct" or (isinstance(value, complex) and found.kind == "complex")
        kind: type[ArgumentError | ArgumentTypeError] = ArgumentError if numeric else ArgumentTypeError
        return kind(f"{qualified(kernel.name)}: {scalar.name}{place}: {message}")
    raise AssertionError("every scalar packs")
