"""Kinds of values: texts and floats are compared with their like, and everything else is a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pretuned.runtime.records import Value
from pretuned.runtime.text import closest
from pretuned.spec.expressions import Expression
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import dtypes_of

_NAMES: Final[dict[type, tuple[str, str]]] = {
    bool: ("bools", "a bool"),
    int: ("integers", "an integer"),
    float: ("floats", "a float"),
    str: ("texts", "a text"),
}


def mixed(values: Iterable[Value]) -> str | None:
    """Return what is wrong with a list whose values are of several kinds, or None."""
    kinds = {type(value) for value in values}
    if len(kinds) < 2:  # noqa: PLR2004 - one kind
        return None
    remedy = "write floats with a point, as in 1.0" if kinds == {int, float} else "use one kind"
    return f"mixes {' and '.join(name for kind, (name, _) in _NAMES.items() if kind in kinds)}; {remedy}"


def in_order(values: Iterable[Value]) -> list[Value]:
    """Return the distinct values in order, texts last."""
    return sorted(set(values), key=lambda value: (isinstance(value, str), value))


def _plain(spec: KernelSpec) -> dict[str, list[Value]]:
    """Return the values of each name that has texts or floats: parameters, keywords and types."""
    found: dict[str, list[Value]] = {}
    for implementation in spec.all_implementations.values():
        listed = implementation.space
        for row in [listed] if isinstance(listed, dict) else listed:
            for name, values in row.items():
                found.setdefault(name, []).extend(values if isinstance(values, tuple) else [values])
    for name, choice in spec.specialisations.items():
        found[name] = list(choice.values) if choice.values is not None else list(dtypes_of(spec, name))
    return {name: values for name, values in found.items() if all(isinstance(value, str | float) for value in values)}


def comparison_faults(
    spec: KernelSpec, path: str, expression: Expression, known: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield path and message of texts and floats used as numbers, and of comparisons that can never hold.

    `known` are the names that it may read, types not among them.
    """
    plain = _plain(spec)
    types = {name for name, choice in spec.specialisations.items() if choice.values is None}
    readable = {*known, *types}
    for name in sorted(expression.value_names & (plain.keys() - types)):
        is_text = any(isinstance(value, str) for value in plain[name])
        example = f"{name} == '{plain[name][0]}'" if is_text else f"{name} < {plain[name][0]}"
        kind = _NAMES[str if is_text else float][1]
        yield path, f"'{name}' is {kind}; it can only be compared with {kind}, as in {example}"
    for name, literal in expression.comparisons:
        kind = _NAMES[type(literal)][1]
        if name not in readable and name not in spec.let:
            yield path, f"unknown name '{name}' in {expression.quoted}{closest(name, readable)}"
        elif not any(type(value) is type(literal) for value in plain.get(name, ())):
            yield path, f"'{name}' is not {kind}, so it cannot be compared with {literal!r}"
        elif name in spec.specialisations and spec.specialisations[name].alike:
            yield path, f"the types of '{name}' are alike, so none can be told from another; compare sizeof({name})"
        elif isinstance(literal, str) and literal not in plain[name]:
            texts = [str(value) for value in in_order(plain[name])]
            yield path, f"'{name}' is never '{literal}'{closest(literal, texts) or f'; it is {_either(texts)}'}"


def _either(texts: list[str]) -> str:
    return " or ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
