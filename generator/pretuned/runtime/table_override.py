"""A table override: a lock file read as a table. Its content is untrusted: a row's needs are taken and checked."""

from __future__ import annotations

import json

from .answers import LockTable
from .errors import OverrideError, shipping
from .expressions import LIMIT
from .table import KERNELS, PACKAGE
from .text import described, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .table import Kernel

FORMAT = 1


class _WrongError(Exception):
    """What is wrong in the file, where, such as `selections[0].certificate`, and what to do."""

    def __init__(self, place: str, text: str, remedy: str = "take a lock as `pretuned tune` writes it") -> None:
        self.place, self.text, self.remedy = place, text, remedy


def read(path: str, by: str) -> LockTable:
    """Return the rows and selections of this package's kernels from the lock file at `path`, that `by` named."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs more than this file does
            document = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OverrideError(f"{by}: {shown(path)} cannot be read as JSON: {reason}") from None
    found = document.get("format") if isinstance(document, dict) else None
    if type(found) is not int or found != FORMAT:
        raise OverrideError(f"{by}: {shown(path)} is not a lock of format {FORMAT} (its format is {shown(found)})")
    try:
        devices = {
            name: {key: value for key, value in facts.items() if type(value) is int}
            for name, facts in _dict({"devices": {}} | document, "devices").items()
            if isinstance(facts, dict)
        }
        return LockTable(devices, _entries(document, "rows", _row), _entries(document, "selections", _selection))
    except _WrongError as error:
        raise OverrideError(f"{by}: {shown(path)}: {error.place}: {error.text}; {error.remedy}") from None
    except TypeError as error:
        raise OverrideError(f"{by}: {shown(path)}: {error}") from None


def _entries(
    document: dict[str, Any], name: str, parse: Callable[[Kernel, dict[str, Any]], tuple[Any, ...]]
) -> dict[str, dict[str, tuple[tuple[Any, ...], ...]]]:
    """Return what stands in a lock of one kind, by kernel and device, as the table of a package has it."""
    table: dict[str, dict[str, tuple[tuple[Any, ...], ...]]] = {}

    def add(entry: dict[str, Any]) -> None:
        kernel = KERNELS.get(_text(entry, "kernel"))
        if kernel is not None:
            device, parsed = _text(entry, "device"), parse(kernel, entry)
            of_kernel = table.setdefault(kernel.name, {})
            of_kernel[device] = (*of_kernel.get(device, ()), parsed)

    for number, entry in enumerate(_list(document, name) if name in document else []):
        _within(f"{name}[{number}]", add, entry)
    return table


def _within(place: str, parse: Callable[[dict[str, Any]], Any], value: object) -> Any:  # noqa: ANN401 - of `parse`
    """Return what `parse` makes of the object that stands at `place`; raises _WrongError for what it is not."""
    try:
        return parse(_object(value))
    except _WrongError as error:
        below = f".{error.place}" if error.place else ""
        raise _WrongError(place + below, error.text, error.remedy) from None
    except KeyError as error:
        raise _WrongError(place, f"lacks {error}") from None
    except (TypeError, ValueError) as error:
        raise _WrongError(place, str(error)) from None


def _row(kernel: Kernel, row: dict[str, Any]) -> tuple[Any, ...]:
    specialisation, problem = _specialisation(kernel, row), _sizes(row, "problem")
    if set(problem) != set(kernel.free_dims):
        raise ValueError(f"'problem' is {shown(problem)}, not sizes of {', '.join(kernel.free_dims)}")

    def choice(one: dict[str, Any]) -> tuple[Any, ...]:
        low, high = _list(one, "ratio", 2) if "ratio" in one else (1.0, 1.0)
        time_us = _number(one.get("time_us", 0.0), "time_us")
        times = time_us, (_number(low, "ratio"), _number(high, "ratio"))
        spread_us = _spread_us(one) if "spread_us" in one else None
        return (*_shipped(kernel, specialisation, one), *times, str(one.get("library", "")), False, spread_us)

    return specialisation, problem, _choices(row, choice), _evidence(row)


def _selection(kernel: Kernel, entry: dict[str, Any]) -> tuple[Any, ...]:
    from .costs import check, compiled  # noqa: PLC0415 - brings ast, which nothing else needs

    specialisation = _specialisation(kernel, entry)

    def choice(one: dict[str, Any]) -> tuple[tuple[Any, ...], list[tuple[str, int]]]:
        cost = list(_dict(one, "cost").items())
        check(cost, kernel.free_dims)
        return (*_shipped(kernel, specialisation, one), str(one.get("library", ""))), cost

    *others, default = given = _choices(entry, choice)
    if _int(entry.get("defaults", 1), "defaults") > 1:
        choices = [one for one in given if one[1]]
    else:
        choices = [*(one for one in others if one[1] and default[1]), default]  # the others predict nothing
    costs = compiled([cost for _, cost in choices], kernel.free_dims)
    inside, outside = (_int(margin, "margins", 1000) for margin in _list(entry, "margins", 2))
    spans = _dict(entry, "reach")
    reach = {name: tuple(_int(size, name) for size in _list(spans, name, 2)) for name in spans}
    if not set(reach) <= set(kernel.free_dims):
        raise ValueError(f"'reach' is {shown(reach)}, not of {', '.join(kernel.free_dims)}")
    problems, certificate = _int(entry.get("problems", 0), "problems"), entry.get("certificate")
    certified = None if certificate is None else _within("certificate", _certificate, certificate)
    shipped = tuple(one for one, _ in choices)
    return specialisation, shipped, costs, (inside, outside), reach, problems, certified, _evidence(entry)


def _spread_us(choice: dict[str, Any]) -> tuple[float, ...]:
    found = tuple(_number(time_us, "spread_us") for time_us in _list(choice, "spread_us", 3))
    if not 0 < found[0] <= found[1] <= found[2]:
        raise ValueError(f"'spread_us' is {shown(choice['spread_us'])}, not three times above 0 in ascending order")
    return found


def _choices(entry: dict[str, Any], parse: Callable[[dict[str, Any]], Any]) -> tuple[Any, ...]:
    listed = _list(entry, "choices")
    if not listed:
        raise ValueError("'choices' is empty")
    return tuple(_within(f"choices[{place}]", parse, one) for place, one in enumerate(listed))


def _certificate(entry: dict[str, Any]) -> tuple[Any, ...]:
    outside = entry.get("outside")
    inside = _within("inside", _losses, entry["inside"])
    beyond = None if outside is None else _within("outside", _losses, outside)
    return _int(entry["seed"], "seed"), inside, beyond, bool(entry.get("calls", False))


def _losses(entry: dict[str, Any]) -> tuple[Any, ...]:
    shares = [_number(entry[name], name) for name in ("mean", "p95", "worst", "slower")]
    if min(shares) < 0:
        raise ValueError(f"a loss is {shown(min(shares))}, not 0 or more")
    return _int(entry["problems"], "problems"), *shares, _sizes(entry, "worst_at")


def _specialisation(kernel: Kernel, entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry's specialisation; raises ValueError for one that lacks a value."""
    found = _dict(entry, "specialisation")
    if set(found) != set(kernel.specialisation_names):
        names = ", ".join(kernel.specialisation_names)
        raise ValueError(f"'specialisation' is {shown(found)}, not a value for each of {names}")
    return found


