"""A function of an array library in the place of a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCall:
    """A function of an array library that computes a kernel.

    `module` is the library's top-level package (`cupy`, `torch`), `function` the dotted name below it; `arguments` are
    the inputs that it is passed by position. With `out` "keyword" it writes to `out=`, with "copy" what it returns is
    assigned to the output (`out[...] = function(...)`).
    """

    module: str
    function: str
    arguments: tuple[str, ...]
    out: Literal["keyword", "copy"] = "keyword"

    def __str__(self) -> str:
        return f"{self.module}.{self.function}"
