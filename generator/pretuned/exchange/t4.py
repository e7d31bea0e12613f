"""T4, the community's format of tuning results: every configuration with its runtimes, or why it has none.

The schema is version 1.0.0 of the AutoTuning Association's; files of the public benchmark hub and of Kernel Tuner's
`store_output_file` read. Written files give times in milliseconds, as all others do.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from pretuned.exchange.files import FormatError, read_json, write_json
from pretuned.exchange.results import CORRECT, INVALIDITIES, ParameterValue, Results, middle

SCHEMA: Final = "1.0.0"
_UNITS_US: Final = {
    "seconds": 1e6,
    "miliseconds": 1e3,  # as the files of the benchmark hub spell it
    "milliseconds": 1e3,
    "microseconds": 1.0,
    "nanoseconds": 1e-3,
}


def read(path: Path) -> Results:
    """Return the results in a T4 file (.json, gzipped or not).

    A configuration's time is the median of its runtimes; where none were kept, the measurement "time". Raises
    FormatError, with the place of what is wrong.
    """
    data = read_json(path)
    entries = data.get("results")
    if not isinstance(entries, list) or not entries:
        raise FormatError(path, "has no list 'results', so it is not a T4 file, or an empty one")
    unit_us = _unit_us(path, data)
    rows = [_row(path, index, entry, unit_us) for index, entry in enumerate(entries)]
    configurations, times_us, invalidity, samples_us = zip(*rows, strict=True)
    try:
        return Results.of(configurations, times_us, invalidity, samples_us)
    except ValueError as error:
        raise FormatError(path, str(error)) from None


def write(path: Path, results: Results) -> None:
    """Write `results` as a T4 file, gzipped if its name ends in .gz; `read` returns them equal."""
    entries = [
        {
            "configuration": dict(zip(results.names, configuration, strict=True)),
            "times": {"runtimes": [time_us / 1e3 for time_us in samples]},
            "invalidity": invalidity,
            "correctness": int(invalidity == CORRECT),
            "measurements": [{"name": "time", "value": _milliseconds(time_us, invalidity), "unit": "ms"}],
            "objectives": ["time"],
        }
        for configuration, time_us, invalidity, samples in zip(
            results.configurations, results.times_us, results.invalidity, results.samples_us, strict=True
        )
    ]
    metadata = {"timeunit": "milliseconds"}
    write_json(path, {"schema_version": SCHEMA, "metadata": metadata, "results": entries})


def _milliseconds(time_us: float, invalidity: str) -> float | str:
    return time_us / 1e3 if math.isfinite(time_us) else invalidity


def _unit_us(path: Path, data: dict[str, Any]) -> float:
    metadata = data.get("metadata")
    unit = metadata.get("timeunit", "milliseconds") if isinstance(metadata, dict) else "milliseconds"
    if unit not in _UNITS_US:
        raise FormatError(path, f"metadata.timeunit is {unit!r}; known are {', '.join(_UNITS_US)}")
    return _UNITS_US[unit]


def _row(
    path: Path,
    index: int,
    entry: Any,  # noqa: ANN401 - JSON
    unit_us: float,
) -> tuple[dict[str, ParameterValue], float, str, tuple[float, ...]]:
    """Return configuration, time, invalidity and samples of one entry, times in microseconds."""
    place = f"results[{index}]"
    match entry:
        case {"configuration": dict(configuration), "invalidity": str(invalidity), "times": dict(times)}:
            measurements = entry.get("measurements")
        case _:
            raise FormatError(path, f"{place} lacks 'configuration', 'times' or 'invalidity'")
    if invalidity not in INVALIDITIES:
        raise FormatError(path, f"{place}.invalidity is {invalidity!r}; T4 knows {', '.join(INVALIDITIES)}")
    if odd := [name for name, value in configuration.items() if not isinstance(value, int | float | str)]:
        raise FormatError(path, f"{place}.configuration.{odd[0]} is neither a number nor a string")
    runtimes = times.get("runtimes", [])
    if not isinstance(runtimes, list) or not all(isinstance(time, int | float) for time in runtimes):
        raise FormatError(path, f"{place}.times.runtimes is not a list of numbers")
    if invalidity != CORRECT:
        return configuration, math.inf, invalidity, ()
    samples_us = tuple(time * unit_us for time in runtimes)
    time_us = middle(samples_us) if samples_us else _measured(measurements) * unit_us
    if not 0 < time_us < math.inf:
        raise FormatError(path, f"{place} is correct but has no time: no runtimes, and no measurement 'time'")
    return configuration, time_us, invalidity, samples_us


def _measured(measurements: object) -> float:
    """Return the measurement "time", in the file's unit; nan without one."""
    for measurement in measurements if isinstance(measurements, list) else []:
        match measurement:
            case {"name": "time", "value": int() | float() as value}:
                return float(value)
    return math.nan
