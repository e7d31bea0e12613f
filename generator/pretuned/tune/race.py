"""Races: candidates are timed in interleaved rounds, again where it was noisy, and what fails in one is dropped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pretuned.measure.requests import Raced
from pretuned.measure.rounds import Rule
from pretuned.measure.sampling import least_launches
from pretuned.outcome import Failure
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.events import Noisy, Racing
from pretuned.tune.ranking import Samples
from pretuned.tune.task import TuningTask

LEAST_ROUNDS: Final = 7  # of slow kernels: one more than an interval of 95% needs
ROUNDS_US: Final = 2e6  # that all rounds of a race may take together, beyond the fewest
RETAKES: Final = 2  # of noisy samples

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
    chosen, default = list(estimates_us), task.default_at(problem)
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
        return task.workbench.runner.race(
            entries, rounds, estimates_us=expected_us, rule=rule, judge=conduct.judge, place=conduct.place
        )

    together = partial(_without_noise, task, problem, partial(run, chosen), conduct.retakes)
    raced = together()
    alone = {} if isinstance(raced, Raced) else _failing_alone(run, chosen)
    if not (isinstance(raced, Raced) or alone):
        raced = together()
    failures = alone or _failing_together(raced, chosen, default)
    if default in failures and task.cleared(default):  # of the failures of others nothing is sure either
        dropped = {c: failures.get(c, failures[default]) for c in chosen if c in task.failed}
        return ({}, dropped) if dropped else race(task, problem, estimates_us, rounds, rule, conduct)
    # Where all of it failed twice, but no candidate fails alone, the cache blames none of them.
    keep = isinstance(raced, Raced) or bool(alone) or len(chosen) == 1
    for configuration, failure in failures.items():
        task.drop(configuration, problem, failure, keep=keep)
    if failures or not isinstance(raced, Raced):
        return {}, failures
    return dict(zip(chosen, raced.times_us, strict=True)), {}


def _failing_alone(
    run: Callable[[Sequence[Configuration]], Raced | Failure], chosen: Sequence[Configuration]
) -> Failures:
    """Return the failures of candidates that race alone, where they did not do so already."""
    if len(chosen) == 1:
        return {}
    raced = {configuration: run([configuration]) for configuration in chosen}
    found = {c: one.failures[0] if isinstance(one, Raced) else one for c, one in raced.items()}
    return {configuration: failure for configuration, failure in found.items() if failure is not None}


def _failing_together(raced: Raced | Failure, chosen: Sequence[Configuration], default: Configuration) -> Failures:
    """Return the failures of candidates that raced together; one of the whole race is that of all but the default."""
    if isinstance(raced, Raced):
        return {c: failure for c, failure in zip(chosen, raced.failures, strict=True) if failure is not None}
    return {c: raced for c in chosen if c != default or len(chosen) == 1}


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
