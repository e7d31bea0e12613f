"""What a tuning measured, whichever format it was kept in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Self

ParameterValue = int | float | str | bool

CORRECT: Final = "correct"
INVALIDITIES: Final = ("timeout", "compile", "runtime", "correctness", "constraints", CORRECT)  # as T4 names them
DIGITS: Final = 6  # of a microsecond: times are kept to the picosecond, so that changing units loses nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Measured configurations of one kernel on one problem.

    `configurations` holds a row of values in the order of `names` each; `times_us` their medians in microseconds, inf
    where `invalidity` is not "correct"; `samples_us` the single measurements, none where they were not kept.
    """

    names: tuple[str, ...]
    configurations: tuple[tuple[ParameterValue, ...], ...]
    times_us: tuple[float, ...]
    invalidity: tuple[str, ...]
    samples_us: tuple[tuple[float, ...], ...]

    @classmethod
    def of(
        cls,
        configurations: Sequence[Mapping[str, ParameterValue]],
        times_us: Sequence[float],
        invalidity: Sequence[str],
        samples_us: Sequence[Sequence[float]] | None = None,
    ) -> Self:
        """Return the results of a tuning, times rounded to the picosecond.

        All sequences are as long as `configurations`, which all have the same names. A time in `times_us` counts where
        there are no samples: else it is their median, and for a failure inf. Raises ValueError for sequences that do
        not fit each other, an invalidity that T4 does not know, or a time that is not a positive number.
        """
        names = tuple(configurations[0]) if configurations else ()
        if any(len(c) != len(names) or any(name not in c for name in names) for c in configurations):
            raise ValueError("the configurations do not all have the same parameters")
        if unknown := set(invalidity) - set(INVALIDITIES):
            raise ValueError(f"{min(unknown)!r} is not an invalidity; T4 knows {', '.join(INVALIDITIES)}")
        taken = samples_us or [()] * len(configurations)
        rows = [
            (tuple(c[name] for name in names), *_timing(time_us, invalid, samples))
            for c, time_us, invalid, samples in zip(configurations, times_us, invalidity, taken, strict=True)
        ]
        columns = tuple(zip(*rows, strict=True)) or ((), (), (), ())
        return cls(
            names=names, configurations=columns[0], times_us=columns[1], invalidity=columns[2], samples_us=columns[3]
        )

    @property
    def values(self) -> tuple[tuple[ParameterValue, ...], ...]:
        """The distinct values of each parameter, sorted, in the order of `names`."""
        columns = zip(*self.configurations, strict=True)
        return tuple(in_order(column) for column in columns) or tuple(() for _ in self.names)


def in_order(values: Sequence[ParameterValue]) -> tuple[ParameterValue, ...]:
    """Return the distinct values sorted: numbers first, by value, then strings."""
    return tuple(sorted(dict.fromkeys(values), key=lambda value: (isinstance(value, str), value)))


def middle(samples_us: Sequence[float]) -> float:
    """Return the median of samples in microseconds, rounded; inf without any."""
    return _rounded(median(samples_us)) if samples_us else math.inf


def _rounded(time_us: float) -> float:
    return round(float(time_us), DIGITS)


def _timing(time_us: float, invalidity: str, samples_us: Sequence[float]) -> tuple[float, str, tuple[float, ...]]:
    """Return time, invalidity and samples as they are kept."""
    if invalidity != CORRECT:
        return math.inf, invalidity, ()
    samples = tuple(map(_rounded, samples_us))
    kept = middle(samples) if samples else _rounded(time_us)
    if not 0 < kept < math.inf:
        raise ValueError(f"a correct configuration took {kept} microseconds")
    return kept, invalidity, samples
