"""A race between the candidates of a contest: taken again where something disturbed it, and nobody blamed in vain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pretuned.measure.requests import Raced
from pretuned.measure.rounds import Rule
from pretuned.outcome import Failure
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.progress import Disturbed

if TYPE_CHECKING:
    from pretuned.tune.contest import Contest  # brings NumPy, which commands that measure nothing do without

RETAKES: Final = 2  # of samples that were disturbed

Samples = dict[Configuration, tuple[float, ...]]
Failures = dict[Configuration, Failure]


def race(
    contest: Contest,
    problem: Problem,
    chosen: Sequence[Configuration],
    estimates_us: Sequence[float],
    rounds: int,
    rule: Rule,
    *,
    judge: bool = False,
) -> tuple[Samples, Failures]:
    """Time `chosen` at `problem`, which is prepared, in interleaved rounds.

    Whoever failed is dropped and among the failures, and the samples are then empty. Samples that something disturbed
    are taken again; where that does not help, `contest.disturbed` says what it was. So is a race that was lost to
    nobody: each runs alone then, and where all do, all together once more.
    """

    def run(chosen: Sequence[Configuration], estimates_us: Sequence[float]) -> Raced | Failure:
        contest.tuner.effort.launched += 1
        entries = [contest.entry(configuration) for configuration in chosen]
        return contest.tuner.runner.race(entries, rounds, estimates_us=estimates_us, rule=rule, judge=judge)

    raced = _undisturbed(contest, problem, lambda: run(chosen, estimates_us))
    failures: Failures = {}
    keep = True
    if not isinstance(raced, Raced):
        for configuration, estimate_us in zip(chosen, estimates_us, strict=True) if len(chosen) > 1 else ():
            alone = run([configuration], [estimate_us])
            failure = alone.failures[0] if isinstance(alone, Raced) else alone
            if failure is not None:
                failures[configuration] = failure
        if not failures:
            raced = _undisturbed(contest, problem, lambda: run(chosen, estimates_us))
    if isinstance(raced, Raced):
        failures |= {c: failure for c, failure in zip(chosen, raced.failures, strict=True) if failure is not None}
    elif not failures:  # twice, and to nobody: no reason to remember any of them for
        keep = len(chosen) == 1
        failures = {c: raced for c in chosen if c != contest.default or len(chosen) == 1}
    for configuration, failure in failures.items():
        contest.drop(configuration, problem, failure, keep=keep)
    if failures or not isinstance(raced, Raced):
        return {}, failures
    return dict(zip(chosen, raced.times_us, strict=True)), {}


def _undisturbed(contest: Contest, problem: Problem, run: Callable[[], Raced | Failure]) -> Raced | Failure:
    watch = contest.tuner.watch
    for attempt in range(1, RETAKES + 2):
        watch.begin()
        raced = run()
        if not isinstance(raced, Raced):
            return raced
        contest.tuner.effort.device_s += raced.device_s
        reason = watch.disturbance(raced.canary_us)
        if reason is None:
            return raced
        if attempt > RETAKES:
            contest.disturbed[problem] = reason
            return raced
        contest.tuner.listen(Disturbed(kernel=contest.spec.name, problem=problem, reason=reason, attempt=attempt))
    raise AssertionError("the last attempt returns")
