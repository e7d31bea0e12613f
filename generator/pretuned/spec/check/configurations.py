"""The space of one implementation as it is listed, and its default's and seeds' places in it."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.config.toml import spelled
from pretuned.runtime.records import Value
from pretuned.runtime.text import closest
from pretuned.spec import space
from pretuned.spec.check.names import PathFault
from pretuned.spec.model import Implementation, KernelSpec


def configuration_faults(spec: KernelSpec, implementation: Implementation) -> Iterator[PathFault]:
    """Yield the faults of `space`, `default` and `seeds`; the space is counted, never built."""
    if (total := space.count(implementation)) > space.MAX_COMBINATIONS:
        message = f"has {total:,} combinations, more than {space.MAX_COMBINATIONS:,}; shorten the lists"
        yield "space", f"{message}, or list configurations one by one as `space = [{{...}}, ...]`"
    values = _values(implementation)
    for name, listed in sorted(values.items()):
        if len({type(value) for value in listed}) > 1:
            yield f"space.{name}", "mixes bools and integers; use one kind"
    if isinstance(implementation.space, tuple):
        yield from _rows(implementation.space)
    yield from _default(spec, implementation, values)
    for index, seed in enumerate(implementation.seeds):
        yield from _seed(f"seeds[{index}]", seed, implementation, values)


def _seed(
    path: str, seed: dict[str, bool | int], implementation: Implementation, values: dict[str, tuple[Value, ...]]
) -> Iterator[PathFault]:
    if seed.keys() != values.keys():
        yield path, f"gives every parameter of the space a value: {', '.join(sorted(values)) or 'there is none'}"
        return
    for name, value in sorted(seed.items()):
        if not any(type(item) is type(value) and item == value for item in values[name]):
            yield f"{path}.{name}", f"{spelled(value)} is outside the space; `space.{name}` has {_listed(values[name])}"
    if isinstance(implementation.space, tuple) and seed not in implementation.space:
        yield path, "is not one of the configurations that `space` lists"


def _default(
    spec: KernelSpec, implementation: Implementation, values: dict[str, tuple[Value, ...]]
) -> Iterator[PathFault]:
    texts = {} if spec.implementations else {k: v for k, v in spec.default.items() if isinstance(v, str)}
    for name, text in texts.items():
        yield f"default.{name}", f"is {spelled(text)}; a parameter is an integer or a bool"
    for name in sorted(values.keys() - implementation.default.keys() - texts.keys()):
        message = f"missing; the default gives every parameter a value, as in `{name} = {spelled(values[name][0])}`"
        yield f"default.{name}", message
    inside = implementation.default.keys() == values.keys()
    for name, value in sorted(implementation.default.items()):
        if name not in values:
            yield f"default.{name}", f"'{name}' is no parameter of the space{closest(name, values)}"
        elif not any(type(item) is type(value) and item == value for item in values[name]):
            inside = False
            listed = _listed(values[name])
            yield f"default.{name}", f"{spelled(value)} is outside the space; `space.{name}` has {listed}"
    if (
        inside
        and isinstance(implementation.space, tuple)
        and implementation.space
        and dict(implementation.default) not in implementation.space
    ):
        yield "default", "is not one of the configurations that `space` lists"


def _values(implementation: Implementation) -> dict[str, tuple[Value, ...]]:
    """Return the values that each parameter takes, as they are listed."""
    if isinstance(implementation.space, dict):
        return dict(implementation.space)
    return {
        name: tuple(row[name] for row in implementation.space if name in row)
        for name in space.parameters(implementation)
    }


def _rows(rows: tuple[dict[str, bool | int], ...]) -> Iterator[PathFault]:
    for index, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            first = ", ".join(sorted(rows[0])) or "none"
            yield f"space[{index}]", f"every configuration names the same parameters; the first has {first}"


def _listed(values: tuple[Value, ...]) -> str:
    """Return the values in order, the middle left out where there are many."""
    words = [spelled(value) for value in sorted(set(values))]
    return ", ".join(words if len(words) <= 12 else [*words[:6], "...", *words[-5:]])  # noqa: PLR2004 - one line
