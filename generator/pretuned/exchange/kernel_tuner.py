"""Kernel Tuner's cache files: JSON that is written as the tuning goes, one configuration a line, and closed at its end.

A file that is still being written, or whose writer was killed, lacks its last brackets, or ends within a line.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

from pretuned.exchange.files import FormatError, parse, read_text
from pretuned.exchange.results import CORRECT, ParameterValue, Results, middle

MILLISECOND_US: Final = 1e3
INVALIDITY: Final = {  # the error classes whose names Kernel Tuner writes
    "InvalidConfig": "constraints",
    "CompilationFailedConfig": "compile",
    "RuntimeFailedConfig": "runtime",
    "ErrorConfig": "runtime",
}


def read(path: Path) -> Results:
    """Return the results in a cache file, of a finished tuning or not; times are medians of the `times` of each.

    A line that was cut short is left out. Raises FormatError, with the place of what is wrong.
    """
    data = _closed(path, read_text(path).strip())
    entries, names = data.get("cache"), data.get("tune_params_keys")
    if not isinstance(entries, dict) or not isinstance(names, list):
        raise FormatError(path, "has no 'cache' or no 'tune_params_keys', so it is not a cache file of Kernel Tuner")
    if not entries:
        raise FormatError(path, "holds no configuration yet")
    rows = [_row(path, key, entry, names) for key, entry in entries.items()]
    configurations, times_us, invalidity, samples_us = zip(*rows, strict=True)
    try:
        return Results.of(configurations, times_us, invalidity, samples_us)
    except ValueError as error:
        raise FormatError(path, str(error)) from None


def _closed(path: Path, text: str) -> dict[str, Any]:
    """Return the object in `text`, its brackets closed, without a last line that is not a whole one."""
    whole = text[: text.rfind("\n")] if "\n" in text else text
    for trial in (text, f"{text.removesuffix(',')}}}}}", f"{whole.rstrip().removesuffix(',')}}}}}"):
        try:
            json.loads(trial)
        except (json.JSONDecodeError, RecursionError):
            continue
        return parse(path, trial)
    return parse(path, text)


def _row(
    path: Path, key: str, entry: object, names: list[str]
) -> tuple[dict[str, ParameterValue], float, str, tuple[float, ...]]:
    """Return configuration, time, invalidity and samples of one line, times in microseconds."""
    if not isinstance(entry, dict) or any(not isinstance(entry.get(name), int | float | str) for name in names):
        raise FormatError(path, f"cache[{key!r}] lacks a value for one of {', '.join(map(str, names))}")
    configuration = {name: entry[name] for name in names}
    time = entry.get("time")
    error = entry.get("__error__", time if isinstance(time, str) else None)
    if error is not None:
        return configuration, math.inf, INVALIDITY.get(str(error), "runtime"), ()
    times = entry.get("times", [])
    if not isinstance(times, list) or not all(isinstance(sample, int | float) for sample in times):
        raise FormatError(path, f"cache[{key!r}].times is not a list of numbers")
    samples_us = tuple(sample * MILLISECOND_US for sample in times)
    time_us = middle(samples_us) if samples_us else _time_us(time)
    if not 0 < time_us < math.inf:
        raise FormatError(path, f"cache[{key!r}] has neither a time nor an error")
    return configuration, time_us, CORRECT, samples_us


def _time_us(time: object) -> float:
    return time * MILLISECOND_US if isinstance(time, int | float) else math.nan
