"""The statistics of a decision: the ratio of two kernels' times, and the interval that it lies in."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

TAIL: Final = 0.025  # of each side of a 95% interval


def ratio_interval(times_us: Sequence[float], baseline_us: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval (low, high) of the median of times_us[i] / baseline_us[i].

    The samples are paired by round, so that what slows both leaves the ratio alone. The interval is that of the sign
    test, between two order statistics, and assumes no distribution. Source: Conover, Practical Nonparametric
    Statistics, 3rd edition, section 3.2. Fewer than 6 rounds cannot reach 95%, and give (0, inf).
    """
    ratios = sorted(time / base for time, base in zip(times_us, baseline_us, strict=True))
    count = len(ratios)
    below = -1  # the most samples that may lie under the interval, and as many over it
    probability = 0.0
    for successes in range(count):
        probability += math.comb(count, successes) / 2**count
        if probability > TAIL:
            break
        below = successes
    return (0.0, math.inf) if below < 0 else (ratios[below], ratios[count - 1 - below])


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)
