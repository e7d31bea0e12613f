"""From a line of a rendered text back to the template's: compilers speak of the one, authors know the other.

The template is rendered once more with a mark at the beginning of each of its lines. Marks are set in the lexer's
tokens, when whitespace control is done, so that they follow text through loops, conditions, macros and includes. Where
the text without its marks is not the text that was rendered (a filter saw them), no place is given, which is better
than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from jinja2 import Environment
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

from pretuned.spec.templates import jinja, render, shown_name

_MARK: Final = re.compile("\x02([0-9]+)\x1f([0-9]+)\x03")
_files: Final[list[str]] = []  # that marks name by their position: digits survive filters


@dataclass(frozen=True, slots=True)
class TemplatePlace:
    """A line of a template, counted from 1; `file` as Jinja knows it."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class _Marking(Extension):
    """Puts a mark at the beginning of each line of a template's text."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        file = shown_name(str(stream.name))
        if file not in _files:
            _files.append(file)
        for token in stream:
            if token.type != "data":
                yield token
                continue
            lines = token.value.split("\n")
            marks = [f"\x02{_files.index(file)}\x1f{token.lineno + i}\x03" for i in range(len(lines))]
            if not lines[-1]:
                marks[-1] = ""  # what follows the last newline is another token's
            yield Token(token.lineno, "data", "\n".join(map("".join, zip(marks, lines, strict=True))))


@lru_cache(maxsize=8)
def _marking(folder: Path) -> Environment:
    return jinja(folder).overlay(extensions=[_Marking])


def lines_of(folder: Path, template: str, values: Mapping[str, object]) -> tuple[TemplatePlace | None, ...]:
    """Return where each line of what `render` gives comes from, None where that is not known."""
    text = render(folder, template, values)
    marked = _marking(folder).get_template(template).render(values)
    if _MARK.sub("", marked) != text:
        return (None,) * (text.count("\n") + 1)
    return tuple(_place(line) for line in marked.split("\n"))


def _place(line: str) -> TemplatePlace | None:
    match = _MARK.search(line)
    return TemplatePlace(_files[int(match[1])], int(match[2])) if match else None


def relocated(message: str, name: str, places: tuple[TemplatePlace | None, ...]) -> str:
    """Return `message` with `NAME:31`, `NAME:31:5` and `NAME(31)` as lines of the template, where they are known."""

    def place(match: re.Match[str]) -> str:
        line = int(match[1] or match[2])
        found = places[line - 1] if 0 < line <= len(places) else None
        return match.group() if found is None else str(found)

    return re.sub(rf"{re.escape(name)}(?::(\d+)(?::\d+)?|\((\d+)\))", place, message)
