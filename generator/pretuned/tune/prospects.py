"""What a search is expected to gain, and whether more of it is worth its price. Pure.

A gain is counted in natural logarithms of time: 0.01 is 1% faster. Two things are expected of more candidates: chance,
and what the strategy's model promises. The least of n numbers drawn evenly from a span lies 1 / (n + 1) of the span
above its lower end on average (the integral of (1 - x)^n), so k more bring it down by 1 / (n + 1) - 1 / (n + k + 1).

How long ago the last gain was is not asked. On recorded spaces, the searches that had just gained were mostly done, and
those that had not for long were mostly stuck.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

from pretuned.spec.space import Pairs

FIRST: Final = 48  # candidates, which a search tries before it learns: their times say how a space is
SPAN: Final = 20.0  # times the spread: the best are rarer than numbers drawn evenly
KEPT: Final = 0.3  # of a promise, on recorded spaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospects:
    """A search that `tried` so many candidates, by what it has found.

    `spread` is how far the fastest tenth of its first candidates is below their median, in logarithms of time, the mean
    over problems. `promise` is what the strategy expected of its last batch.
    """

    tried: int = 0
    spread: float = 0.0
    promise: float = 0.0

    @classmethod
    def of(cls, times: Collection[Collection[float]], promise: float) -> Self:
        """Return the prospects of a search that found `times` at its problems in this order, inf for failures."""
        spread = statistics.fmean(_spread(list(islice(known, FIRST))) for known in times) if times else 0.0
        return cls(tried=max(map(len, times), default=0), spread=spread, promise=promise)

    def expected(self, more: int) -> float:
        """Return what so many more candidates are expected to gain."""
        if not more:
            return 0.0
        chance = SPAN * self.spread * (1 / (self.tried + 1) - 1 / (self.tried + more + 1))
        return chance + KEPT * self.promise


def _spread(times: Sequence[float]) -> float:
    """Return how far the fastest tenth is below the median, in logarithms, failures left out."""
    logs = sorted(math.log(time) for time in times if math.isfinite(time))
    return statistics.median(logs) - logs[len(logs) // 10] if logs else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Seconds, as far as they are known: of a compile on one of `workers`, and of measuring a candidate.

    Compilers work while candidates are measured, so a batch takes the longer of both.
    """

    compile_s: float
    workers: int
    measure_s: float

    def of(self, candidates: int) -> float:
        """Return the seconds that so many candidates take."""
        return candidates * max(self.compile_s / self.workers, self.measure_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A search that is over: it tried so many `of` the candidates of a kernel and specialisation.

    `gain` is what trying the `further` ones that `thorough` tries is expected to gain, in `seconds`.
    """

    kernel: str
    specialisation: Pairs
    tried: int
    of: int
    further: int = 0
    gain: float = 0.0
    seconds: float = 0.0


def worth_s(usual_s: float, called_s: float, repeats: float, reach: float = 4.0) -> float:
    """Return the seconds of tuning that being faster by a factor e is worth.

    That is `repeats` times the seconds `called_s` that the calls of a usage file took on the device, within a factor
    `reach` of the `usual_s` that stand for any kernel; without a usage file (0), those.
    """
    if not called_s:
        return usual_s
    return min(max(repeats * called_s, usual_s / reach), usual_s * reach)
