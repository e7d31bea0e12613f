"""The whole in a few figures for each device: rows, what they gain, what is certified, and what is not fresh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.record.rows import TunedDevice
from pretuned.report.figures.losses import LossFigure
from pretuned.report.figures.rows import RowFigure, geomean, line_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSummary:
    """A device in short. `speedup` is the geometric mean over its rows of how much faster than the default they are.

    `faster` counts rows whose winner is not the default, `states` rows and selections by their state, fresh ones and
    those without a spec left out; `missing` counts problems of the specs that have no row, of kernels that have some
    (`missing_kernels` have none at all).
    """

    device: TunedDevice
    at: int
    rows: int
    faster: int
    noisy: int
    speedup: float | None
    best: RowFigure | None
    selections: int
    certified: int
    worst: LossFigure | None
    states: Mapping[str, int]
    missing: int
    missing_kernels: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data; the worst certificate is that with the largest mean inside the sizes."""
        return {
            **asdict(self.device),
            "lock line": self.at,
            "rows": self.rows,
            "faster than the default": self.faster,
            "noisy": self.noisy,
            "speedup": None if self.speedup is None else round(self.speedup, 4),
            "selections": self.selections,
            "certified": self.certified,
            "worst certificate": None if self.worst is None else self.worst.to_json(),
            "not fresh": dict(self.states),
            "missing": self.missing,
            "kernels without rows": list(self.missing_kernels),
        }


def device_summaries(
    lock: Lock,
    text: str,
    rows: Sequence[RowFigure],
    losses: Sequence[LossFigure],
    missing: Mapping[tuple[str, str], int],
) -> Iterator[DeviceSummary]:
    """Yield a summary for each device of the lock; `missing` counts problems without a row by kernel and device."""
    numbers = line_numbers(text)
    for name, device in lock.devices.items():
        own = [row for row in rows if row.line.device == name]
        rules = [rule for rule in losses if rule.device == name]
        kernels = {row.line.kernel for row in own}
        certified = [rule for rule in rules if rule.inside is not None]
        words = [*(row.state for row in own), *(rule.state for rule in rules)]
        states = Counter(word for word in words if word not in {"", "fresh"})
        yield DeviceSummary(
            device=device,
            at=numbers.get(lockfile.device_line(device), 0),
            rows=len(own),
            faster=sum(not row.line.is_default for row in own),
            noisy=sum(row.line.note == "noisy" for row in own),
            speedup=geomean(row.line.speedup for row in own),
            best=max(own, key=lambda row: row.line.speedup, default=None),
            selections=len(rules),
            certified=len(certified),
            worst=max(certified, key=lambda rule: rule.inside.mean if rule.inside else 0.0, default=None),
            states=dict(sorted(states.items())),
            missing=sum(count for (kernel, on), count in missing.items() if on == name and kernel in kernels),
            missing_kernels=tuple(sorted(kernel for kernel, on in missing if on == name and kernel not in kernels)),
        )
