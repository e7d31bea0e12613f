"""A row, a skipped problem and a device as JSON, as the lock and the cache hold them, and back.

What comes from a file is data that anybody may have written, so every field's kind is checked on the way back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pretuned.record import fields
from pretuned.record.rows import Choice, Row, Skipped, TunedDevice
from pretuned.spec.space import Problem


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
                "candidate": choice.candidate,
                "cubin": choice.cubin,
            }
            | ({"library": choice.library} if choice.library else {})
            for choice in row.choices
        ],
        **fields.origin(row),
        **({"disturbed": row.noise} if row.noise else {}),
    }


def row_from_json(data: Mapping[str, Any]) -> Row:
    """Return the row that `row_to_json` wrote; raises KeyError, TypeError or ValueError for other data."""
    choices = tuple(_choice(choice) for choice in data["choices"])
    if not choices:
        raise ValueError("no choices")
    return Row(
        problem=_problem(data),
        choices=choices,
        noise=fields.text(data.get("disturbed", "")),
        headers=fields.headers(data),
        **{key: fields.text(data[key]) for key in fields.TEXTS},
    )


def _choice(data: Mapping[str, Any]) -> Choice:
    low, high = data["ratio"]
    return Choice(
        configuration=fields.configuration(data),
        candidate=fields.text(data["candidate"]),
        cubin=fields.text(data["cubin"]),
        time_us=fields.time_us(data["time_us"]),
        ratio=(fields.number(low), fields.number(high)),
        library=fields.text(data.get("library", "")),
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
        kernel=fields.text(data["kernel"]),
        device=fields.text(data["device"]),
        problem=_problem(data),
        reason=fields.text(data["reason"]),
    )


def _problem(data: Mapping[str, Any]) -> Problem:
    return Problem(specialisation=fields.plain_pairs(data["specialisation"]), dims=fields.sizes(data["problem"]))


def device_from_json(data: Mapping[str, Any], key: str) -> TunedDevice:
    """Return the device that stands under `key`; raises KeyError or TypeError for other data."""
    values = {item.name: data[item.name] for item in dataclasses.fields(TunedDevice)}
    for name, value in values.items():
        if type(value) is not (str if name == "name" else int):
            raise TypeError(f"'{name}' is {value!r}")
    if values["name"] != key:
        raise TypeError(f"'name' is {values['name']!r} under {key!r}")
    return TunedDevice(**values)
