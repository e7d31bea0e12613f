"""A table override: a lock file read as a table. Its content is untrusted: a row's needs are taken and checked."""

from __future__ import annotations

import json

from .answers import LockTable
from .errors import OverrideError
from .table import KERNELS, PACKAGE
from .text import described, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .table import Kernel

FORMAT = 1


def read(path: str, by: str) -> LockTable:
    """Return the rows and selections of this package's kernels from the lock file at `path`, that `by` named."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs more than this file does
            document = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OverrideError(f"{by}: {shown(path)} cannot be read as JSON: {reason}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else None
        raise OverrideError(f"{by}: {shown(path)} is not a lock of format {FORMAT} (its format is {found!r})")
    devices = {
        str(name): {key: value for key, value in facts.items() if type(value) is int}
        for name, facts in _dict(document.get("devices", {})).items()
        if isinstance(facts, dict)
    }
    where = f"{by}: {shown(path)}"
    rows = _entries(document.get("rows", []), _row, where, "row")
    return LockTable(devices, rows, _entries(document.get("selections", []), _selection, where, "selection"))


def _entries(
    entries: object, parse: Callable[[Kernel, dict[str, Any]], tuple[Any, ...]], where: str, kind: str
) -> dict[str, dict[str, tuple[tuple[Any, ...], ...]]]:
    """Return what stands in a lock of one kind, by kernel and device, as the table of a package has it."""
    table: dict[str, dict[str, tuple[tuple[Any, ...], ...]]] = {}
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        try:
            kernel = KERNELS.get(entry["kernel"])
            if kernel is None:
                continue
            parsed = parse(kernel, entry)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, OverrideError):
                raise OverrideError(f"{where}: {error}") from None
            raise OverrideError(f"{where}: {kind} {number} cannot be read: {error!r}") from None
        of_kernel = table.setdefault(kernel.name, {})
        of_kernel[str(entry["device"])] = (*of_kernel.get(str(entry["device"]), ()), parsed)
    return table


def _row(kernel: Kernel, row: dict[str, Any]) -> tuple[Any, ...]:
    specialisation = _specialisation(kernel, row)
    problem = {name: _int(size) for name, size in _dict(row["problem"]).items()}
    if set(problem) != set(kernel.free_dims):
        raise ValueError(f"problem {problem} does not give {', '.join(kernel.free_dims)}")
    choices = []
    for choice in row["choices"]:
        low, high = choice.get("ratio", (1.0, 1.0))
        head = _shipped(kernel, specialisation, choice)
        times = float(choice.get("time_us", 0.0)), (float(low), float(high))
        choices.append((*head, *times, str(choice.get("library", ""))))
    return specialisation, problem, tuple(choices), _evidence(row)


def _selection(kernel: Kernel, entry: dict[str, Any]) -> tuple[Any, ...]:
    from .costs import compiled  # noqa: PLC0415 - brings ast, which nothing else needs

    specialisation = _specialisation(kernel, entry)
    *others, default = entry["choices"]
    choices = [*(one for one in others if one["cost"] and default["cost"]), default]  # the others predict nothing
    costs = compiled([_cost(choice["cost"]) for choice in choices], kernel.free_dims)
    shipped = tuple((*_shipped(kernel, specialisation, one), str(one.get("library", ""))) for one in choices)
    inside, outside = (_int(margin) for margin in entry["margins"])
    reach = {str(name): (_int(low), _int(high)) for name, (low, high) in _dict(entry["reach"]).items()}
    if not set(reach) <= set(kernel.free_dims):
        raise ValueError(f"reach {reach} is not of {', '.join(kernel.free_dims)}")
    problems, certificate = _int(entry.get("problems", 0)), entry.get("certificate")
    certified = None if certificate is None else _certificate(certificate)
    return specialisation, shipped, costs, (inside, outside), reach, problems, certified, _evidence(entry)


def _cost(terms: object) -> list[tuple[str, int]]:
    """Return a cost, which is an object of femtoseconds by term."""
    return list(_dict(terms).items())


def _certificate(entry: dict[str, Any]) -> tuple[Any, ...]:
    outside = entry.get("outside")
    losses = _losses(entry["inside"]), None if outside is None else _losses(outside)
    return int(entry["seed"]), *losses, bool(entry.get("calls", False))


def _losses(entry: dict[str, Any]) -> tuple[Any, ...]:
    shares = (float(entry[name]) for name in ("mean", "p95", "worst", "slower"))
    return _int(entry["problems"]), *shares, {name: _int(size) for name, size in _dict(entry["worst_at"]).items()}


def _specialisation(kernel: Kernel, entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry's specialisation; raises ValueError for one that lacks a value."""
    found = _dict(entry["specialisation"])
    if set(found) != set(kernel.specialisation_names):
        raise ValueError(f"specialisation {found} does not give {', '.join(kernel.specialisation_names)}")
    return found


def _shipped(kernel: Kernel, specialisation: dict[str, Any], choice: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a choice's implementation and configuration, which have to ship."""
    implementation, configuration = str(choice["implementation"]), _dict(choice["configuration"])
    shipped = [one for one in kernel.shipped if one.specialisation == specialisation]
    if not any(one.runs(implementation, configuration) for one in shipped):
        names = sorted({described(one.implementation, one.configuration) for one in shipped})
        listed = "; ".join(names) or "nothing for this specialisation"
        values = ",".join(f"{name}={value}" for name, value in sorted(configuration.items()))
        raise OverrideError(
            f"{PACKAGE}.{kernel.name} does not ship {described(implementation, configuration)}; it ships {listed}. "
            f"To ship another, build with `pretuned bake --with {kernel.name}:{values}`"
        )
    return implementation, dict(sorted(configuration.items()))


def _evidence(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("date", "driver", "compiler"))


def _dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value


def _int(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a size, found {value!r}")
    return value
