"""Choosing: from screened candidates to the ranked choices of a row. Pure.

A winner must be faster than the default beyond the noise, so that a row is never slower than the default where it was
measured. Besides the winner a row keeps the fastest configuration of each other set of guards, as far as a call can
reach it: one whose guards admit only calls that a faster one admits as well is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.spec.space import Configuration, Guards
from pretuned.tune.statistics import median, ratio_interval

MIN_GAIN: Final = 0.01  # less than this is not worth another kernel, and is near what a sample resolves
TIE: Final = 0.005  # times this near are one
HELD: Final = 0.01  # who holds a row stays, unless another is faster by so much: not worth another kernel either
SLACK: Final = 1.06  # how far behind its group's best a screened candidate may be and still race
MAX_FINALISTS: Final = 24  # of each set of guards: so many may lie within what a screen resolves
MAX_GROUPS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A configuration with the median of its samples, in microseconds, and their ratio to the default's."""

    configuration: Configuration
    time_us: float
    ratio: tuple[float, float]


def finalists(
    times_us: Mapping[Configuration, float],
    guards: Mapping[Configuration, Guards],
    default: Configuration,
    incumbents: Sequence[Configuration] = (),
) -> list[Configuration]:
    """Return the configurations that race: the default, the incumbents, then the best of each set of guards.

    `times_us` holds the screened times of every right candidate, the default's among them.
    """
    order = sorted(times_us, key=lambda configuration: (times_us[configuration], configuration))
    hopeful = [c for c in order if times_us[c] < times_us[default] * SLACK]
    groups: dict[Guards, list[Configuration]] = {}
    for configuration in hopeful:
        own = guards[configuration]
        if any(other != own and other.covers(own) for other in groups):
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
    """Return who meets the default in the duel: of each set of guards the fastest in the race, near ties resolved."""
    times = {configuration: median(samples) for configuration, samples in samples_us.items()}
    groups: dict[Guards, list[Configuration]] = {}
    for configuration in sorted(times, key=lambda c: (times[c], c)):
        groups.setdefault(guards[configuration], []).append(configuration)
    best = [_favourite(group, times, default, incumbents) for group in groups.values()]
    return [configuration for configuration in best if configuration != default]


def _favourite(
    group: Sequence[Configuration],
    times: Mapping[Configuration, float],
    default: Configuration,
    incumbents: Sequence[Configuration],
) -> Configuration:
    """Of a group sorted by time, the one that near ties go to: an incumbent, then the default, then the first."""
    best = times[group[0]]
    held = (c for c in incumbents if c in group and times[c] <= best * (1 + HELD))
    tied = [configuration for configuration in group if times[configuration] <= best * (1 + TIE)]
    return next(held, default if default in tied else min(tied))


def rank(
    samples_us: Mapping[Configuration, Sequence[float]],
    guards: Mapping[Configuration, Guards],
    default: Configuration,
    incumbents: Sequence[Configuration] = (),
) -> list[Ranked]:
    """Return the ranked choices from a duel's samples (by configuration, one a round), the default last.

    Whoever is not faster than the default by `MIN_GAIN` with 95% confidence is left out, and so is whoever no call
    would reach behind a faster one. The first incumbent, the winner so far, goes first if it ties with the fastest.
    """
    faster = []
    for configuration, samples in samples_us.items():
        interval = ratio_interval(samples, samples_us[default])
        if configuration != default and interval[1] < 1 - MIN_GAIN:
            faster.append(Ranked(configuration=configuration, time_us=median(samples), ratio=interval))
    faster.sort(key=lambda ranked: (ranked.time_us, ranked.configuration))
    if faster:
        limit = faster[0].time_us * (1 + HELD)
        faster.sort(key=lambda ranked: not (ranked.configuration in incumbents[:1] and ranked.time_us <= limit))
    kept: list[Ranked] = []
    for ranked in faster:
        if not any(guards[before.configuration].covers(guards[ranked.configuration]) for before in kept):
            kept.append(ranked)
    return [*kept, Ranked(configuration=default, time_us=median(samples_us[default]), ratio=(1.0, 1.0))]
