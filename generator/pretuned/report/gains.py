"""What a tuning gained, what it cost, after how many calls that is paid back, and what more effort would add."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from pretuned.errors import counted
from pretuned.record.rows import Row
from pretuned.tune.spending import Spending

SHOWN: Final = 0.0005  # a gain that is expected of more effort, and worth naming


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGain:
    """The microseconds that a call of `kernel` gains at `problem`, by its winner in place of its default."""

    kernel: str
    problem: str
    gained_us: float

    def calls(self, seconds: float) -> int:
        """Return after how many calls at this problem alone so many seconds are paid back."""
        return math.ceil(seconds * 1e6 / self.gained_us)

    def to_json(self, seconds: float) -> dict[str, Any]:
        """Return plain data."""
        calls = self.calls(seconds)
        return {"kernel": self.kernel, "problem": self.problem, "gained_us": round(self.gained_us, 3), "calls": calls}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """What a tuning that took `seconds` gained over `rows` rows.

    `faster` is the geometric mean of the defaults' times over the winners', `gained_us` the mean of what a call gains.
    `soonest` and `latest` are the rows at which that is most and least, of those that gain. `further` candidates are
    what the effort `thorough` would try besides, in about `further_s` seconds; they are expected to make a kernel
    faster by a factor of 1 + `expected`, on average over the searches.
    """

    seconds: float
    rows: int
    faster: float
    gained_us: float
    soonest: RowGain | None
    latest: RowGain | None
    further: int
    further_s: float
    expected: float

    @classmethod
    def of(cls, rows: Sequence[Row], spending: Spending) -> Self:
        """Return the gains of a tuning's rows and what it spent."""
        gains = [
            RowGain(kernel=row.kernel, problem=str(row.problem), gained_us=row.default.time_us - row.winner.time_us)
            for row in rows
        ]
        gaining = sorted((gain for gain in gains if gain.gained_us > 0), key=lambda gain: gain.gained_us)
        ratios = [math.log(row.default.time_us / row.winner.time_us) for row in rows]
        searched = spending.searched
        return cls(
            seconds=sum(spending.seconds.values()),
            rows=len(rows),
            faster=math.exp(statistics.fmean(ratios)) if ratios else 1.0,
            gained_us=statistics.fmean(gain.gained_us for gain in gains) if gains else 0.0,
            soonest=gaining[-1] if gaining else None,
            latest=gaining[0] if gaining else None,
            further=sum(one.further for one in searched),
            further_s=sum(one.seconds for one in searched),
            expected=math.expm1(statistics.fmean(one.gain for one in searched)) if searched else 0.0,
        )

    @property
    def calls(self) -> int | None:
        """After how many calls, alike of all rows, the seconds are paid back; None where nothing is gained."""
        return math.ceil(self.seconds * 1e6 / self.gained_us) if self.gained_us > 0 else None

    def lines(self) -> Iterator[str]:
        """Yield it in words; nothing where there is no row."""
        if not self.rows:
            return
        yield f"gained: {counted(self.rows, 'row')}, {self.faster:.2f}x as fast as with defaults (geometric mean)"
        if self.calls is not None and self.soonest is not None and self.latest is not None:
            soonest, latest = self.soonest, self.latest
            yield (
                f"paid back after {self.calls:,} calls, of {self.gained_us:.2f} us less each: from "
                f"{soonest.calls(self.seconds):,} ({soonest.kernel}: {soonest.problem}) to "
                f"{latest.calls(self.seconds):,} ({latest.kernel}: {latest.problem})"
            )
        if self.further and self.expected >= SHOWN:
            yield (
                f"`--effort thorough` would try {self.further:,} further configurations in about {self.further_s:.0f} "
                f"s, and is expected to gain {self.expected:.1%}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "seconds": round(self.seconds, 3),
            "rows": self.rows,
            "faster": round(self.faster, 4),
            "gained_us": round(self.gained_us, 3),
            "calls": self.calls,
            "soonest": None if self.soonest is None else self.soonest.to_json(self.seconds),
            "latest": None if self.latest is None else self.latest.to_json(self.seconds),
            "thorough": {
                "configurations": self.further,
                "seconds": round(self.further_s, 1),
                "gain": round(self.expected, 4),
            },
        }
