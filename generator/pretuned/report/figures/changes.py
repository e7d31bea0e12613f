"""What differs between two locks, and so a lock's history: by rows' keys, choices and times, whichever wrote the files.

Locks of the past may be of an older format. So they are read here as plain JSON, leniently: what does not say kernel,
device, problem and times is left out. Nothing of it is ever baked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pretuned.report.figures.rows import geomean

MOST_COMMITS: Final = 20  # that a history tells; each is a whole file to read

PastKey = tuple[str, str, str, str]  # kernel, device, specialisation, problem
LockDocument = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRow:
    """A row of a lock, of now or of the past: its winner and its default, with microseconds a call."""

    configuration: str
    winner_us: float
    default_us: float

    @property
    def speedup(self) -> float:
        """How many times faster than the default the winner is."""
        return self.default_us / self.winner_us


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRow:
    """A row that both locks have, with another winner or another time."""

    key: PastKey
    before: PastRow
    after: PastRow

    @property
    def other_winner(self) -> bool:
        """Whether another configuration is the fastest now."""
        return self.before.configuration != self.after.configuration

    @property
    def factor(self) -> float:
        """The winner's time by that of before: less than 1 where it is faster now."""
        return self.after.winner_us / self.before.winner_us


@dataclass(frozen=True, slots=True, kw_only=True)
class LockChange:
    """What became of the rows between two locks. `factor` is the geometric mean of the winners' times by before's.

    It is taken over all rows that both have, None where there are none.
    """

    rows: int
    added: tuple[PastKey, ...]
    removed: tuple[PastKey, ...]
    changed: tuple[ChangedRow, ...]
    factor: float | None
    speedup: float | None

    @property
    def nothing(self) -> bool:
        """Whether no row differs."""
        return not (self.added or self.removed or self.changed)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "rows": self.rows,
            "added": len(self.added),
            "removed": len(self.removed),
            "changed": len(self.changed),
            "other winners": sum(one.other_winner for one in self.changed),
            "winners' time by before's": None if self.factor is None else round(self.factor, 4),
            "speedup over defaults": None if self.speedup is None else round(self.speedup, 4),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LockVersion:
    """A commit of a lock: its hash, its day (ISO 8601), the first line of its message, and the file as JSON."""

    commit: str
    date: str
    subject: str
    document: LockDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """A commit of a lock, and what it changed against the commit before."""

    commit: str
    date: str
    subject: str
    change: LockChange

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"commit": self.commit, "date": self.date, "subject": self.subject, **self.change.to_json()}


def history_of(versions: Sequence[LockVersion]) -> Iterator[HistoryEntry]:
    """Yield the newest commits, which come newest first; the first of all is compared with nothing."""
    rows = [past_rows(version.document) for version in versions[: MOST_COMMITS + 1]]
    for place, version in enumerate(versions[:MOST_COMMITS]):
        before = rows[place + 1] if place + 1 < len(rows) else {}
        yield HistoryEntry(
            commit=version.commit,
            date=version.date,
            subject=version.subject,
            change=changed(before, rows[place]),
        )


def changed(before: Mapping[PastKey, PastRow], after: Mapping[PastKey, PastRow]) -> LockChange:
    """Return what became of the rows of one lock in another."""
    both = [ChangedRow(key=key, before=before[key], after=row) for key, row in after.items() if key in before]
    return LockChange(
        rows=len(after),
        added=tuple(key for key in after if key not in before),
        removed=tuple(key for key in before if key not in after),
        changed=tuple(one for one in both if one.before != one.after),
        factor=geomean(one.factor for one in both),
        speedup=geomean(row.speedup for row in after.values()),
    )


def past_rows(document: LockDocument) -> dict[PastKey, PastRow]:
    """Return the rows of a lock's JSON by their keys; what cannot be read as one is left out."""
    listed = document.get("rows")
    return dict(_readable(listed)) if isinstance(listed, list) else {}


def _readable(listed: Iterable[Any]) -> Iterator[tuple[PastKey, PastRow]]:
    for row in listed:
        try:
            key = str(row["kernel"]), str(row["device"]), _text(row["specialisation"]), _text(row["problem"])
            winner, default = row["choices"][0], row["choices"][-1]
            found = PastRow(
                configuration=f"{winner.get('implementation', '')}: {_text(winner['configuration'])}",
                winner_us=float(winner["time_us"]),
                default_us=float(default["time_us"]),
            )
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
            continue
        if 0 < found.winner_us < float("inf") and 0 < found.default_us < float("inf"):
            yield key, found


def _text(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in sorted(values.items())
    )
