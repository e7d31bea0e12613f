"""Rows as a report shows them: winner beside default, where the row stands in the lock, and what it must move."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pretuned.measure.launch import arrays
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.record.rows import Row
from pretuned.report.lines import Line, of_rows
from pretuned.spec.expressions import ExpressionError
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Pairs, Problem

MOST: Final = 1 << 62  # bytes, or a product of dims; beyond it a lock was not written by pretuned
States = Mapping[lockfile.Key, tuple[str, str]]  # of what is not fresh: the state in a word, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTime:
    """A choice of a row: its configuration, microseconds a call, and its 95% interval of time over the default's.

    `spread_us` are the 10th, 50th and 90th percentile of its samples, None where the row did not keep them.
    """

    configuration: str
    time_us: float
    ratio: tuple[float, float]
    library: str
    spread_us: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFigure:
    """A row of the lock. `at` is its line in the file, 0 where the file is not as pretuned writes it.

    `state` and `reason` say how it stands to its spec, empty where no spec is known. `moved_bytes` are what a call must
    read and write at least: each input and output once; None where no spec says it. `ceiling_gbps` is the device's
    nominal bandwidth of memory in GB/s, 0 where it has none.
    """

    line: Line
    dims: Pairs
    choices: tuple[RankedTime, ...]
    at: int
    state: str
    reason: str
    moved_bytes: int | None
    ceiling_gbps: int

    @property
    def work(self) -> float:
        """What orders the row by size: the bytes that it moves, or else the product of its dims."""
        if self.moved_bytes is not None:
            return float(max(1, self.moved_bytes))
        return product_of(self.dims)

    def share(self, time_us: float) -> float | None:
        """Return which share of the nominal bandwidth moving its bytes in `time_us` takes; None where unknown."""
        if self.moved_bytes is None or not self.ceiling_gbps:
            return None
        return self.moved_bytes / (time_us * 1e3) / self.ceiling_gbps

    def to_json(self) -> dict[str, Any]:
        """Return plain data, by the names of the lock where it has them."""
        return {
            "lock line": self.at,
            "kernel": self.line.kernel,
            "device": self.line.device,
            "specialisation": self.line.specialisation,
            "problem": dict(self.dims),
            "state": self.state,
            "reason": self.reason,
            "winner us": self.line.winner_us,
            "default us": self.line.default_us,
            "speedup": round(self.line.speedup, 4),
            "moved bytes": self.moved_bytes,
            "share of nominal bandwidth": rounded(self.share(self.line.winner_us)),
            "noisy": self.line.note == "noisy",
            "effort": self.line.effort or "default",
            "choices": [
                {"configuration": one.configuration, "time_us": one.time_us, "ratio": list(one.ratio)}
                | ({"spread_us": list(one.spread_us)} if one.spread_us is not None else {})
                | ({"library": one.library} if one.library else {})
                for one in self.choices
            ],
        }


def product_of(dims: Pairs) -> float:
    """Return the product of dims, those of 0 left out; what is beyond all that is computed with is cut off."""
    return float(min(MOST, math.prod(max(1, size) for _, size in dims if isinstance(size, int))))


def rounded(share: float | None) -> float | None:
    """Return a share to a hundredth of a per cent."""
    return None if share is None else round(share, 4)


def geomean(values: Iterable[float]) -> float | None:
    """Return the geometric mean of positive numbers, None of none."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def row_figures(lock: Lock, text: str, specs: Mapping[str, KernelSpec], states: States) -> Iterator[RowFigure]:
    """Yield the rows of a lock in its order; `text` is that of its file."""
    numbers = line_numbers(text)
    for row, line in zip(lock.rows, of_rows(lock.rows), strict=True):
        spec, device = specs.get(row.kernel), lock.devices[row.device]
        state, reason = states.get(lockfile.row_key(row), ("fresh", "")) if spec is not None else ("", "")
        yield RowFigure(
            line=line,
            dims=row.problem.dims,
            choices=_ranked(row),
            at=numbers.get(lockfile.row_line(row), 0),
            state=state,
            reason=reason,
            moved_bytes=moved_bytes(spec, row.problem) if spec is not None else None,
            ceiling_gbps=device.memory_gbps if device.is_gpu and 0 < device.memory_gbps < MOST else 0,
        )


def _ranked(row: Row) -> tuple[RankedTime, ...]:
    return tuple(
        RankedTime(
            configuration=str(one.configuration),
            time_us=one.time_us,
            ratio=one.ratio,
            library=one.library,
            spread_us=one.spread_us,
        )
        for one in row.choices
    )


def line_numbers(text: str) -> dict[str, int]:
    """Return at which line of a file each of its lines stands, without the comma at its end; lines count from 1."""
    return {line.removesuffix(","): number for number, line in enumerate(text.splitlines(), 1)}


def moved_bytes(spec: KernelSpec, problem: Problem) -> int | None:
    """Return the bytes that a call at `problem` must move: its inputs and outputs once, what is both twice.

    None where the shapes have no value there, as after an edit of the spec.
    """
    try:
        found = arrays(spec, problem)
    except (ExpressionError, KeyError, ValueError):
        return None
    moved = sum(one.nbytes * (2 if one.role == "inout" else 1) for one in found)
    return moved if moved < MOST else None
