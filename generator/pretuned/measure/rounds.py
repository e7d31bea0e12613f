"""Who goes on in an interleaved race, and when it is decided: rules that look at the samples after every round. Pure.

A *round* takes one sample of everyone who still runs, so that samples pair by round and what slows all alike drops out
of their ratios. A rule sees the samples so far and answers who runs in the next round; nobody, and the race is over. It
decides only where every one of at least `LEAST` rounds agrees: if two kernels were equally fast, five rounds would all
fall on one side in one case of 32, eleven in one of 2,048.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LEAST: Final = 5  # rounds before anybody is cut
SETTLED: Final = 11  # rounds before a duel may end early

RaceTimes = Sequence[Sequence[float]]  # microseconds a call, by entry and round


@dataclass(frozen=True, slots=True, kw_only=True)
class Everyone:
    """Everyone runs all rounds."""

    def going(self, samples: RaceTimes) -> list[int]:
        """Return everyone."""
        return list(range(len(samples)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Who was slower than the leader by more than `slack` (0.005 is half a percent) in every round is cut.

    The race is over when nobody but the leader is left.
    """

    slack: float

    def going(self, samples: RaceTimes) -> list[int]:
        """Return who is not clearly slower than the leader."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A duel with the first entry: over once every round says of everyone else whether it is faster by `gain` or not.

    `gain` 0.01 asks for one percent.
    """

    gain: float

    def going(self, samples: RaceTimes) -> list[int]:
        """Return everyone until all is clear."""
        base = samples[0]
        if len(base) < SETTLED:
            return list(range(len(samples)))
        clear = all(self._clear(times, base) for times in samples[1:])
        return [] if clear else list(range(len(samples)))

    def _clear(self, times: Sequence[float], base: Sequence[float]) -> bool:
        faster = [time < other * (1 - self.gain) for time, other in zip(times, base, strict=True)]
        return all(faster) or not any(faster)


Rule = Everyone | Cut | Against
