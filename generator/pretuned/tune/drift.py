"""How a row that was measured again compares with what the lock says of it. Pure; `pretuned.tune.remeasure` measures.

A row has *moved* if the new interval does not overlap with the row's, or if a time differs by more than two tunings of
one machine do. A winner is *slower* if it takes longer than its default beyond the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pretuned.record.rows import Row

NOISE: Final = 0.03  # twice what winners of five tunings of one H100 lie apart (repeat_h100.txt)
SLOWER: Final = 0.01  # by which a slower winner exceeds its default: less is a tie


class Verdict(StrEnum):
    """What became of a row."""

    HOLDS = "holds"
    MOVED = "moved"
    SLOWER = "slower"
    FAILS = "fails"
    UNMEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A row measured again: times in microseconds, the 95% interval of the winner's over the default's, and a verdict.

    `reason` says what moved, in words. `recompiled`: the binary that ran is not the row's. `noise`: why the times are
    noisy, or empty.
    """

    row: Row
    verdict: Verdict
    reason: str = ""
    winner_us: float = 0.0
    default_us: float = 0.0
    ratio: tuple[float, float] = (1.0, 1.0)
    recompiled: bool = False
    noise: str = ""


def judge(row: Row, winner_us: float, default_us: float, ratio: tuple[float, float]) -> tuple[Verdict, str]:
    """Return the verdict, and the reason in words, from new times of a row's winner and default, and their ratio."""
    low, high = ratio
    was_low, was_high = row.winner.ratio
    if low > 1 + SLOWER:
        return Verdict.SLOWER, f"the winner takes {low:.3f} to {high:.3f} of its default's time"
    apart = max(low - was_high, was_low - high)
    far = abs((low + high) / 2 - (was_low + was_high) / 2) > NOISE
    if apart > 0 and far:
        return Verdict.MOVED, f"{low:.3f} to {high:.3f} of the default's time, not {was_low:.3f} to {was_high:.3f}"
    for name, now_us, was_us in (
        ("the default", default_us, row.default.time_us),
        ("the winner", winner_us, row.winner.time_us),
    ):
        if abs(now_us - was_us) > NOISE * was_us:
            return Verdict.MOVED, f"{name} takes {now_us:.4g} us, not {was_us:.4g} us"
    return Verdict.HOLDS, ""
