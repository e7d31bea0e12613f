"""What a kernel demands of the addresses of its arrays: `aligned(x, 8)` in `requires`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final

from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.grammar import MAX_LENGTH

MOST_BYTES: Final = 256  # what CUDA promises of every allocation, and so of every output that a library allocates
_WRITE: Final = "write `aligned(x, 8)`, an array and bytes, as an entry of its own"


@dataclass(frozen=True)
class Alignment:
    """The address of an array is a multiple of so many bytes, by an expression over what a specialisation decides."""

    argument: str
    nbytes: Expression

    @classmethod
    def parse(cls, text: str) -> Alignment:
        """Parse `aligned(x, 8)`; raises ExpressionError."""
        if len(text) > MAX_LENGTH:
            raise ExpressionError(f"is {len(text)} characters long; at most {MAX_LENGTH} are allowed")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = None
        match tree:
            case ast.Call(func=ast.Name(id="aligned"), args=[ast.Name(id=argument), nbytes], keywords=[]):
                return cls(argument, Expression.parse(ast.get_source_segment(text.strip(), nbytes) or ""))
        raise ExpressionError(f"'{text}' is not a demand on an address; {_WRITE}")

    def __str__(self) -> str:
        return f"aligned({self.argument}, {self.nbytes})"


def is_alignment(text: str) -> bool:
    """Return whether an entry of `requires` is meant as a demand on an address."""
    return "aligned(" in text.replace(" ", "")
