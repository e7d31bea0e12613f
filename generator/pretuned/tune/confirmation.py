"""Rows that are measured again on a second GPU of their kind: one in ten, drawn by the row's own key.

Two GPUs of one kind differ by what their chips allow, and so do their clocks. A row that was chosen on one is shipped
for all. How far its times and its ratio lie apart on another GPU is the *spread*: the summary has it, and the user
cache keeps it; the lock does not, since it says nothing of what ships.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pretuned.record.rows import Row
from pretuned.render import digest
from pretuned.tune.drift import Drift, Verdict

ONE_IN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedRow:
    """A row of one GPU beside what a second one of its kind measured: `drift` has that."""

    drift: Drift
    first: str
    second: str

    @property
    def row(self) -> Row:
        """The row."""
        return self.drift.row

    @property
    def spread(self) -> float | None:
        """The larger difference of winner and default, as a share of the first time; None if it was not measured."""
        if self.drift.verdict in {Verdict.FAILS, Verdict.UNMEASURED}:
            return None
        pairs = (
            (self.drift.winner_us, self.row.winner.time_us),
            (self.drift.default_us, self.row.default.time_us),
        )
        return max(abs(again_us / first_us - 1) for again_us, first_us in pairs)

    @property
    def key(self) -> str:
        """The key that the user cache has it under."""
        row = self.row
        return digest(["confirmation", row.kernel, row.device, *map(list, (row.problem.dims, row.specialisation))])

    def to_json(self) -> dict[str, Any]:
        """Return plain data: times in microseconds, the first GPU's first."""
        return {
            "kernel": self.row.kernel,
            "device": self.row.device,
            "problem": str(self.row.problem),
            "gpus": [self.first, self.second],
            "winner us": [self.row.winner.time_us, self.drift.winner_us],
            "default us": [self.row.default.time_us, self.drift.default_us],
            "ratio": [list(self.row.winner.ratio), list(self.drift.ratio)],
            "spread": None if self.spread is None else round(self.spread, 4),
            "verdict": str(self.drift.verdict),
            "reason": self.drift.reason,
        }


def drawn(row: Row) -> bool:
    """Return whether a row is one of those that are measured again: the same ones each time."""
    key = f"{row.kernel} {row.device} {row.problem}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) % ONE_IN == 0


def in_words(confirmed: Iterable[ConfirmedRow]) -> str:
    """Return a line about what a second GPU has found, or nothing where none was asked."""
    listed = list(confirmed)
    if not listed:
        return ""
    spreads = [one.spread for one in listed if one.spread is not None]
    odd = [one for one in listed if one.drift.verdict is not Verdict.HOLDS]
    apart = (
        f"times {statistics.median(spreads):.1%} apart (median), {max(spreads):.1%} at most" if spreads else "no times"
    )
    worst = f"; first: {odd[0].row.kernel} at {odd[0].row.problem}: {odd[0].drift.reason}" if odd else ""
    count = f"{len(listed)} row{'s' * (len(listed) != 1)}"
    return f"{count} measured again on a second GPU: {apart}, {len(odd)} not confirmed{worst}"
