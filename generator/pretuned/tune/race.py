"""Races between candidates, what their times say, and which candidates a row keeps.

A winner must be faster than the default beyond the noise, so that a row is never slower than the default where it was
measured. What differs between two places, where buffers lie, is the same for all samples taken at one of them. So a
place counts as one observation, however many samples it has.

Besides the winner, a row keeps the fastest configuration of each other set of guards that a call can reach: a
configuration is left out if a faster one admits every call that it admits.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pretuned.measure.requests import Raced
from pretuned.measure.rounds import Rule
from pretuned.measure.sampling import least_launches
from pretuned.outcome import Failure
from pretuned.spec.guards import Guards
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.events import Noisy, Racing
from pretuned.tune.task import TuningTask

LEAST_ROUNDS: Final = 7  # of slow kernels: one more than an interval of 95% needs
ROUNDS_US: Final = 2e6  # that all rounds of a race may take together, beyond the fewest
RETAKES: Final = 2  # of noisy samples
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
Failures = dict[Configuration, Failure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How a race is held: with `judge` results are judged, `place` says where the buffers lie (see `RaceRequest`).

    Noisy samples are taken again, `retakes` times at most.
    """

    judge: bool = False
    place: int = 0
    retakes: int = RETAKES


USUAL: Final = Conduct()


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


def affordable(rounds: int, estimates_us: Collection[float]) -> int:
    """Return how many of `rounds` candidates that take `estimates_us` per call may race for.

    One that is alone has no interval, so that a single round will do. No launch takes less than a microsecond, whatever
    a prediction says.
    """
    least = LEAST_ROUNDS if len(estimates_us) > 1 else 1
    launched_us = sum(max(1.0, estimate_us) for estimate_us in estimates_us)
    return max(min(rounds, least), min(rounds, int(ROUNDS_US / (least_launches(min(estimates_us)) * launched_us))))


def race(
    task: TuningTask,
    problem: Problem,
    estimates_us: Mapping[Configuration, float],
    rounds: int,
    rule: Rule,
    conduct: Conduct = USUAL,
) -> tuple[Samples, Failures]:
    """Time candidates at `problem`, which is prepared, in interleaved rounds; return samples or failures, not both.

    `estimates_us` is what a call of each is expected to take.
    Candidates that failed are dropped from the task. If the race as a whole fails, each candidate runs alone; if none
    fails alone, all race once more. Noisy samples are taken again, so many times; if they stay noisy, `task.noise` says
    why.
    """
    runner, chosen, default = task.workbench.runner, list(estimates_us), task.default_at(problem)
    racing = Racing(
        kernel=task.spec.name,
        problem=problem,
        contenders=tuple(estimates_us.items()),
        default=default,
        place=conduct.place,
    )
    task.workbench.listen(racing)

    def run(chosen: Sequence[Configuration]) -> Raced | Failure:
        task.workbench.spending.launched += 1
        entries = [task.sources.entry(configuration) for configuration in chosen]
        expected_us = [estimates_us[configuration] for configuration in chosen]
        return runner.race(
            entries, rounds, estimates_us=expected_us, rule=rule, judge=conduct.judge, place=conduct.place
        )

    raced = _without_noise(task, problem, lambda: run(chosen), conduct.retakes)
    failures: Failures = {}
    keep = True
    if not isinstance(raced, Raced):
        failures = _alone(run, chosen) if len(chosen) > 1 else {}
        if not failures:
            raced = _without_noise(task, problem, lambda: run(chosen), conduct.retakes)
    if isinstance(raced, Raced):
        failures |= {c: failure for c, failure in zip(chosen, raced.failures, strict=True) if failure is not None}
    elif not failures:  # it failed twice, but no candidate fails alone: the cache blames none of them
        keep = len(chosen) == 1
        failures = {c: raced for c in chosen if c != default or len(chosen) == 1}
    if default in failures and task.cleared(default):  # of the failures of others nothing is sure either
        dropped = {c: failures.get(c, failures[default]) for c in chosen if c in task.failed}
        again = partial(race, task, problem, estimates_us, rounds, rule, conduct)
        return ({}, dropped) if dropped else again()
    for configuration, failure in failures.items():
        task.drop(configuration, problem, failure, keep=keep)
    if failures or not isinstance(raced, Raced):
        return {}, failures
    return dict(zip(chosen, raced.times_us, strict=True)), {}


def _alone(run: Callable[[Sequence[Configuration]], Raced | Failure], chosen: Sequence[Configuration]) -> Failures:
    """Return the failures of candidates that race alone."""
    raced = {configuration: run([configuration]) for configuration in chosen}
    found = {c: one.failures[0] if isinstance(one, Raced) else one for c, one in raced.items()}
    return {configuration: failure for configuration, failure in found.items() if failure is not None}


def _without_noise(
    task: TuningTask, problem: Problem, run: Callable[[], Raced | Failure], retakes: int
) -> Raced | Failure:
    workbench = task.workbench
    for attempt in range(1, retakes + 2):
        workbench.noise.begin()
        raced = run()
        if not isinstance(raced, Raced):
            return raced
        workbench.spending.device_s += raced.device_s
        reason = workbench.noise.reason(raced.canary_us)
        if reason is None:
            return raced
        if attempt > retakes:
            if retakes:  # a race that is never taken again says nothing about a row
                task.noise[problem] = reason
            return raced
        workbench.listen(Noisy(kernel=task.spec.name, problem=problem, reason=reason, attempt=attempt))
    raise AssertionError("the last attempt returns")
