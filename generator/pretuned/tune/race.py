"""Races between candidates, what their times say, and which candidates a row keeps.

A winner must be faster than the default beyond the noise, so that a row is never slower than the default where it was
measured. Besides the winner, a row keeps the fastest configuration of each other set of guards that a call can reach: a
configuration is left out if a faster one admits every call that it admits.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.measure.requests import Raced
from pretuned.measure.rounds import Rule
from pretuned.outcome import Failure
from pretuned.spec.space import Configuration, Guards, Problem
from pretuned.tune.events import Noisy
from pretuned.tune.task import TuningTask

RETAKES: Final = 2  # of noisy samples
TAIL: Final = 0.025  # of each side of a 95% interval
MIN_GAIN: Final = 0.01  # a smaller gain is not worth another kernel, and is near what a sample resolves
TIE: Final = 0.005  # times that differ by less are equal
HELD: Final = 0.01  # by which another must be faster than the winner so far to take its row
SLACK: Final = 1.06  # times its group's best: a screened candidate that takes longer does not race
MAX_FINALISTS: Final = 24  # of each set of guards: screening may not tell so many apart
MAX_GROUPS: Final = 4

Samples = dict[Configuration, tuple[float, ...]]
Failures = dict[Configuration, Failure]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedCandidate:
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

    `times_us` holds the screened times of all correct candidates, the default's among them.
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
    """Return the candidates of the duel with the default: the fastest of each set of guards, near ties resolved."""
    times = {configuration: statistics.median(samples) for configuration, samples in samples_us.items()}
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
    """Return the first of a group that is sorted by time; near ties go to an incumbent, then to the default."""
    best = times[group[0]]
    held = (c for c in incumbents if c in group and times[c] <= best * (1 + HELD))
    tied = [configuration for configuration in group if times[configuration] <= best * (1 + TIE)]
    return next(held, default if default in tied else min(tied))


def rank(
    samples_us: Mapping[Configuration, Sequence[float]],
    guards: Mapping[Configuration, Guards],
    default: Configuration,
    incumbents: Sequence[Configuration] = (),
) -> list[RankedCandidate]:
    """Return the ranked choices from a duel's samples (by configuration, one a round), the default last.

    A candidate is left out if it is not faster than the default by `MIN_GAIN` with 95% confidence, or if no call would
    reach it behind a faster one. The first incumbent, which is the winner so far, goes first if it ties with the
    fastest.
    """
    faster = []
    for configuration, samples in samples_us.items():
        interval = ratio_interval(samples, samples_us[default])
        if configuration != default and interval[1] < 1 - MIN_GAIN:
            faster.append(
                RankedCandidate(configuration=configuration, time_us=statistics.median(samples), ratio=interval)
            )
    faster.sort(key=lambda ranked: (ranked.time_us, ranked.configuration))
    if faster:
        limit = faster[0].time_us * (1 + HELD)
        faster.sort(key=lambda ranked: not (ranked.configuration in incumbents[:1] and ranked.time_us <= limit))
    kept: list[RankedCandidate] = []
    for ranked in faster:
        if not any(guards[before.configuration].covers(guards[ranked.configuration]) for before in kept):
            kept.append(ranked)
    return [
        *kept,
        RankedCandidate(configuration=default, time_us=statistics.median(samples_us[default]), ratio=(1.0, 1.0)),
    ]


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


def race(
    task: TuningTask,
    problem: Problem,
    chosen: Sequence[Configuration],
    estimates_us: Sequence[float],
    rounds: int,
    rule: Rule,
    *,
    judge: bool = False,
) -> tuple[Samples, Failures]:
    """Time `chosen` at `problem`, which is prepared, in interleaved rounds; return samples or failures, not both.

    Candidates that failed are dropped from the task. If the race as a whole fails, each candidate runs alone; if none
    fails alone, all race once more. Noisy samples are taken again; if they stay noisy, `task.noise` says why.
    """

    def run(chosen: Sequence[Configuration], estimates_us: Sequence[float]) -> Raced | Failure:
        task.workbench.effort.launched += 1
        entries = [task.entry(configuration) for configuration in chosen]
        return task.workbench.runner.race(entries, rounds, estimates_us=estimates_us, rule=rule, judge=judge)

    raced = _without_noise(task, problem, lambda: run(chosen, estimates_us))
    failures: Failures = {}
    keep = True
    if not isinstance(raced, Raced):
        for configuration, estimate_us in zip(chosen, estimates_us, strict=True) if len(chosen) > 1 else ():
            alone = run([configuration], [estimate_us])
            failure = alone.failures[0] if isinstance(alone, Raced) else alone
            if failure is not None:
                failures[configuration] = failure
        if not failures:
            raced = _without_noise(task, problem, lambda: run(chosen, estimates_us))
    if isinstance(raced, Raced):
        failures |= {c: failure for c, failure in zip(chosen, raced.failures, strict=True) if failure is not None}
    elif not failures:  # it failed twice, but no candidate fails alone: the cache blames none of them
        keep = len(chosen) == 1
        failures = {c: raced for c in chosen if c != task.default or len(chosen) == 1}
    for configuration, failure in failures.items():
        task.drop(configuration, problem, failure, keep=keep)
    if failures or not isinstance(raced, Raced):
        return {}, failures
    return dict(zip(chosen, raced.times_us, strict=True)), {}


def _without_noise(task: TuningTask, problem: Problem, run: Callable[[], Raced | Failure]) -> Raced | Failure:
    workbench = task.workbench
    for attempt in range(1, RETAKES + 2):
        workbench.noise.begin()
        raced = run()
        if not isinstance(raced, Raced):
            return raced
        workbench.effort.device_s += raced.device_s
        reason = workbench.noise.reason(raced.canary_us)
        if reason is None:
            return raced
        if attempt > RETAKES:
            task.noise[problem] = reason
            return raced
        workbench.listen(Noisy(kernel=task.spec.name, problem=problem, reason=reason, attempt=attempt))
    raise AssertionError("the last attempt returns")
