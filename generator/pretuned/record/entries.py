"""A row, a skipped problem and a device as JSON, as the lock and the cache hold them, and back.

What comes from a file is data that anybody may have written, so every field's kind is checked on the way back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pretuned.record.rows import Choice, Row, Skipped, TunedDevice
from pretuned.spec.space import Configuration, Pairs, Problem, pairs


def row_to_json(row: Row) -> dict[str, Any]:
    """Return a row as the lock writes it."""
    return {
        "kernel": row.kernel,
        "device": row.device,
        "specialisation": dict(row.problem.specialisation),
        "problem": dict(row.problem.dims),
        "choices": [
            {
                "implementation": choice.configuration.implementation,
                "configuration": dict(choice.configuration.values),
                "time_us": choice.time_us,
                "ratio": list(choice.ratio),
                "beyond": list(choice.beyond),
                "candidate": choice.candidate,
                "cubin": choice.cubin,
            }
            | ({"library": choice.library} if choice.library else {})
            for choice in row.choices
        ],
        "space": row.space,
        "verification": row.verification,
        "compiler": row.compiler,
        "driver": row.driver,
        "date": row.date,
        **({"headers": dict(row.headers)} if row.headers else {}),
        **({"disturbed": row.noise} if row.noise else {}),
    }


def row_from_json(data: Mapping[str, Any]) -> Row:
    """Return the row that `row_to_json` wrote; raises KeyError, TypeError or ValueError for other data."""
    choices = tuple(_choice(choice) for choice in data["choices"])
    if not choices:
        raise ValueError("no choices")
    texts = {
        key: _text(data[key]) for key in ("kernel", "device", "space", "verification", "compiler", "driver", "date")
    }
    headers = _pairs({name: _text(digest) for name, digest in data.get("headers", {}).items()})
    noise = _text(data.get("disturbed", ""))
    return Row(problem=_problem(data), choices=choices, noise=noise, headers=headers, **texts)


def _choice(data: Mapping[str, Any]) -> Choice:
    low, high = data["ratio"]
    return Choice(
        configuration=Configuration(implementation=_text(data["implementation"]), values=_pairs(data["configuration"])),
        candidate=_text(data["candidate"]),
        cubin=_text(data["cubin"]),
        time_us=_time(data["time_us"]),
        ratio=(_number(low), _number(high)),
        beyond=tuple(_text(direction) for direction in data["beyond"]),
        library=_text(data.get("library", "")),
    )


def skipped_to_json(entry: Skipped) -> dict[str, Any]:
    """Return a skipped problem as the lock writes it."""
    return {
        "kernel": entry.kernel,
        "device": entry.device,
        "specialisation": dict(entry.problem.specialisation),
        "problem": dict(entry.problem.dims),
        "reason": entry.reason,
    }


def skipped_from_json(data: Mapping[str, Any]) -> Skipped:
    """Return what `skipped_to_json` wrote; raises KeyError, TypeError or ValueError for other data."""
    return Skipped(
        kernel=_text(data["kernel"]),
        device=_text(data["device"]),
        problem=_problem(data),
        reason=_text(data["reason"]),
    )


def _problem(data: Mapping[str, Any]) -> Problem:
    dims = _pairs(data["problem"])
    for name, size in dims:
        if type(size) is not int:
            raise TypeError(f"'{name}' is {size!r}")
    return Problem(specialisation=_pairs(data["specialisation"]), dims=dims)


def _pairs(data: Mapping[str, Any]) -> Pairs:
    for name, value in data.items():
        if not isinstance(value, bool | int | str):
            raise TypeError(f"'{name}' is {value!r}")
    return pairs(data)


def device_from_json(data: Mapping[str, Any], key: str) -> TunedDevice:
    """Return the device that stands under `key`; raises KeyError or TypeError for other data."""
    values = {item.name: data[item.name] for item in fields(TunedDevice)}
    for name, value in values.items():
        if type(value) is not (str if name == "name" else int):
            raise TypeError(f"'{name}' is {value!r}")
    if values["name"] != key:
        raise TypeError(f"'name' is {values['name']!r} under {key!r}")
    return TunedDevice(**values)


def _number(value: Any) -> float:  # noqa: ANN401 - JSON
    if type(value) not in {int, float} or not math.isfinite(value):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _time(value: Any) -> float:  # noqa: ANN401 - JSON
    if _number(value) <= 0:
        raise ValueError(f"{value!r} is not a time")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
