"""What a search has cost and gained so far, and whether more of it is worth its price. Pure.

A gain is counted in natural logarithms of time: 0.01 is 1% faster. What another batch is expected to gain follows from
how the best came down so far, whatever the strategy. The longer ago the last time was, the less likely is the next, as
with records among numbers drawn alike: of n + k of them the best is among the last k in k / (n + k) cases. And the next
gain is a part of the mean of those so far: the last one alone may be small where the next is not. A surrogate's own
expected improvement is not asked: on recorded spaces it was below 0.0001 before gains of 7% and 40%, since what it has
not seen a pattern of it does not expect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pretuned.spec.space import Pairs

SHRINKING: Final = 0.1  # of the mean gain, that the next one is
PRIOR: Final = 0.3  # a gain that counts as one more
BLURRED: Final = 0.005  # what screening errs by: less is no gain


@dataclass(slots=True, kw_only=True)
class Prospects:
    """How the best of a search came down: `tried` candidates so far, `gained_at` so many the last time of `gains`."""

    tried: int = 0
    first: float = math.nan  # the logarithm of the best time when it was first known, the mean over problems
    best: float = math.inf  # and now
    gained_at: int = 0
    gains: int = 0

    def note(self, tried: int, best: float) -> None:
        """Take in what is known after `tried` candidates; `best` is the mean logarithm of the best times."""
        self.tried = tried
        if math.isnan(self.first):
            self.first, self.best, self.gained_at = best, best, tried
        elif best < self.best - BLURRED:
            self.best, self.gained_at, self.gains = best, tried, self.gains + 1

    @property
    def gain(self) -> float:
        """The mean gain so far."""
        gained = 0.0 if math.isnan(self.first) else self.first - self.best
        return (PRIOR + gained) / (1 + self.gains)

    def expected(self, more: int) -> float:
        """Return what so many more candidates are expected to gain."""
        if not more:
            return 0.0
        return SHRINKING * self.gain * more / (self.tried - self.gained_at + more)


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
