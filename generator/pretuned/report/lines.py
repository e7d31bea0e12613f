"""The rows of a table, whichever place they come from: a lock, or a generated package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from pretuned.record.lock import Lock
from pretuned.record.rows import Row
from pretuned.runtime.records import rows_of
from pretuned.runtime.text import described
from pretuned.spec.space import describe, pairs

Spread = tuple[float, float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row for a report. Times in microseconds; `ratio` is the 95% interval of the winner's time over the default's.

    `default_spread_us` and `winner_spread_us` are the 10th, 50th and 90th percentile of the samples, None where they
    were not kept. `others` counts the choices between the winner and the default; `note` says `recompiled` where the
    binary is not the one that was measured. `effort` is that of the tuning, empty for `default` and in packages, which
    do not know it.
    """

    kernel: str
    device: str
    specialisation: str
    problem: str
    configuration: str
    is_default: bool
    default_us: float
    winner_us: float
    ratio: tuple[float, float]
    others: int
    note: str
    date: str
    driver: str
    compiler: str
    default_spread_us: Spread = None
    winner_spread_us: Spread = None
    effort: str = ""

    @property
    def speedup(self) -> float:
        """How many times faster than the default the winner is."""
        return self.default_us / self.winner_us if self.winner_us else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the speed-up included."""
        return asdict(self) | {"speedup": round(self.speedup, 4)}


def of_rows(rows: Iterable[Row]) -> list[Line]:
    """Return the lines of rows."""
    return [
        Line(
            kernel=row.kernel,
            device=row.device,
            specialisation=describe(row.problem.specialisation),
            problem=describe(row.problem.dims),
            configuration=str(row.winner.configuration),
            is_default=len(row.choices) == 1,
            default_us=row.default.time_us,
            winner_us=row.winner.time_us,
            ratio=row.winner.ratio,
            others=max(0, len(row.choices) - 2),
            note="noisy" if row.noise else "",
            date=row.date,
            driver=row.driver,
            compiler=row.compiler,
            default_spread_us=row.default.spread_us,
            winner_spread_us=row.winner.spread_us,
            effort=row.effort,
        )
        for row in rows
    ]


def of_lock(lock: Lock) -> list[Line]:
    """Return the lines of a lock."""
    return of_rows(lock.rows)


def of_package(package: ModuleType) -> list[Line]:
    """Return the lines of a generated package; raises AttributeError or ValueError if it is none."""
    return list(_package_lines(package.TABLE))


def _package_lines(table: Any) -> Iterator[Line]:  # noqa: ANN401 - the generated literal
    for kernel, literal in sorted(table.items()):
        for device, rows in sorted(rows_of(literal).items()):
            for row in rows:
                choice, evidence = row.choices[0], row.evidence
                yield Line(
                    kernel=kernel,
                    device=device,
                    specialisation=describe(pairs(row.specialisation)),
                    problem=describe(pairs(row.measured)),
                    configuration=described(choice.implementation, choice.configuration),
                    is_default=len(row.choices) == 1,
                    default_us=row.choices[-1].time_us,
                    winner_us=choice.time_us,
                    ratio=choice.ratio,
                    others=max(0, len(row.choices) - 2),
                    note="recompiled" if choice.recompiled else choice.library,
                    date=evidence.date,
                    driver=evidence.driver,
                    compiler=evidence.compiler,
                    default_spread_us=row.choices[-1].spread_us,
                    winner_spread_us=choice.spread_us,
                )
