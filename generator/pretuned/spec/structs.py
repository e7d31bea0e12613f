"""Structs that are passed by value, from `[structs]` to their layout and their declaration in C++."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pretuned.runtime.structs import Struct
from pretuned.runtime.types import DTYPES

if TYPE_CHECKING:
    from pretuned.spec.model import KernelSpec

_FIELD: Final = re.compile(r"(\w+)(?:\[([1-9]\d{0,3})\])?")


def field_of(text: str) -> tuple[str, int] | None:
    """Return the element type of a field and its number of elements, 0 for what is no array; None for another text.

    A field is written as in `int64` and `int64[4]`.
    """
    match = _FIELD.fullmatch(text)
    return None if match is None else (match[1], int(match[2] or 0))


def layouts(spec: KernelSpec) -> dict[str, Struct]:
    """Return the structs of a sound spec, by name."""
    found = {}
    for name, fields in spec.structs.items():
        known = [(field, held) for field, text in fields.items() if (held := field_of(text)) is not None]
        found[name] = Struct(name, [(field, dtype, count) for field, (dtype, count) in known])
    return found


def declaration(struct: Struct) -> str:
    """Return a struct in C++, on one line, so that a template's lines stay where they are."""
    fields = [f"{DTYPES[dtype].cuda} {name}{f'[{count}]' if count else ''};" for name, dtype, count in struct.fields]
    layout = f'static_assert(sizeof({struct.name}) == {struct.size_bytes}, "calls pack {struct.size_bytes} bytes");'
    return f"struct {struct.name} {{ {' '.join(fields)} }}; {layout}"


def described(struct: Struct) -> str:
    """Return the fields in words: `n int32, strides int64[4]`."""
    return ", ".join(f"{name} {dtype}{f'[{count}]' if count else ''}" for name, dtype, count in struct.fields)
