"""What candidates take at one problem after another, all on the scale of races.

Screening is what a whole space can afford. It carries what the device leaves between two launches, a microsecond or
two, which is much the same for all candidates of one implementation at a problem. So the fastest of those that were
screened race there as well, in a few rounds, and the median of what the two differ by is taken off the others.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from pretuned.measure.rounds import RunAll
from pretuned.spec.guards import Guards
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.race import Conduct, affordable, race
from pretuned.tune.task import TuningTask

RACED: Final = 8  # of what was screened at a problem
ROUNDS: Final = 3
GAPS: Final = 0.95  # of a screened time, at most, is what lies between launches

Observed = dict[Problem, dict[Configuration, float]]


class Observations:
    """Times of a task's candidates, in microseconds a call; `times` lacks what failed or was not tried."""

    def __init__(self, task: TuningTask) -> None:
        self.task = task
        self.times: Observed = {}

    def survey(
        self,
        problem: Problem,
        candidates: Sequence[Configuration],
        *,
        keep: Sequence[Configuration] = (),
        rounds: int = ROUNDS,
    ) -> bool:
        """Screen candidates at a problem, and race the fastest, the default, and those of `keep`.

        What was timed there before stays known, on the scale of this race where it was screened. Returns whether the
        problem fits into the device's memory.
        """
        task = self.task
        if not (self._admits(problem) and self._screened(problem, candidates)):
            return False
        known, times = self.times.get(problem, {}), task.times[problem]
        screened = {c: t for c in dict.fromkeys([*candidates, *known]) if math.isfinite(t := times.get(c, math.inf))}
        fastest = sorted(screened, key=lambda c: (screened[c], c))[:RACED]
        racing = {c: screened[c] for c in dict.fromkeys([*fastest, task.default_at(problem), *keep]) if c in screened}
        raced = self.raced(problem, racing, rounds=rounds)
        if raced is None:
            return False
        self.times[problem] = known | on_the_scale_of(raced, screened)
        return True

    def race_at(self, problem: Problem, estimates_us: Mapping[Configuration, float]) -> bool:
        """Race candidates at a problem; return whether it fits into the device's memory."""
        task = self.task
        if not self._admits(problem):
            return False
        able = {c: us for c, us in estimates_us.items() if c not in task.failed and task.launchable(c, problem)}
        raced = self.raced(problem, able)
        if raced is None:
            return False
        self.times[problem] = self.times.get(problem, {}) | raced
        return bool(raced)

    def raced(
        self, problem: Problem, estimates_us: Mapping[Configuration, float], *, rounds: int = ROUNDS
    ) -> dict[Configuration, float] | None:
        """Return the least times of a race at a problem, or None where it does not fit into the device's memory.

        Rounds are few, and what disturbs a short call adds a microsecond to it: a median of three may have two such.
        """
        task = self.task
        known = task.results.times(problem, list(estimates_us), rounds)
        if known is not None:
            return known
        if task.prepare(problem, reference="none") is not None:
            return None
        while estimates_us:
            granted = affordable(rounds, estimates_us.values())
            samples, failures = race(task, problem, estimates_us, granted, RunAll(), Conduct(retakes=0))
            if samples:
                found = {c: min(taken) for c, taken in samples.items()}
                task.results.keep_times(problem, list(estimates_us), rounds, found)
                return found
            estimates_us = {c: us for c, us in estimates_us.items() if c not in failures}
            if problem in task.unfit:
                return None
            if not failures:
                break
        return {}

    def sound(self) -> Observed:
        """Return the times of what never failed, at any problem."""
        failed = self.task.failed
        return {p: {c: us for c, us in known.items() if c not in failed} for p, known in self.times.items()}

    def best_shares(self, guards: Mapping[Configuration, Guards]) -> dict[Configuration, float]:
        """Return the least that candidates took at any problem, of the best time of what is legal wherever they are."""
        kinds = set(guards.values())
        rivals = {own: [other for other in kinds if other.covers(own)] for own in kinds}
        shares: dict[Configuration, float] = {}
        for known in self.times.values():
            best: dict[Guards, float] = {}
            for configuration, time_us in known.items():
                own = guards[configuration]
                best[own] = min(time_us, best.get(own, time_us))
            least = {own: min(best[other] for other in rivals[own] if other in best) for own in best}
            for configuration, time_us in known.items():
                share = time_us / least[guards[configuration]]
                shares[configuration] = min(share, shares.get(configuration, share))
        return shares

    def _admits(self, problem: Problem) -> bool:
        """Whether a problem may fit into the device's memory, and the default, which serves every call, runs there."""
        return problem not in self.task.unfit and self.task.launchable(self.task.default_at(problem), problem)

    def _screened(self, problem: Problem, candidates: Sequence[Configuration]) -> bool:
        task = self.task
        task.times.setdefault(problem, {})
        unknown = [c for c in candidates if c not in task.times[problem] and not task.known(c, problem)]
        able = [c for c in unknown if c not in task.failed and task.launchable(c, problem)]
        if able:
            task.screen(problem, able)
        return problem not in task.unfit


def on_the_scale_of(
    raced_us: Mapping[Configuration, float], screened_us: Mapping[Configuration, float]
) -> dict[Configuration, float]:
    """Return times on the scale of a race: those raced, and of the others what was screened less the gaps.

    What did not race was slower in screening than what did, and is not made faster here than the fastest that did.
    """
    if not raced_us:
        return dict(screened_us)
    gaps = {c: screened_us[c] - raced_us[c] for c in raced_us}
    found = dict(raced_us)
    fastest = min(raced_us.values())
    for configuration, time_us in screened_us.items():
        if configuration not in raced_us:
            alike = [gap for c, gap in gaps.items() if c.implementation == configuration.implementation]
            gap = statistics.median(alike or gaps.values())
            found[configuration] = max(time_us - gap, (1 - GAPS) * time_us, fastest)
    return found
