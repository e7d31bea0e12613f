"""Making a selection: what ships for a specialisation, and by which rule.

Theory of operation. A table is for sizes that nobody tuned, most of them ragged. So candidates are measured there.

*Survey.* All candidates are screened at the representatives and at a few problems that are drawn between and around the
spec's sizes. What is far behind at each of the first of those is left out at the others: behind what is legal wherever
it is itself, since elsewhere it may be the best of those that are.

*Trial.* Costs fitted to those times say what may be the best anywhere: the shortlist. It races at the spec's own sizes
and at some drawn ones. At the spec's own it meets what the representatives promise there, since the rows are decided
among what ships: no cost has to predict the best of a tuned size. At the drawn ones it meets its rivals, which costs
expect to be the fastest there of all candidates: what was timed at few problems may be underrated, and whether it is
shows where it is expected to do well. From all that few configurations are chosen, by what they leave to lose together,
and race at many more problems. These tell more, so others may be chosen then, which race where they were not timed
while there is time. Then the costs of what ships are fitted (`pretuned.tune.selection`).

A trial that the budget ends before half of its drawn problems tells too little of how costs err there: `hurried`. The
rule then has the widest margins, so that the default runs wherever no large gain is predicted.

What the rule loses is found out afterwards, at problems that it was not made from (`certification`).
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pretuned.record.selections import PredictedChoice, Selection
from pretuned.record.usage import digest_of
from pretuned.spec.guards import Guards
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.observation import Observations
from pretuned.tune.screening import CARRIED
from pretuned.tune.selection import Predictor, predicted_us
from pretuned.tune.selection.predictor import UNKNOWN
from pretuned.tune.selection.spreading import drawn_around, telling
from pretuned.tune.soundness import agree, verify_around
from pretuned.tune.task import TuningTask

SURVEY_SEED: Final = -1  # those of certificates are positive
TRIAL_SEED: Final = -2
WHOLE: Final = 4  # drawn problems at which all candidates are screened
HOPELESS: Final = 1.5  # times the best at every problem so far: not screened at further ones
SURVEYED: Final = 160  # candidates of a large space, at most: the best so far
LISTED: Final = 16  # of the shortlist, for one free dim
SHORTLISTED: Final = 3  # at one in so many of the drawn problems the whole shortlist races, and meets its rivals
RIVALS: Final = 16  # candidates that are screened at a problem, of what is expected to be the fastest there
HALF: Final = 0.5  # of the drawn problems, which a trial needs to tell how costs err
SETTLING: Final = 2  # times, at most, that what is chosen anew races where it was not timed
AGREED: Final = 8  # drawn problems at which what ships is verified against the default
COMPUTING: Final = ("choosing", "rendering", "waiting for compilers")  # stages


class SelectionMaker:
    """Makes the selection of `task`, whose candidates have been screened at `representatives`.

    `problems` are the spec's own of the specialisation, `calls` how often problems were called. `chosen` is what ships,
    the default last, and empty as long as nothing has been observed.
    """

    def __init__(
        self,
        task: TuningTask,
        problems: Sequence[Problem],
        representatives: Sequence[Problem],
        calls: Mapping[Problem, int],
    ) -> None:
        self.task = task
        self.calls = calls
        self.problems = list(problems)
        self.representatives = list(representatives)
        self.observed = Observations(task)
        self.predictor = Predictor(task.spec, task.specialisation, task.facts, task.sources.resources, calls=calls)
        self.chosen: tuple[Configuration, ...] = ()
        self._ragged: list[Problem] = []  # where what ships is verified against the default
        self._asked: set[tuple[Problem, Configuration]] = set()  # what was to race where it was not timed
        self._tried: list[Problem] = []  # what the trial was to race at beside the spec's own
        self.whole = False  # there was time for all of it
        self._begun_s, self._computed_s = time.monotonic(), self._computing_s

    @property
    def late(self) -> bool:
        """Whether the time for what selections measure, or the budget, is over.

        What this process computes and compiles meanwhile does not count for the first: on a slow processor a selection
        would be made of few problems.
        """
        clock, profile = self.task.workbench.clock, self.task.workbench.device.profile
        measuring_s = time.monotonic() - self._begun_s - (self._computing_s - self._computed_s)
        return clock.over or clock.late or measuring_s > profile.selecting_s

    @property
    def _computing_s(self) -> float:
        """The seconds of this tuning that no device had a part in."""
        return sum(self.task.workbench.spending.seconds[stage] for stage in COMPUTING)

    @property
    def hurried(self) -> bool:
        """Whether the budget ended before half of the problems that were drawn for the trial."""
        raced = sum(problem in self.observed.times for problem in self._tried)
        return not self.whole and raced < HALF * len(self._tried)

    def drawn(self, count: int, seed: int, beside: Sequence[Problem]) -> list[Problem]:
        """Return distinct problems inside and outside the sizes; those not called leave none far from `beside`."""
        return drawn_around(self.task.spec, self.task.specialisation, count, seed, beside, self.calls)

    def choose(self, incumbents: Iterable[Configuration] = ()) -> tuple[Configuration, ...]:
        """Measure where nobody tuned, and return the few configurations that ship, the default last."""
        spending, profile = self.task.workbench.spending, self.task.workbench.device.profile
        self.task.workbench.clock.begin_selecting()
        with spending.stage("surveying"):
            surveyed = self.drawn(by_dims(self.task.spec, profile.surveyed_problems), SURVEY_SEED, self.representatives)
            self._survey(surveyed)
        with spending.stage("trying ragged sizes"):
            measured = [*self.problems, *surveyed]
            tried = profile.tried_problems * len(self.task.spec.free_dims)
            self._tried = self.drawn(tried, TRIAL_SEED, measured)
            self._try(self._tried, incumbents)
        clock = self.task.workbench.clock
        self.whole = not (clock.over or clock.late)  # what a profile gives is the whole, however little it is
        return self.chosen

    def _survey(self, drawn: Sequence[Problem]) -> None:
        task, observed = self.task, self.observed
        count = len(self.representatives) + len(drawn)
        for place, problem in enumerate(self.representatives):
            if self.late:
                return
            task.report("surveying", problem, place, count)
            if problem not in task.unfit:
                observed.survey(problem, [c for c in task.times[problem] if c not in task.failed])
        if not observed.times:  # no problem of the spec fits into the device's memory
            return
        guards = task.guards(sorted({*task.defaults, *(c for times in observed.times.values() for c in times)}))
        everything = self._alive(guards, SURVEYED)
        for place, problem in enumerate(drawn):
            if self.late:
                return
            task.report("surveying", problem, count - len(drawn) + place, count)
            observed.survey(problem, everything if place < WHOLE else self._hopeful(everything, guards))

    def _alive(self, guards: Mapping[Configuration, Guards], most: int) -> list[Configuration]:
        """Return the candidates that did best somewhere, at most so many, in a stable order; the default first."""
        shares = {c: share for c, share in self.observed.best_shares(guards).items() if c not in self.task.failed}
        best = sorted(shares, key=lambda c: (shares[c], c))[:most]
        return list(dict.fromkeys([*self.task.defaults, *best]))

    def _hopeful(
        self, candidates: Sequence[Configuration], guards: Mapping[Configuration, Guards]
    ) -> list[Configuration]:
        shares = self.observed.best_shares(guards)
        return [c for c in candidates if shares.get(c, 1.0) <= HOPELESS or c in self.task.defaults]

    def _try(self, drawn: Sequence[Problem], incumbents: Iterable[Configuration]) -> None:
        """Race the shortlist at the spec's sizes and some drawn ones, and what is likely to ship at the others."""
        task, most = self.task, self.task.workbench.demands.max_configurations
        if not self.observed.times:
            return
        held = [c for c in incumbents if c not in task.failed and c in task.points]
        with task.workbench.spending.stage("choosing"):
            listed = [*task.defaults, *self.predictor.shortlist(self.observed.times, by_dims(task.spec, LISTED)), *held]
        self._ragged = telling(drawn, AGREED)
        first = len(drawn) // SHORTLISTED
        self._try_own(listed)
        self._meet_rivals(drawn[:first], listed)
        if not self.late:
            with task.workbench.spending.stage("choosing"):
                listed = [*task.defaults, *self.predictor.choose(self.observed.sound(), most)]
            self._race_at(drawn[first:], listed)
        self.choose_again()

    def _try_own(self, listed: Sequence[Configuration]) -> None:
        """Race the shortlist at the spec's own sizes, and the best of what may be the best there.

        The rows of these sizes are decided among what ships. So all of them are tried, also where slow candidates have
        taken the time for selections already, though without the shortlist.
        """
        task, clock = self.task, self.task.workbench.clock
        own = [problem for problem in self.problems if problem not in self.representatives]
        promised = {problem: task.promising(problem, self.representatives, CARRIED) for problem in own}
        task.sources.request(list(dict.fromkeys([*listed, *(c for found in promised.values() for c in found)])))
        for problem in own:
            if clock.over or clock.late:
                return
            task.report("trying ragged sizes", problem, len(self.observed.times), len(self.problems) + len(self._tried))
            raced = [] if self.late else [c for c in listed if task.is_legal(c, problem)]
            candidates = dict.fromkeys([task.default_at(problem), *promised[problem], *raced])
            self.observed.survey(problem, [c for c in candidates if c not in task.failed], keep=raced)
        self._race_at(self.representatives, listed)

    def _meet_rivals(self, problems: Sequence[Problem], listed: Sequence[Configuration]) -> None:
        """Race the shortlist at each problem, with the fastest of what costs expect to do best there."""
        task, times = self.task, self.observed.sound()
        if self.late:
            return
        with task.workbench.spending.stage("choosing"):
            costs = self.predictor.costs(times, {c for known in times.values() for c in known})
            likely = self.predictor.likely(costs, problems)
        for problem in problems:
            if self.late:
                return
            task.report("trying ragged sizes", problem, len(self.observed.times), len(self.problems) + len(self._tried))
            raced = [c for c in listed if c not in task.failed and task.launchable(c, problem)]
            entrants = [task.default_at(problem), *self.rivals(likely[problem], problem), *raced]
            self.observed.survey(problem, list(dict.fromkeys(entrants)), keep=raced)

    def rivals(self, likely: Iterable[Configuration], problem: Problem) -> list[Configuration]:
        """Return the first RIVALS of `likely` that can run at a problem."""
        task = self.task
        able = (c for c in likely if c not in task.failed and task.launchable(c, problem))
        return list(itertools.islice(able, RIVALS))

    def _race_at(self, problems: Sequence[Problem], listed: Iterable[Configuration]) -> bool:
        """Race candidates at each problem where they were not timed; where that is most of them, all race.

        Returns whether any candidate was to race anywhere.
        """
        task, observed, wanted = self.task, self.observed, list(dict.fromkeys(listed))
        if self.late:
            return False
        task.sources.request(wanted)
        lacking = {problem: missing for problem in problems if (missing := self._untimed(wanted, problem))}
        if not lacking:
            return False
        with task.workbench.spending.stage("choosing"):
            costs = self.predictor.costs(self.observed.sound(), wanted)
        for problem, missing in lacking.items():
            if self.late:
                break
            task.report("trying ragged sizes", problem, len(observed.times), len(self.problems) + len(self._tried))
            default, known = task.default_at(problem), observed.times.get(problem, {})
            able = [c for c in wanted if c in costs and (c in known or c in missing)]
            expected = {c: predicted_us(costs[c], problem) for c in able}
            everything = default in missing or 2 * len(missing) > len(expected)
            racing = {c: us for c, us in expected.items() if everything or c in missing}
            if default not in costs and default not in known:
                observed.survey(problem, [default, *expected])  # it is not the default where anything was timed yet
            elif racing:
                observed.race_at(problem, racing)
            self._asked.update((problem, configuration) for configuration in missing)
        return True

    def _untimed(self, wanted: Sequence[Configuration], problem: Problem) -> list[Configuration]:
        """Return what can run at a problem and was not timed there; what failed to be is not asked again."""
        task, known, screened = self.task, self.observed.times.get(problem, {}), self.task.times.get(problem, {})
        return [
            c
            for c in wanted
            if c not in known
            and c not in task.failed
            and (problem, c) not in self._asked
            and screened.get(c) != math.inf  # what was refused at this problem alone would be dropped by a race
            and task.launchable(c, problem)
        ]

    def choose_again(self) -> None:
        """Choose what ships from all that has been observed, and is right at awkward sizes too."""
        task = self.task
        while True:
            self._settle()
            unproven = [c for c in self.chosen if c not in task.proven]
            first = self.representatives[:1] if unproven else []
            for problem in first:
                task.report("checking what ships", problem, 0, 1 + len(self._ragged))
            around = all(verify_around(task, problem, unproven) for problem in first)
            if around and self._agrees():
                return

    def _settle(self) -> None:
        """Choose what ships, and have it race where it was not timed; then anew, SETTLING times at most."""
        task, most = self.task, self.task.workbench.demands.max_configurations
        for turn in range(1 + SETTLING):
            with task.workbench.spending.stage("choosing"):
                found = self.predictor.choose(self.observed.sound(), most)
            self.chosen = (*(c for c in found if c not in task.defaults), *task.defaults)
            if turn == SETTLING or not self._race_at(list(self.observed.times), self.chosen):
                return

    def _agrees(self) -> bool:
        """Whether what ships gives the default's results at ragged sizes; what does not has been dropped."""
        for place, problem in enumerate(self._ragged, start=1):
            self.task.report("checking what ships", problem, place, 1 + len(self._ragged))
            if not agree(self.task, problem, self.chosen):
                return False
        return True

    def selection(self) -> Selection:
        """Return the rule for what ships, without a certificate."""
        task, device, times = self.task, self.task.workbench.device, self.observed.sound()
        with task.workbench.spending.stage("choosing"):
            costs = self.predictor.deciding(times, self.chosen)
            shipped = [c for c in self.chosen if c in costs or c in task.defaults]
            known = {c: costs[c] for c in shipped if c in costs}
            margins = UNKNOWN if self.hurried else self.predictor.margins(times, known)
        sizes = {name: [int(dict(problem.dims)[name]) for problem in times] for name in task.spec.free_dims}
        return Selection(
            kernel=task.spec.name,
            device=device.name,
            specialisation=task.specialisation,
            choices=tuple(self._choice(c, costs.get(c, ())) for c in shipped),
            defaults=len(task.defaults),
            margins=margins,
            reach=tuple(sorted((name, (min(listed), max(listed))) for name, listed in sizes.items())),
            problems=len(times),
            space=task.space if self.whole else "",
            verification=task.verification,
            compiler=task.workbench.binaries.compiler,
            driver=device.driver,
            date=dt.datetime.now(dt.UTC).date().isoformat(),
            headers=task.sources.headers(shipped),
            effort=device.unusual_effort,
            usage=digest_of(self.calls),
        )

    def _choice(self, configuration: Configuration, cost: tuple[tuple[str, int], ...]) -> PredictedChoice:
        cubin, library = self.task.sources.shipped(configuration)
        return PredictedChoice(
            configuration=configuration,
            candidate=self.task.sources.candidate(configuration).key,
            cubin=cubin,
            cost=cost,
            library=library,
        )


def by_dims(spec: KernelSpec, count: int) -> int:
    """Return `count` for a kernel with one free dim, and half as much more for each further one."""
    return count * (1 + len(spec.free_dims)) // 2
