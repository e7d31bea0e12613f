"""Ranges: a list of integers in short, written as a table of `from`, `to` and `step` or `factor`.

A range becomes its list when a spec is read, and nothing else knows of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final

from pretuned.config.toml import INT64_MAX, spelled
from pretuned.runtime.text import closest

MAX_VALUES: Final = 10_000
KEYS: Final = ("from", "to", "step", "factor")
SCHEMA: Final[dict[str, Any]] = {
    "properties": {
        "from": {"type": "integer"},
        "to": {"type": "integer"},
        "step": {"type": "integer", "minimum": 1, "default": 1},
        "factor": {"type": "integer", "minimum": 2},
    },
    "required": ["from", "to"],
    "additionalProperties": False,
}


def listed(value: object) -> object:
    """Return the values of a range, both ends included, and anything else as it is; raises ValueError."""
    if not isinstance(value, Mapping):
        return value
    given = _integers(value)
    first, last = given["from"], given["to"]
    if first > last:
        raise ValueError(f"goes from {first} to {last}; write the lesser first")
    if "factor" not in given:
        step = given.get("step", 1)
        if (count := (last - first) // step + 1) > MAX_VALUES:
            raise ValueError(f"has {count:,} values; a range has at most {MAX_VALUES:,}")
        return _ended(list(range(first, last + 1, step)), last, "steps")
    if first < 1:
        raise ValueError(f"`from` is {first}; a range with `factor` begins at 1 or more")
    powers = (first * given["factor"] ** exponent for exponent in itertools.count())
    return _ended(list(itertools.takewhile(lambda power: power <= last, powers)), last, "factors")


def _integers(table: Mapping[str, object]) -> dict[str, int]:
    """Return what a range is made of; raises ValueError for what is not part of one."""
    for key in table:
        if key not in KEYS:
            known = closest(str(key), KEYS) or f"; write a list, or a range of {', '.join(KEYS)}"
            raise ValueError(f"a range has no '{key}'{known}")
    if missing := [key for key in ("from", "to") if key not in table]:
        raise ValueError(f"a range lacks `{missing[0]}`; write it as in `{{ from = 32, to = 1024, step = 32 }}`")
    if "step" in table and "factor" in table:
        raise ValueError("a range has `step` or `factor`, not both; leave one out")
    found: dict[str, int] = {}
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > INT64_MAX:
            raise ValueError(f"`{key}` is {spelled(value)}; a range is made of integers")
        if key in {"step", "factor"} and value < (least := 1 if key == "step" else 2):
            raise ValueError(f"`{key}` is {value}; it is at least {least}")
        found[key] = value
    return found


def _ended(values: list[int], last: int, going: str) -> list[int]:
    """Return the values of a range that has to end at `last`."""
    if values[-1] != last:
        raise ValueError(f"its {going} pass over {last}: write `to = {values[-1]}`, the last that they meet")
    return values
