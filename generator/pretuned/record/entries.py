"""A row, a skipped problem and a device as JSON, as the lock and the cache hold them, and back.

What comes from a file is data that anybody may have written, so every field's kind is checked on the way back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pretuned.record import fields
from pretuned.record.rows import Choice, Row, Skipped, TunedDevice
from pretuned.runtime.text import shown
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
            | ({"spread_us": list(choice.spread_us)} if choice.spread_us else {})
            for choice in row.choices
        ],
        **fields.origin(row),
        **({"disturbed": row.noise} if row.noise else {}),
    }


def row_from_json(data: Mapping[str, Any]) -> Row:
    """Return the row that `row_to_json` wrote; raises as the readers of `fields` do."""
    choices = tuple(
        fields.within(f"choices[{n}]", _choice, one) for n, one in enumerate(fields.listed(data, "choices"))
    )
    if not choices:
        raise ValueError("'choices' is empty")
    return Row(
        problem=_problem(data),
        choices=choices,
        noise=fields.text(data, "disturbed", ""),
        headers=fields.headers(data),
        effort=fields.effort(data),
        **{name: fields.text(data, name) for name in fields.TEXTS},
    )


def _choice(data: Mapping[str, Any]) -> Choice:
    low, high = fields.listed(data, "ratio", 2)
    return Choice(
        configuration=fields.configuration(data),
        candidate=fields.text(data, "candidate"),
        cubin=fields.text(data, "cubin"),
        time_us=fields.time_us(data, "time_us"),
        ratio=(fields.number(low, "ratio"), fields.number(high, "ratio")),
        library=fields.text(data, "library", ""),
        spread_us=fields.spread_us(data) if "spread_us" in data else None,
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
    """Return what `skipped_to_json` wrote; raises as the readers of `fields` do."""
    return Skipped(
        kernel=fields.text(data, "kernel"),
        device=fields.text(data, "device"),
        problem=_problem(data),
        reason=fields.text(data, "reason"),
    )


def _problem(data: Mapping[str, Any]) -> Problem:
    return Problem(specialisation=fields.plain(data, "specialisation"), dims=fields.sizes(data, "problem"))


def device_from_json(data: Mapping[str, Any], key: str) -> TunedDevice:
    """Return the device that stands under `key`; raises as the readers of `fields` do."""
    values = {item.name: data[item.name] for item in dataclasses.fields(TunedDevice)}
    for name, value in values.items():
        if type(value) is not (str if name == "name" else int):
            kind = "a text" if name == "name" else "a whole number"
            raise TypeError(f"'{name}' is {shown(value)}, not {kind}")
    if values["name"] != key:
        raise ValueError(f"'name' is {shown(values['name'])}, not as the key that it stands under")
    return TunedDevice(**values)
