"""Canonical JSON with one row per line: the same data gives the same bytes, and a changed row one changed line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping


def line(value: object) -> str:
    """Return a value on one line."""
    return json.dumps(value, separators=(", ", ": "))


def sealed(value: Mapping[str, object]) -> dict[str, object]:
    """Return an entry with the digest of all the rest of it as its last key."""
    return {**value, "digest": _digest(value)}


def is_sealed(value: Mapping[str, object]) -> bool:
    """Return whether an entry is as it was sealed; the order of its keys does not matter."""
    return value.get("digest") == _digest(value)


def _digest(value: Mapping[str, object]) -> str:
    rest = {key: item for key, item in value.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


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
