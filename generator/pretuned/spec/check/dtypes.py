"""Names of element types that people know from CUDA, C and elsewhere, and what a spec calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pretuned.runtime.text import closest
from pretuned.runtime.types import DTYPES

_OTHERS: Final = {
    name: dtype.name
    for dtype in DTYPES.values()
    for name in (*((dtype.cuda, dtype.cuda.strip("_")) if dtype.parts == 1 else ()), *dtype.aliases)
}
_PAIRS: Final = {dtype.cuda: dtype for dtype in DTYPES.values() if dtype.parts > 1}  # CUDA's vectors as well
_VECTOR: Final = re.compile(r"(\w*?[a-z])(?:2|3|4|x2|x4)|(__half|half|__nv_bfloat16|nv_bfloat16)2")


def unknown_dtype(name: str, known: Iterable[str] = DTYPES) -> str:
    """Return the message about a name that is not an element type: with what to write, where that is known."""
    if (pair := _PAIRS.get(name)) is not None:
        return (
            f"unknown dtype '{name}'; write '{pair.name}' for complex numbers; for vectors write '{pair.part}', and "
            "cast the pointer in the kernel"
        )
    if (dtype := _translated(name)) is not None:
        return f"unknown dtype '{name}'; write '{dtype}'"
    if (match := _VECTOR.fullmatch(name)) and (element := _translated(match[1] or match[2])) is not None:
        return f"unknown dtype '{name}'; write '{element}', and cast the pointer in the kernel"
    return f"unknown dtype '{name}'{closest(name, known) or '; known are ' + ', '.join(sorted(known))}"


def _translated(name: str) -> str | None:
    """Return the dtype that another language or library calls `name`: `torch.float16`, `std::uint32_t`, `half`."""
    last = re.split(r"::|\.", " ".join(name.split()).removeprefix("const "))[-1]
    plain = last.removesuffix("_t")
    return next((_OTHERS.get(word, word) for word in (last, plain) if word in _OTHERS or word in DTYPES), None)
