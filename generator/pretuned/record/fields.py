"""The fields of a file's lines, each held to its kind: what comes from a file is data that anybody may have written.

Each function but `origin` returns the value that it was given; raises TypeError for another kind, ValueError out of the
range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from pretuned.record.rows import Row
from pretuned.record.selections import Selection
from pretuned.spec.space import Configuration, Pairs, pairs

ORIGIN: Final = ("space", "verification", "compiler", "driver", "date")
TEXTS: Final = ("kernel", "device", *ORIGIN)  # of rows and selections


def origin(line: Row | Selection) -> dict[str, Any]:
    """Return what a row or selection was made from, and with, as its line ends with it."""
    found: dict[str, Any] = {name: getattr(line, name) for name in ORIGIN}
    return found | ({"headers": dict(line.headers)} if line.headers else {})


def text(value: object) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def number(value: Any) -> float:  # noqa: ANN401 - JSON
    """Return a finite number."""
    if type(value) not in {int, float} or not math.isfinite(value):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def time_us(value: Any) -> float:  # noqa: ANN401 - JSON
    """Return a time, above 0."""
    if number(value) <= 0:
        raise ValueError(f"{value!r} is not a time")
    return float(value)


def whole(value: object, what: str, least: int, most: int) -> int:
    """Return an integer from `least` to `most`; a message calls it `what`."""
    if type(value) is not int:
        raise TypeError(f"{what} is {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{what} is {value}, not {least} to {most}")
    return value


def plain_pairs(data: Mapping[str, Any]) -> Pairs:
    """Return names with their integers, booleans or texts."""
    for name, value in data.items():
        if not isinstance(value, bool | int | str):
            raise TypeError(f"'{name}' is {value!r}")
    return pairs(data)


def sizes(data: Mapping[str, Any]) -> Pairs:
    """Return dims with their sizes."""
    found = plain_pairs(data)
    for name, size in found:
        if type(size) is not int:
            raise TypeError(f"'{name}' is {size!r}")
    return found


def configuration(data: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a choice."""
    return Configuration(implementation=text(data["implementation"]), values=plain_pairs(data["configuration"]))


def headers(data: Mapping[str, Any]) -> Pairs:
    """Return the digests of a line's headers, by name."""
    return plain_pairs({name: text(value) for name, value in data.get("headers", {}).items()})