def _shipped(kernel: Kernel, specialisation: dict[str, Any], choice: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a choice's implementation and configuration; raises _WrongError where that does not ship."""
    implementation, configuration = _text(choice, "implementation"), _dict(choice, "configuration")
    shipped = [one for one in kernel.shipped if one.specialisation == specialisation]
    if not any(one.runs(implementation, configuration) for one in shipped):
        names = sorted({described(one.implementation, one.configuration) for one in shipped})
        listed = "; ".join(names) or "nothing for this specialisation"
        raise _WrongError(
            "",
            f"{PACKAGE}.{kernel.name} does not ship {described(implementation, configuration)}; it ships {listed}",
            f"to ship another, {shipping(kernel, implementation, configuration)}",
        )
    return implementation, dict(sorted(configuration.items()))


def _evidence(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("date", "driver", "compiler"))


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"is {shown(value)}, not an object")
    return value


def _dict(entry: dict[str, Any], name: str) -> dict[str, Any]:
    value = entry[name]
    if not isinstance(value, dict):
        raise TypeError(f"'{name}' is {shown(value)}, not an object")
    return value


def _list(entry: dict[str, Any], name: str, count: int | None = None) -> list[Any]:
    value = entry[name]
    if not isinstance(value, list) or count not in {None, len(value)}:
        raise TypeError(f"'{name}' is {shown(value)}, not a list{'' if count is None else f' of {count}'}")
    return value


def _text(entry: dict[str, Any], name: str) -> str:
    value = entry[name]
    if not isinstance(value, str):
        raise TypeError(f"'{name}' is {shown(value)}, not a text")
    return value


def _sizes(entry: dict[str, Any], name: str) -> dict[str, int]:
    return {dim: _int(size, dim) for dim, size in _dict(entry, name).items()}


def _int(value: object, name: str, most: int = LIMIT) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"'{name}' is {shown(value)}, not a whole number from 0 to {most}")
    return value


def _number(value: object, name: str) -> float:
    if type(value) not in {int, float} or not -LIMIT <= value <= LIMIT:  # type: ignore[operator]
        raise ValueError(f"'{name}' is {shown(value)}, not a number")
    return float(value)  # type: ignore[arg-type]
