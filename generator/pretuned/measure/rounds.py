"""Which entries go on in an interleaved race, and when it is decided: rules that see the samples of each round. Pure.

A *round* takes one sample of each entry that still runs. Samples pair by round, so that what slows all alike drops out
of their ratios. A rule sees the samples so far and returns the entries of the next round; none ends the race. It
decides only where every one of at least `LEAST` rounds agrees: if two kernels were equally fast, five rounds would all
fall on one side in one case of 32, eleven in one of 2,048.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.outcome import Timed

LEAST: Final = 5  # rounds before an entry is cut

RaceTimes = Sequence[Sequence[float]]  # microseconds a call, by entry and round


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAll:
    """Every entry runs all rounds."""

    def going(self, samples: RaceTimes) -> list[int]:
        """Return all entries."""
        return list(range(len(samples)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """An entry is cut if it was slower than the leader by more than `slack` (0.005 is half a percent) in every round.

    The race is over when the leader is left alone.
    """

    slack: float

    def going(self, samples: RaceTimes) -> list[int]:
        """Return the entries that are not clearly slower than the leader."""
        rounds = max(map(len, samples))
        running = [index for index, times in enumerate(samples) if len(times) == rounds]
        if rounds < LEAST:
            return running
        leader = min(running, key=lambda index: (statistics.median(samples[index]), index))
        kept = [
            index
            for index in running
            if any(time <= base * (1 + self.slack) for time, base in zip(samples[index], samples[leader], strict=True))
        ]
        return kept if len(kept) > 1 else []


Rule = RunAll | Cut


def summary(samples: list[float]) -> Timed:
    """Return the median of samples and their relative median absolute deviation."""
    median = statistics.median(samples)
    deviation = statistics.median(abs(sample - median) for sample in samples)
    return Timed(time_us=median, spread=deviation / median if median else 0.0, samples=len(samples))
