"""Devices beside each other: what each found at the same problem, and whether the winners agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pretuned.report.figures.rows import RowFigure
from pretuned.spec.space import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """The rows of one problem on two devices or more, by the devices' names."""

    kernel: str
    specialisation: str
    dims: Pairs
    rows: tuple[RowFigure, ...]

    @property
    def agree(self) -> bool:
        """Whether the same configuration is the fastest on all of them."""
        return len({row.line.configuration for row in self.rows}) == 1

    def to_json(self) -> dict[str, Any]:
        """Return plain data; winners with their lines in the lock."""
        return {
            "kernel": self.kernel,
            "specialisation": self.specialisation,
            "problem": dict(self.dims),
            "agree": self.agree,
            "winners": {
                row.line.device: {
                    "configuration": row.line.configuration,
                    "winner us": row.line.winner_us,
                    "speedup": round(row.line.speedup, 4),
                    "lock line": row.at,
                }
                for row in self.rows
            },
        }


def side_by_side(rows: Sequence[RowFigure]) -> Iterator[SideBySide]:
    """Yield the problems that several devices have rows of, in the order of the rows."""
    groups: dict[tuple[str, str, Pairs], list[RowFigure]] = {}
    for row in rows:
        groups.setdefault((row.line.kernel, row.line.specialisation, row.dims), []).append(row)
    for (kernel, specialisation, dims), found in groups.items():
        if len(found) > 1:
            yield SideBySide(kernel=kernel, specialisation=specialisation, dims=dims, rows=tuple(found))
