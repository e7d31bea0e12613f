"""T1, the community's format of tuning inputs: the parameters of a kernel, their values, and conditions on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pretuned.exchange.expressions import Condition, ExpressionError, parse_values
from pretuned.exchange.files import FormatError, read_json
from pretuned.exchange.results import ParameterValue, in_order
from pretuned.runtime.text import closest

MAX_ROWS: Final = 50_000_000  # partial configurations at a time; what fits in about 1 GB


class SpaceError(ValueError):
    """A space is too large to enumerate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class T1Space:
    """Parameters in the file's order, each with its distinct values sorted, and the conditions that all must hold."""

    names: tuple[str, ...]
    values: tuple[tuple[ParameterValue, ...], ...]
    conditions: tuple[Condition, ...]

    def codes(self) -> npt.NDArray[np.int16]:
        """Return the legal configurations, (configurations, parameters), in lexicographic order.

        An entry is the index of the value in the parameter's sorted values. Raises SpaceError for a space that holds
        more than 50 million partial configurations at any moment.
        """
        codes = np.zeros((1, 0), dtype=np.int16)
        left = list(self.conditions)
        for count, values in enumerate(self.values, 1):
            if len(codes) * len(values) > MAX_ROWS:
                raise SpaceError(f"more than {MAX_ROWS:,} configurations of {', '.join(self.names[:count])}")
            column = np.tile(np.arange(len(values), dtype=np.int16), len(codes))
            codes = np.column_stack([np.repeat(codes, len(values), axis=0), column])
            known = set(self.names[:count])
            for condition in [condition for condition in left if condition.names <= known]:
                codes = codes[self._holding(condition, codes)]
                left.remove(condition)
        return codes

    def count(self) -> int:
        """Return the number of legal configurations."""
        return len(self.codes())

    def configurations(self) -> Iterator[dict[str, ParameterValue]]:
        """Yield the legal configurations in the order of `codes`."""
        for row in self.codes().tolist():
            yield {name: of[code] for name, of, code in zip(self.names, self.values, row, strict=True)}

    def _holding(self, condition: Condition, codes: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
        """Return which rows fulfil `condition`, which is asked once for each distinct set of values that it reads."""
        places = [place for place, name in enumerate(self.names) if name in condition.names]
        shape = [len(self.values[place]) for place in places]
        if math.prod(shape) > np.iinfo(np.int64).max:
            raise SpaceError(f"'{condition.text}' reads too many parameters at once")
        flat = np.zeros(len(codes), dtype=np.int64)
        for place, size in zip(places, shape, strict=True):
            flat = flat * size + codes[:, place]
        _, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
        names, of = [self.names[place] for place in places], [self.values[place] for place in places]
        asked = codes[first][:, places].tolist()
        holds = [
            condition.holds({name: values[code] for name, values, code in zip(names, of, row, strict=True)})
            for row in asked
        ]
        return np.array(holds, dtype=np.bool_)[inverse]


def read(path: Path) -> T1Space:
    """Return the space that a T1 file describes; raise FormatError, with the place of what is wrong."""
    space = read_json(path).get("ConfigurationSpace")
    if not isinstance(space, dict) or not isinstance(space.get("TuningParameters"), list):
        raise FormatError(path, "has no 'ConfigurationSpace' with 'TuningParameters', so it is no T1 file")
    parameters = [_parameter(path, index, entry) for index, entry in enumerate(space["TuningParameters"])]
    names = tuple(name for name, _ in parameters)
    if not names or len(set(names)) < len(names):
        raise FormatError(path, "ConfigurationSpace.TuningParameters is empty, or names a parameter twice")
    conditions = space.get("Conditions") or []
    if not isinstance(conditions, list):
        raise FormatError(path, "ConfigurationSpace.Conditions is no list")
    return T1Space(
        names=names,
        values=tuple(values for _, values in parameters),
        conditions=tuple(_condition(path, index, entry, names) for index, entry in enumerate(conditions)),
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


def _condition(path: Path, index: int, entry: Any, names: tuple[str, ...]) -> Condition:  # noqa: ANN401 - JSON
    place = f"ConfigurationSpace.Conditions[{index}]"
    text = entry.get("Expression") if isinstance(entry, dict) else entry
    if not isinstance(text, str):
        raise FormatError(path, f"{place} lacks 'Expression'")
    try:
        condition = Condition.parse(text)
    except ExpressionError as error:
        raise FormatError(path, f"{place}: {error}") from None
    if unknown := condition.names - set(names):
        name = min(unknown)
        raise FormatError(path, f"{place}: '{text}' reads '{name}', which is no parameter{closest(name, names)}")
    return condition
