"""What was found when rows were measured again, in words and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pretuned.errors import counted
from pretuned.report.text import columns
from pretuned.tune.drift import Drift, Verdict

HEAD = ("kernel", "problem", "default us", "now", "winner us", "now", "ratio", "now", "")
RIGHT = frozenset({2, 3, 4, 5})


def drift_lines(found: Sequence[Drift]) -> Iterator[str]:
    """Yield a table of what does not hold, one line of reason beneath each row, and the counts."""
    listed = [drift for drift in found if drift.verdict is not Verdict.HOLDS]
    head, *lines = columns([HEAD, *map(_cells, listed)], RIGHT)
    if listed:
        yield head
    for drift, line in zip(listed, lines, strict=True):
        yield line
        yield f"  {drift.reason}" + (f" ({drift.noise})" if drift.noise else "")
    counts = Counter(drift.verdict for drift in found)
    yield f"{counted(len(found), 'row')} measured again: " + ", ".join(
        f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]
    )
    if any(drift.recompiled for drift in found):
        yield "note: the compiler here makes other binaries than those that were measured; these were timed"


def _cells(drift: Drift) -> tuple[str, ...]:
    row = drift.row
    measured = drift.winner_us > 0
    low, high = drift.ratio
    return (
        row.kernel,
        str(row.problem),
        f"{row.default.time_us:.2f}",
        f"{drift.default_us:.2f}" if measured else "-",
        f"{row.winner.time_us:.2f}",
        f"{drift.winner_us:.2f}" if measured else "-",
        "{:.3f}-{:.3f}".format(*row.winner.ratio),
        f"{low:.3f}-{high:.3f}" if measured else "-",
        str(drift.verdict),
    )


def drift_json(drift: Drift) -> dict[str, Any]:
    """Return a row measured again as plain data; times in microseconds."""
    row = drift.row
    return {
        "kernel": row.kernel,
        "device": row.device,
        "specialisation": dict(row.problem.specialisation),
        "problem": dict(row.problem.dims),
        "configuration": str(row.winner.configuration),
        "verdict": str(drift.verdict),
        "reason": drift.reason,
        "default_us": [row.default.time_us, drift.default_us],
        "winner_us": [row.winner.time_us, drift.winner_us],
        "ratio": [list(row.winner.ratio), list(drift.ratio)],
        "recompiled": drift.recompiled,
        "disturbed": drift.noise,
    }
