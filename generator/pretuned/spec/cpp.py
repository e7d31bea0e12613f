"""A rendered text read as C++, as far as a message needs it: no comments, no strings, declarations of kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pretuned.runtime.records import Value
from pretuned.spec.expressions import Expression, ExpressionError

MOST_STEPS: Final = 8  # from one constant to another
_BOUNDS: Final = r"__launch_bounds__\s*\((?P<first>(?:[^(),;{}]|\([^(){};]*\))+)(?:,(?:[^(){};]|\([^(){};]*\))*)?\)"
_DECLARED: Final = r"(?:[^;{}()]|\([^(){};]*\))*?"  # between that and the kernel's name: types, attributes
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchBound:
    """`__launch_bounds__` of a kernel: its first argument as it is written, its value, and the line."""

    text: str
    threads: int
    line: int


def launch_bound(text: str, function: str) -> LaunchBound | None:
    """Return the most threads that `function` may be launched with, as `text`, which is without comments, says.

    None where it says nothing, says it more than once, or in a way that only a compiler understands.
    """
    found = list(re.finditer(rf"{_BOUNDS}{_DECLARED}\b{function}\s*\(", text))
    if len(found) != 1:
        return None
    match = found[0]
    written = match["first"].strip()
    threads = _constant(written, text)
    return None if threads is None else LaunchBound(text=written, threads=threads, line=_line(text, match.start()))


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _constant(written: str, text: str, depth: int = 0) -> int | None:
    """Return the value of an integer expression over literals and constants that `text` defines once, else None."""
    names = set(re.findall(r"\b[A-Za-z_]\w*", written))
    if depth > MOST_STEPS or not re.fullmatch(r"[\w\s+*/%()-]+", written):
        return None
    values: dict[str, Value] = {}
    for name in names:
        constant, macro = rf"\bconstexpr\b[^;=()]*\b{name}\s*=\s*([^;]+);", rf"^[ \t]*#define[ \t]+{name}[ \t]+(.+)$"
        defined = re.findall(f"{constant}|{macro}", text, re.MULTILINE)
        value = _constant((defined[0][0] or defined[0][1]).strip(), text, depth + 1) if len(defined) == 1 else None
        if value is None:
            return None
        values[name] = value
    try:
        return Expression.parse(re.sub(r"/+", "//", re.sub(r"\b(\d+)[uUlL]+\b", r"\1", written))).evaluate(values)
    except ExpressionError:
        return None
