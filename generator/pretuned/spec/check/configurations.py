"""The space as it is listed, and its seeds."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.config.toml import spelled
from pretuned.runtime.records import Value
from pretuned.spec import space
from pretuned.spec.check.defaults import listed, own_default_faults
from pretuned.spec.check.kinds import mixed
from pretuned.spec.check.names import PathFault
from pretuned.spec.model import ImplementationSpec


def configuration_faults(implementation: ImplementationSpec) -> Iterator[PathFault]:
    """Yield the faults of `space`, `default` and `seeds`; the space is counted, never built."""
    if (total := space.count(implementation)) > space.MAX_COMBINATIONS:
        message = f"has {total:,} combinations, more than {space.MAX_COMBINATIONS:,}; shorten the lists"
        yield "space", f"{message}, or list configurations one by one as `space = [{{...}}, ...]`"
    values = _values(implementation)
    for name, own in sorted(values.items()):
        if fault := mixed(own):
            yield f"space.{name}", fault
    if isinstance(implementation.space, tuple):
        yield from _rows(implementation.space)
    yield from own_default_faults(implementation, values)
    for index, seed in enumerate(implementation.seeds):
        yield from _seed(f"seeds[{index}]", seed, implementation, values)


def _seed(
    path: str, seed: dict[str, Value], implementation: ImplementationSpec, values: dict[str, tuple[Value, ...]]
) -> Iterator[PathFault]:
    if seed.keys() != values.keys():
        yield path, f"gives every parameter of the space a value: {', '.join(sorted(values)) or 'there is none'}"
        return
    for name, value in sorted(seed.items()):
        if not any(type(item) is type(value) and item == value for item in values[name]):
            yield f"{path}.{name}", f"{spelled(value)} is outside the space; `space.{name}` has {listed(values[name])}"
    if isinstance(implementation.space, tuple) and seed not in implementation.space:
        yield path, "is not one of the configurations that `space` lists"


def _values(implementation: ImplementationSpec) -> dict[str, tuple[Value, ...]]:
    """Return the values that each parameter takes, as they are listed."""
    if isinstance(implementation.space, dict):
        return dict(implementation.space)
    return {
        name: tuple(row[name] for row in implementation.space if name in row)
        for name in space.parameters(implementation)
    }


def _rows(rows: tuple[dict[str, Value], ...]) -> Iterator[PathFault]:
    for index, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            first = ", ".join(sorted(rows[0])) or "none"
            yield f"space[{index}]", f"every configuration names the same parameters; the first has {first}"
