"""How many launches tell what a kernel takes: decided from the times so far, on any device. Pure.

*Screening*: a candidate gets one warming launch, which counts for nothing, and two timed ones. If it is clearly slower
than the best, it gets no more. A sample that was too short for what an event resolves is taken again with more
launches, from the time that was just measured warm, until it is long enough: nothing is ever estimated from a cold
launch and then trusted, which is how other tuners stop short with fast kernels.

A launch that is *long* tells by itself: what a first one takes more is a share of a percent of it. Where the best is
long, so is what can compete with it. Such a candidate gets one launch, and another where it seems to be the new best.

*Races* take samples of as many launches for all, since each sample shares what it costs to start. Long launches share
nothing: a sample has one, and none is taken to warm up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from pretuned.measure.requests import PROBE_LAUNCHES

SAMPLE_US: Final = 200.0  # of device time a sample: long against the 0.5 us that an event resolves
SLOWEST: Final = 10.0  # times that, for a sample of the slowest in a race
SCREEN_SAMPLE_US: Final = 60.0
MAX_LAUNCHES: Final = 50
LOSING: Final = 1.5  # times the best, after a warming launch and two more: worth no more launches
NEAR: Final = 1.1  # times the best: worth more samples
SAMPLES: Final = 3
LONG_US: Final = 2000.0  # a launch of which a first one's 10 us more are half a percent
FAR: Final = 1.25  # times the best, in the launch that is verified: worth no launch to time it
BUSY_US: Final = 10_000.0  # by which a host whose compilers are at work may see the end of that launch late

LaunchGroups = Callable[[Sequence[int]], Sequence[float]]  # from launches by group to each group's microseconds


def sets_wanted(set_bytes: int, l2_bytes: int) -> int:
    """Return how many sets keep a launch from meeting its own data: 3 times L2 in all, 2 at least, 50 at most."""
    return max(2, min(MAX_LAUNCHES, math.ceil(3 * l2_bytes / max(1, set_bytes))))


def launches_for(time_us: float, sample_us: float, most: int) -> int:
    """Return how many launches of `time_us` make a sample of `sample_us`, at most `most`."""
    return max(min(most, PROBE_LAUNCHES), min(most, math.ceil(sample_us / max(time_us, 0.1))))


def least_launches(time_us: float) -> int:
    """Return the fewest launches in a sample of what takes about `time_us`."""
    return 1 if time_us >= LONG_US else PROBE_LAUNCHES


def is_told(time_us: float, best_us: float) -> bool:
    """Whether a single launch of `time_us`, which was the first, tells that a candidate is far from the best."""
    return time_us > FAR * best_us + BUSY_US and best_us >= LONG_US


def screened(held: LaunchGroups, most: int, best_us: float) -> tuple[list[float], float]:
    """Return samples of a kernel in microseconds a call, and the microseconds that all its launches took.

    `held` launches groups back to back. `most` is how many launches there may be in one of them, `best_us` the best
    time so far.
    """
    if LONG_US <= best_us < math.inf:
        (first_us,) = held((1,))
        if first_us >= LONG_US:
            return _long(held, first_us, best_us)
    if most > PROBE_LAUNCHES:
        warming_us, elapsed_us = held((1, PROBE_LAUNCHES))
        launches = PROBE_LAUNCHES
    else:  # so many sets are given their values back each time
        (warming_us,) = held((1,))
        (elapsed_us,) = held((most,))
        launches = most
    spent_us, samples = warming_us + elapsed_us, list[float]()
    while True:
        time_us = elapsed_us / launches
        short = elapsed_us < SCREEN_SAMPLE_US / 2 and launches < most
        if short and time_us <= LOSING * best_us:  # also where it was long enough before: launches were cold then
            launches = max(launches + 1, launches_for(time_us, SCREEN_SAMPLE_US, most))
            samples.clear()
        else:
            samples.append(time_us)
            if len(samples) == SAMPLES or time_us > NEAR * best_us:
                return samples, spent_us
        (elapsed_us,) = held((launches,))
        spent_us += elapsed_us


def _long(held: LaunchGroups, first_us: float, best_us: float) -> tuple[list[float], float]:
    """Return what `screened` does, of single launches."""
    samples = [first_us]
    if first_us < best_us:  # a lucky launch would keep what is as fast out of the race
        samples += held((1,))
    return samples, sum(samples)


def raced(sample_us: Callable[[int], float], fastest_us: float, slowest_us: float, most: int) -> int:
    """Return the launches in each sample of a race.

    `sample_us(launches)` takes a sample of so many of each kernel, and returns the least. The fastest takes about
    SAMPLE_US of device time, whatever the estimate was, unless the slowest would take ten times that. A kernel with
    fewer launches in a sample would carry more of what a graph costs to start, by a percent or two of a short kernel's
    time. Of long ones nothing is sampled here.
    """
    if fastest_us >= LONG_US:
        return 1
    most = min(most, launches_for(slowest_us, SLOWEST * SAMPLE_US, MAX_LAUNCHES))
    launches = launches_for(fastest_us, SAMPLE_US, most)
    while True:
        elapsed_us = sample_us(launches)
        wanted = launches_for(elapsed_us / launches, SAMPLE_US, most)
        if elapsed_us >= SAMPLE_US / 2 or wanted <= launches:
            return launches
        launches = wanted
