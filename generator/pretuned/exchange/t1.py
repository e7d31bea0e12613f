"""T1, the community's format of tuning inputs: the parameters of a kernel, their values, and conditions on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pretuned.exchange.expressions import conditions_of, parse_values
from pretuned.exchange.files import FormatError, read_json
from pretuned.exchange.results import ParameterValue, in_order
from pretuned.runtime.text import no_such
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.tune.space.enumeration import Constraint, legal_product

MAX_ROWS: Final = 50_000_000  # legal configurations: what fits in about 1 GB


class SpaceError(ValueError):
    """A space is too large to enumerate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class T1Space:
    """Parameters in the file's order, each with its distinct values sorted, and the conditions that all must hold."""

    names: tuple[str, ...]
    values: tuple[tuple[ParameterValue, ...], ...]
    conditions: tuple[Expression, ...]

    def codes(self) -> npt.NDArray[np.int16]:
        """Return the legal configurations, (configurations, parameters), in lexicographic order.

        An entry is the index of the value in the parameter's sorted values. Raises SpaceError for a space with more
        than 50 million legal configurations.
        """
        values = {name: _numbers(listed) for name, listed in zip(self.names, self.values, strict=True)}
        constraints = [
            Constraint(expression=condition, names=self._read(condition), guard=False, environments=({},))
            for condition in self.conditions
        ]
        found = legal_product(values, constraints, 1, MAX_ROWS)
        if found is None:
            raise SpaceError(f"has more than {MAX_ROWS:,} configurations")
        return np.column_stack([found.codes[name] for name in self.names])

    def _read(self, condition: Expression) -> tuple[str, ...]:
        return tuple(name for name in self.names if name in condition.names)

    def count(self) -> int:
        """Return the number of legal configurations."""
        return len(self.codes())

    def configurations(self) -> Iterator[dict[str, ParameterValue]]:
        """Yield the legal configurations in the order of `codes`."""
        for row in self.codes().tolist():
            yield {name: of[code] for name, of, code in zip(self.names, self.values, row, strict=True)}


def _numbers(listed: tuple[ParameterValue, ...]) -> npt.NDArray[np.int64]:
    """Return the values of a parameter; of one that no condition can read, places stand for them."""
    integers = all(isinstance(value, int) for value in listed)
    return np.array(listed if integers else range(len(listed)), dtype=np.int64)


def read(path: Path) -> T1Space:
    """Return the space that a T1 file describes; raise FormatError, with the place of what is wrong."""
    space = read_json(path).get("ConfigurationSpace")
    if not isinstance(space, dict) or not isinstance(space.get("TuningParameters"), list):
        raise FormatError(path, "has no 'ConfigurationSpace' with 'TuningParameters', so it is not a T1 file")
    parameters = [_parameter(path, index, entry) for index, entry in enumerate(space["TuningParameters"])]
    names = tuple(name for name, _ in parameters)
    if not names or len(set(names)) < len(names):
        raise FormatError(path, "ConfigurationSpace.TuningParameters is empty, or names a parameter twice")
    conditions = space.get("Conditions") or []
    if not isinstance(conditions, list):
        raise FormatError(path, "ConfigurationSpace.Conditions is not a list")
    listed = dict(parameters)
    return T1Space(
        names=names,
        values=tuple(listed.values()),
        conditions=tuple(
            condition for index, entry in enumerate(conditions) for condition in _conditions(path, index, entry, listed)
        ),
    )


def _parameter(path: Path, index: int, entry: Any) -> tuple[str, tuple[ParameterValue, ...]]:  # noqa: ANN401 - JSON
    place = f"ConfigurationSpace.TuningParameters[{index}]"
    match entry:
        case {"Name": str(name), "Values": str() | list() as values}:
            text = values if isinstance(values, str) else repr(values)
        case _:
            raise FormatError(path, f"{place} lacks 'Name' or 'Values'")
    try:
        return name, in_order(parse_values(text))
    except ExpressionError as error:
        raise FormatError(path, f"{place}.Values: {error}") from None


def _conditions(
    path: Path,
    index: int,
    entry: Any,  # noqa: ANN401 - JSON
    listed: Mapping[str, tuple[ParameterValue, ...]],
) -> tuple[Expression, ...]:
    place = f"ConfigurationSpace.Conditions[{index}]"
    text = entry.get("Expression") if isinstance(entry, dict) else entry
    if not isinstance(text, str):
        raise FormatError(path, f"{place} lacks 'Expression'")
    try:
        conditions = conditions_of(text)
    except ExpressionError as error:
        raise FormatError(path, f"{place}: {error}") from None
    for name in sorted({name for condition in conditions for name in condition.names}):
        if name not in listed:
            raise FormatError(path, f"{place}: '{text}' reads '{name}': {no_such('parameter', name, listed)}")
        if not all(isinstance(value, int) for value in listed[name]):
            raise FormatError(path, f"{place}: '{text}' reads '{name}', whose values are not all integers")
    return conditions
