"""A rendered text read as C++, as far as a message needs it: no comments, no strings, declarations of kernels."""

from __future__ import annotations

import re
from typing import Final

_QUIET: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def without_comments(text: str) -> str:
    """Return a text with nothing in its strings and comments, its lines where they were."""
    return _QUIET.sub(lambda match: '""' if match[0][0] == '"' else "\n" * match[0].count("\n") or " ", text)


def template_line(text: str, function: str) -> int | None:
    """Return the line of a kernel `function` that is a C++ template; None where it is none, or is not there.

    `text` is without comments.
    """
    match = re.search(
        rf"\btemplate\s*<[^;{{}}]*>[^;{{}}]*\b__global__\b[^;{{}}()]*(?:\([^)]*\)[^;{{}}()]*)?\b{function}\s*\(", text
    )
    return text.count("\n", 0, match.end()) + 1 if match else None
