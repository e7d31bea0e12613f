"""Changing the text of a TOML file, so that nothing but what is meant changes: comments, order and layout stay.

Each edit is proved: the new text is read again, and must hold exactly what the old one held, with the change. Where
it does not (an inline table in the way, a layout that nobody foresaw) there is no edit, and the user is told what to
write.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from typing import Any, Final

from pretuned.config.toml import value_at

_HEADER: Final = re.compile(r"^[ \t]*\[[ \t]*build-system[ \t]*\][ \t]*(?:#[^\n]*)?$", re.MULTILINE)
_NEXT: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)
_REQUIRES: Final = re.compile(r"^[ \t]*requires[ \t]*=[ \t]*\[", re.MULTILINE)
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|\]')

Keys = tuple[str, ...]


def with_table(text: str, keys: Keys, values: dict[str, Any]) -> str | None:
    """Return `text` with a table at its end, or None where it cannot stand there."""
    lines = [f"[{'.'.join(keys)}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    separator = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return _proved(text, text + separator + "".join(f"{line}\n" for line in lines), keys, values)


def with_requirement(text: str, requirement: str) -> str | None:
    """Return `text` with one more entry in [build-system] requires, or None where it cannot be put there."""
    span = _requires(text)
    listed = value_at(tomllib.loads(text), "build-system.requires")
    if span is None or not isinstance(listed, list):
        return None
    new = _inserted(text, *span, json.dumps(requirement))
    return _proved(text, new, ("build-system", "requires"), [*listed, requirement])


def with_backend(text: str, backend: str) -> str | None:
    """Return `text` with `build-backend` behind [build-system] requires, or None where it cannot be put there."""
    span = _requires(text)
    if span is None:
        return None
    end = text.find("\n", span[1])
    new = text[:end] + f'\nbuild-backend = "{backend}"' + text[end:] if end >= 0 else ""
    return _proved(text, new, ("build-system", "build-backend"), backend)


def _requires(text: str) -> tuple[int, int] | None:
    """Return the begin and end of what stands between the brackets of [build-system] requires."""
    header = _HEADER.search(text)
    if header is None:
        return None
    after = _NEXT.search(text, header.end())
    begin = _REQUIRES.search(text, header.end(), after.start() if after else len(text))
    tokens = _TOKEN.finditer(text, begin.end()) if begin else ()
    end = next((token.start() for token in tokens if token.group() == "]"), None)
    return None if begin is None or end is None else (begin.end(), end)


def _inserted(text: str, begin: int, end: int, entry: str) -> str:
    """Return `text` with `entry` as the last of the list at begin:end, on a line of its own where the others are."""
    strings = [token for token in _TOKEN.finditer(text, begin, end) if token.group()[0] in "\"'"]
    if not strings:
        return text[:begin] + entry + text[begin:]
    last = strings[-1].end()
    line_end = text.find("\n", last, end)
    if line_end < 0:
        return f"{text[:last]}, {entry}{text[last:]}"
    comma = "" if "," in text[last:line_end].partition("#")[0] else ","
    line = text[text.rfind("\n", 0, strings[-1].start()) + 1 : strings[-1].start()]
    indent = line[: len(line) - len(line.lstrip())]
    return f"{text[:last]}{comma}{text[last:line_end]}\n{indent}{entry},{text[line_end:]}"


def _proved(old: str, new: str, keys: Keys, value: object) -> str | None:
    """Return `new` if it holds what `old` does and `value` at `keys`, else None."""
    expected = copy.deepcopy(tomllib.loads(old))
    *folders, last = keys
    table = expected
    for key in folders:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            return None
    table[last] = value
    try:
        return new if tomllib.loads(new) == expected else None
    except tomllib.TOMLDecodeError:
        return None
