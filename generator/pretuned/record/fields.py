"""The fields of a file's lines, each held to its kind: what comes from a file is data that anybody may have written.

Each reader takes the object and the field's name, and returns the value as it stands there; raises KeyError where it is
missing, TypeError for another kind, ValueError out of the range. `within` turns these into a FieldError with the place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, get_args

from pretuned.config.project import Effort
from pretuned.record.rows import Row
from pretuned.record.selections import Selection
from pretuned.runtime.text import shown
from pretuned.spec.space import Configuration, Pairs, pairs

ORIGIN: Final = ("space", "verification", "compiler", "driver", "date")
TEXTS: Final = ("kernel", "device", *ORIGIN)  # of rows and selections

Data = Mapping[str, Any]
T = TypeVar("T")


class FieldError(ValueError):
    """What is wrong in a file, and where, such as `selections[0].certificate`."""

    def __init__(self, place: str, text: str) -> None:
        self.place, self.text = place, text
        super().__init__(f"{place}: {text}")


def within(place: str, parse: Callable[[Data], T], value: object) -> T:
    """Return what `parse` makes of the object that stands at `place`; raises FieldError for what it is not."""
    if not isinstance(value, dict):
        raise FieldError(place, f"is {shown(value)}, not an object")
    try:
        return parse(value)
    except FieldError as error:
        raise FieldError(f"{place}.{error.place}", error.text) from None
    except KeyError as error:
        raise FieldError(place, f"lacks {error}") from None
    except (TypeError, ValueError) as error:
        raise FieldError(place, str(error)) from None


def origin(line: Row | Selection) -> dict[str, Any]:
    """Return what a row or selection was made from, and with, as its line ends with it."""
    found: dict[str, Any] = {name: getattr(line, name) for name in ORIGIN}
    found |= {"headers": dict(line.headers)} if line.headers else {}
    return found | ({"effort": line.effort} if line.effort else {})


def effort(data: Data) -> str:
    """Return the effort that a line was tuned with; "" for the default one, which lines leave out."""
    found = text(data, "effort", "")
    if found and found not in get_args(Effort):
        raise ValueError(f"'effort' is {shown(found)}, not one of {', '.join(get_args(Effort))}")
    return found


def text(data: Data, name: str, *otherwise: str) -> str:
    """Return a text; where the field is missing, `otherwise`."""
    value = data.get(name, *otherwise) if otherwise else data[name]
    if not isinstance(value, str):
        raise TypeError(f"'{name}' is {shown(value)}, not a text")
    return value


def number(value: object, name: str) -> float:
    """Return a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not _is_finite(value):
        raise TypeError(f"'{name}' is {shown(value)}, not a number")
    return float(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def time_us(data: Data, name: str) -> float:
    """Return a time, above 0."""
    if (value := number(data[name], name)) <= 0:
        raise ValueError(f"'{name}' is {data[name]!r}, not a time above 0")
    return value


def spread_us(data: Data) -> tuple[float, float, float]:
    """Return three times above 0, none smaller than the one before."""
    low, middle, high = (number(value, "spread_us") for value in listed(data, "spread_us", 3))
    if not 0 < low <= middle <= high:
        raise ValueError(f"'spread_us' is {shown(data['spread_us'])}, not three times above 0 in ascending order")
    return low, middle, high


def share(data: Data, name: str, most: float = math.inf) -> float:
    """Return a share, such as 0.01 for 1%."""
    if not 0 <= (value := number(data[name], name)) <= most:
        raise ValueError(
            f"'{name}' is {shown(data[name])}, not " + ("0 or more" if most == math.inf else f"0 to {most:g}")
        )
    return value


def whole(value: object, what: str, least: int, most: int) -> int:
    """Return an integer from `least` to `most`; a message calls it `what`."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{what} is {shown(value)}, not a whole number from {least} to {most}")
    return value


def listed(data: Data, name: str, count: int | None = None) -> list[Any]:
    """Return a list, of `count` values where that is given."""
    value = data[name]
    if not isinstance(value, list) or count not in {None, len(value)}:
        raise TypeError(f"'{name}' is {shown(value)}, not a list{'' if count is None else f' of {count}'}")
    return value


def plain(data: Data, name: str) -> Pairs:
    """Return names with their integers, booleans, texts or finite floats."""
    for key, value in mapping(data, name).items():
        if not isinstance(value, bool | int | str) and not (isinstance(value, float) and math.isfinite(value)):
            raise TypeError(f"'{key}' of '{name}' is {shown(value)}, not a number, a boolean or a text")
    return pairs(data[name])


def mapping(data: Data, name: str) -> Data:
    """Return an object."""
    value: object = data[name]
    if not isinstance(value, dict):
        raise TypeError(f"'{name}' is {shown(value)}, not an object")
    return value


def sizes(data: Data, name: str) -> Pairs:
    """Return dims with their sizes."""
    for key, size in mapping(data, name).items():
        if type(size) is not int:
            raise TypeError(f"'{key}' of '{name}' is {shown(size)}, not a size")
    return pairs(data[name])


def configuration(data: Data) -> Configuration:
    """Return the configuration of a choice."""
    return Configuration(implementation=text(data, "implementation"), values=plain(data, "configuration"))


def headers(data: Data) -> Pairs:
    """Return the digests of a line's headers, by name."""
    digests = mapping({"headers": {}} | dict(data), "headers")
    return pairs({name: text(digests, name) for name in digests})
