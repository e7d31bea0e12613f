"""Canonical JSON with one row per line: the same data gives the same bytes, and a changed row one changed line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping


def line(value: object) -> str:
    """Return a value on one line."""
    return json.dumps(value, separators=(", ", ": "))


def rows(values: Iterable[object]) -> str:
    """Return a list with one value per line."""
    return _block("[", map(line, values), "]")


def entries(values: Mapping[str, object]) -> str:
    """Return an object with one entry per line, sorted by name."""
    return _block("{", (f"{line(name)}: {line(value)}" for name, value in sorted(values.items())), "}")


def document(parts: Mapping[str, str]) -> str:
    """Return a file's text: an object of `parts`, which are JSON already, in their order."""
    return "{\n" + ",\n".join(f"{line(name)}: {text}" for name, text in parts.items()) + "\n}\n"


def _block(begin: str, lines: Iterable[str], end: str) -> str:
    text = ",\n".join(lines)
    return f"{begin}\n{text}\n{end}" if text else f"{begin}\n{end}"
