"""A table override: a lock file read as a table. Its content is untrusted: a row's needs are taken and checked."""

from __future__ import annotations

import json

from .errors import OverrideError
from .records import Evidence, TableChoice, TableRow
from .table import KERNELS, PACKAGE
from .text import described, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .table import Devices, Kernel

FORMAT = 1


def read(path: str, by: str) -> tuple[Devices, dict[str, dict[str, tuple[TableRow, ...]]]]:
    """Return the devices and the rows of this package's kernels from the lock file at `path`, that `by` named."""
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
    table: dict[str, dict[str, tuple[TableRow, ...]]] = {}
    rows = document.get("rows", [])
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        try:
            kernel = KERNELS.get(row["kernel"])
            if kernel is None:
                continue
            parsed = _row(kernel, row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, OverrideError):
                raise OverrideError(f"{by}: {shown(path)}: {error}") from None
            raise OverrideError(f"{by}: {shown(path)}: row {number} cannot be read: {error!r}") from None
        of_kernel = table.setdefault(kernel.name, {})
        of_kernel[str(row["device"])] = (*of_kernel.get(str(row["device"]), ()), parsed)
    return devices, table


def _row(kernel: Kernel, row: dict[str, Any]) -> TableRow:
    specialisation = _dict(row["specialisation"])
    problem = {name: _int(size) for name, size in _dict(row["problem"]).items()}
    if set(problem) != set(kernel.sizes):
        raise ValueError(f"problem {problem} does not give {', '.join(sorted(kernel.sizes))}")
    choices = tuple(_choice(kernel, specialisation, choice) for choice in row["choices"])
    evidence = Evidence(*(str(row.get(key, "")) for key in ("date", "driver", "compiler")))
    return TableRow(specialisation, {}, problem, choices, evidence)


def _choice(kernel: Kernel, specialisation: dict[str, Any], choice: dict[str, Any]) -> TableChoice:
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
    low, high = choice.get("ratio", (1.0, 1.0))
    beyond = tuple(str(direction) for direction in choice.get("beyond", ()))
    time_us, library = float(choice.get("time_us", 0.0)), str(choice.get("library", ""))
    return TableChoice(implementation, configuration, time_us, (float(low), float(high)), beyond, library)


def _dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value


def _int(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a size, found {value!r}")
    return value
