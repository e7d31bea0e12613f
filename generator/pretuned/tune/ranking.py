"""What times say: which candidates race, which of them duel, which beat the default, and which a row keeps.

A winner must be faster than the default beyond the noise, so that a row is never slower than the default where it was
measured. What differs between two places, where buffers lie, is the same for all samples taken at one of them. So a
place counts as one observation, however many samples it has.

Besides the winner, a row keeps the fastest configuration of each other set of guards that a call can reach: a
configuration is left out if a faster one admits every call that it admits.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.spec.guards import Guards
from pretuned.spec.space import Configuration

TAIL: Final = 0.025  # of each side of a 95% interval
# Times within 1% of each other tie, and the default has it. Two duels differ by a quarter of a percent: with the line
# here, winners of tunings that draw it differently still tie.
MIN_GAIN: Final = 0.0075
TIE: Final = 0.005  # times that differ by less are equal
HELD: Final = 0.01  # by which another must be faster than the winner so far to take its row
NEAR: Final = 0.02  # by which a candidate may be slower at one place and as fast at others
MAX_LEADERS: Final = 4  # of each set of guards, in a duel
SLACK: Final = 1.06  # times its group's best: a screened candidate that takes longer does not race
BLUR: Final = 1.04  # what screening may see between two candidates that are equally fast
MAX_FINALISTS: Final = 24  # of each set of guards: screening may not tell so many apart
MAX_GROUPS: Final = 4

Samples = dict[Configuration, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedCandidate:
    """A configuration with its time in microseconds, the `share` that is of the default's, and the share's interval.

    `spread_us` are the 10th, 50th and 90th percentile of all its samples.
    """

    configuration: Configuration
    time_us: float
    share: float
    ratio: tuple[float, float]
    spread_us: tuple[float, float, float]


def finalists(
    times_us: Mapping[Configuration, float],
    guards: Mapping[Configuration, Guards],
    default: Configuration,
    incumbents: Sequence[Configuration] = (),
) -> list[Configuration]:
    """Return the configurations that race: the default, the incumbents, then the best of each set of guards.

    `times_us` holds the screened times of all correct candidates, the default's among them. A candidate that seems
    slower than one that is legal wherever it is races too, unless it is so by more than screening may err.
    """
    order = sorted(times_us, key=lambda configuration: (times_us[configuration], configuration))
    hopeful = [c for c in order if times_us[c] < times_us[default] * SLACK]
    groups: dict[Guards, list[Configuration]] = {}
    for configuration in hopeful:
        own = guards[configuration]
        if any(
            times_us[configuration] > BLUR * times_us[group[0]] and other != own and other.covers(own)
            for other, group in groups.items()
        ):
            continue  # a faster one is legal wherever this one is
        group = groups.setdefault(own, []) if own in groups or len(groups) < MAX_GROUPS else []
        if len(group) < MAX_FINALISTS and (not group or times_us[configuration] <= SLACK * times_us[group[0]]):
            group.append(configuration)
    chosen = [default, *(configuration for configuration in incumbents if configuration in times_us)]
    return list(dict.fromkeys([*chosen, *(configuration for group in groups.values() for configuration in group)]))


def leaders(
    samples_us: Mapping[Configuration, Sequence[float]],
    guards: Mapping[Configuration, Guards],
    default: Configuration,
    incumbents: Sequence[Configuration] = (),
) -> list[Configuration]:
    """Return the candidates of the duel with the default, at most `MAX_LEADERS` of each set of guards.

    Those are the incumbents, and what is faster than the default and near everything that is legal wherever it is:
    which of them is the fastest differs from place to place.
    """
    times = {configuration: statistics.median(samples) for configuration, samples in samples_us.items()}
    groups: dict[Guards, list[Configuration]] = {}
    for c in sorted(times, key=lambda c: (c not in incumbents, times[c], c)):
        far = any(times[c] > times[other] * (1 + NEAR) and guards[other].covers(guards[c]) for other in times)
        if c != default and (c in incumbents or (times[c] < times[default] and not far)):
            groups.setdefault(guards[c], []).append(c)
    return [configuration for group in groups.values() for configuration in group[:MAX_LEADERS]]


def rank(
    duel_us: Sequence[Samples],
    guards: Mapping[Configuration, Guards],
    default: Configuration,
    incumbents: Sequence[Configuration] = (),
) -> list[RankedCandidate]:
    """Return the ranked choices from a duel's samples at each of its places, the default last.

    A candidate is left out if it is not faster than the default with 95% confidence, and by `MIN_GAIN` in the median,
    or if no call would reach it behind a faster one. What ties with the fastest of its guards gives way to an
    incumbent, then to the first in order; what ties with the fastest of all, to the first incumbent, which is the
    winner so far, then to the first in order.
    """
    groups: dict[Guards, list[RankedCandidate]] = {}
    for one in faster(duel_us, default):
        groups.setdefault(guards[one.configuration], []).append(one)
    best = sorted((_favourite(group, incumbents) for group in groups.values()), key=_order)
    if best:
        first = _favourite(best, incumbents[:1])
        best.sort(key=lambda one: one is not first)
    kept: list[RankedCandidate] = []
    for one in best:
        if not any(guards[before.configuration].covers(guards[one.configuration]) for before in kept):
            kept.append(one)
    return [*kept, pooled(duel_us, default, default)]


def faster(duel_us: Sequence[Samples], default: Configuration) -> list[RankedCandidate]:
    """Return the candidates that went through the whole duel and are surely faster than the default, by their time."""
    met = [pooled(duel_us, configuration, default) for configuration in duel_us[-1] if configuration != default]
    return sorted((one for one in met if one.ratio[1] < 1 and one.share < 1 - MIN_GAIN), key=_order)


def _order(one: RankedCandidate) -> tuple[float, Configuration]:
    return one.share, one.configuration


def _favourite(group: Sequence[RankedCandidate], incumbents: Sequence[Configuration]) -> RankedCandidate:
    """Return the first of a group that is sorted by time; near ties go to an incumbent, then to the first in order."""
    best = group[0].share
    by_configuration = {one.configuration: one for one in group}
    held = (c for c in incumbents if c in by_configuration and by_configuration[c].share <= best * (1 + HELD))
    first = min(c for c, one in by_configuration.items() if one.share <= best * (1 + TIE))
    return by_configuration[next(held, first)]


def pooled(duel_us: Sequence[Samples], configuration: Configuration, default: Configuration) -> RankedCandidate:
    """Return what a duel says of a candidate: medians over its places, and the interval over them."""
    shares = shares_of(duel_us, configuration, default)
    return RankedCandidate(
        configuration=configuration,
        time_us=statistics.median(statistics.median(samples[configuration]) for samples in duel_us),
        share=statistics.median(shares),
        ratio=(1.0, 1.0) if configuration == default else interval(shares),
        spread_us=percentiles([time_us for samples in duel_us for time_us in samples[configuration]]),
    )


def percentiles(samples_us: Sequence[float]) -> tuple[float, float, float]:
    """Return the 10th, 50th and 90th percentile of at least one sample, interpolated between the two nearest."""
    if len(samples_us) == 1:
        return samples_us[0], samples_us[0], samples_us[0]
    tenths = statistics.quantiles(samples_us, n=10, method="inclusive")
    return tenths[0], tenths[4], tenths[8]


def shares_of(duel_us: Sequence[Samples], configuration: Configuration, default: Configuration) -> list[float]:
    """Return, for each place of a duel, what a candidate takes of the default's time: the median over the rounds."""
    return [
        statistics.median(time / base for time, base in zip(samples[configuration], samples[default], strict=True))
        for samples in duel_us
    ]


def ratio_interval(times_us: Sequence[float], baseline_us: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval (low, high) of the median of times_us[i] / baseline_us[i].

    The samples are paired by round, so that what slows both leaves the ratio alone.
    """
    return interval([time / base for time, base in zip(times_us, baseline_us, strict=True)])


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval (low, high) of the median of what `values` are drawn from.

    The interval is that of the sign test, between two order statistics, and assumes no distribution. Source: Conover,
    Practical Nonparametric Statistics, 3rd edition, section 3.2. Fewer than 6 values cannot reach 95%, and give
    (0, inf).
    """
    ordered, count = sorted(values), len(values)
    below = -1  # the most values that may lie under the interval, and as many over it
    probability = 0.0
    for successes in range(count):
        probability += math.comb(count, successes) / 2**count
        if probability > TAIL:
            break
        below = successes
    return (0.0, math.inf) if below < 0 else (ordered[below], ordered[count - 1 - below])
