"""The certificate of a selection: what its rule loses at problems that it was not made from.

Problems are drawn by a seed that is recorded, after the rule is made. At each, what the rule chooses is verified
against the default's results. Then it races the default and what seems best of all candidates, shipped or not: those
that costs fitted to the survey expect to be fast are screened, and the fastest of them race. The loss is what the
choice takes beyond the fastest of all in the race.

A selection that loses more there than the default, at all of these problems together, is not kept: the default ships
alone.

Where more is lost than `max-loss` allows, these problems go to those that the rule is made from. It is made anew, and
new problems certify it, twice: of many certificates one may hold by luck. So no certificate speaks of problems that
its rule has seen. Where no `max-loss` is asked for, 5% is much, and a rule is made anew as often as the profile of the
effort says, while its task has time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pretuned.record.courses import HeldOut
from pretuned.record.selections import Certificate, Losses, Selection
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.events import Certified, Refining
from pretuned.tune.selecting import REACH, SelectionMaker
from pretuned.tune.selection import predicted_us, ranking
from pretuned.tune.selection.sampling import draw
from pretuned.tune.soundness import agree

RIVALS: Final = 16  # candidates that are screened at a problem, of what is expected to be fast
SMALL: Final = 160  # candidates of a space that are screened at every problem, where nothing is known of them
ROUNDS: Final = 5
SLOWER: Final = 0.02  # than the default, by more than which a choice counts as slower
REFINEMENTS: Final = 12  # for a `max-loss`
MUCH: Final = 0.05  # mean loss from which on a selection is refined without being asked to
OUTSIDE: Final = 4  # for so many problems inside the sizes, one outside


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPick:
    """What the rule's choice took at a problem, beside the fastest of the race and the default, in microseconds."""

    problem: Problem
    chosen_us: float
    best_us: float
    default_us: float

    @property
    def loss(self) -> float:
        """The share of the best time that the choice took longer."""
        return self.chosen_us / self.best_us - 1

    @property
    def slower(self) -> bool:
        """Whether the choice takes clearly longer than the default."""
        return self.chosen_us > (1 + SLOWER) * self.default_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """The comparisons of a rule's choices inside the sizes, at least one, and outside; `calls`: they weigh by calls."""

    seed: int
    inside: tuple[ComparedPick, ...]
    outside: tuple[ComparedPick, ...]
    calls: bool

    @property
    def certificate(self) -> Certificate:
        """What the comparisons say together."""
        outside = losses(self.outside) if self.outside else None
        return Certificate(seed=self.seed, inside=losses(self.inside), outside=outside, calls=self.calls)

    @property
    def held_out(self) -> tuple[HeldOut, ...]:
        """Its problems, one by one."""
        return tuple(
            HeldOut(dims=one.problem.dims, loss=one.loss, inside=inside, slower=one.slower)
            for part, inside in ((self.inside, True), (self.outside, False))
            for one in part
        )

    def kept(self, selection: Selection) -> tuple[Selection, Comparisons]:
        """Return the selection with its certificate, or the default alone where that loses less; and what says so."""
        inside, outside = (
            tuple(replace(one, chosen_us=one.default_us) for one in part) for part in (self.inside, self.outside)
        )
        always = replace(self, inside=inside, outside=outside)
        lost, lost_by_default = (statistics.fmean(one.loss for one in part) for part in (self.inside, inside))
        if lost <= lost_by_default:
            return replace(selection, certificate=self.certificate), self
        alone = selection.choices[-selection.defaults :]
        return replace(selection, choices=alone, certificate=always.certificate), always


class Certification:
    """Certifies selections of a task, `count` problems at a time, against what `maker` has observed.

    Where it has observed nothing, every candidate of a small space is screened at each problem.
    """

    def __init__(self, maker: SelectionMaker, count: int) -> None:
        self.maker = maker
        self.task = maker.task
        self.count = count
        known = {c for times in maker.observed.times.values() for c in times}
        with maker.task.workbench.spending.stage("choosing"):
            self._costs = maker.predictor.costs(maker.observed.times, sorted(known))

    def certified(self, held: Selection | None = None) -> Selection:
        """Return the selection with its certificate, refined as often as it needs and as there is time for.

        `held` is the one that the lock has: its seed is not used again. Where time or problems end before a refined
        selection is certified at half as many problems as the one before, that one stays, with its certificate.
        """
        task, demands, clock = self.task, self.task.workbench.demands, self.task.workbench.clock
        asked, unasked = demands.max_loss, task.workbench.device.profile.refinements
        goal, most = (MUCH, unasked) if asked is None else (asked, REFINEMENTS)
        seed = demands.seed if demands.seed is not None else 1 + last_seed(held)
        refined, again, selection = 0, False, self.maker.selection()
        last: tuple[Selection, Comparisons] | None = None
        while True:
            judged = self._judged(selection, seed, in_time=refined > 0 and asked is None)
            if any(choice.configuration in task.failed for choice in selection.choices):
                last = None
                self.maker.choose_again()  # what was wrong does not ship
                selection = self.maker.selection()
                continue
            cut = judged is None or (last is not None and 2 * len(judged.inside) < len(last[1].inside))
            if judged is not None and not cut:
                last = selection, judged
            if last is None:  # nothing could be tried: for want of time, or of problems
                return replace(selection, space="") if clock.over else selection
            met, seed = last[1].certificate.inside.mean <= goal, seed + 1
            over = cut or clock.over or (asked is None and clock.late)
            if met and refined and not (again or over):
                again = True  # of many certificates one may hold by luck: others have to bear it out
                continue
            if met or refined == most or over:
                selection, judged = last[1].kept(last[0])
                spent = clock.over and refined < most and not met
                self._report(selection, judged, refined, spent=spent, hurried=self.maker.hurried)
                return selection
            refined, again = refined + 1, False
            self._refine(selection, last[1].certificate, goal, refined)
            self.maker.choose_again()
            selection = self.maker.selection()

    def renewed(self, held: Selection) -> Selection:
        """Return a selection that the lock has with a new certificate; it stays as it is where nothing can be tried.

        Of one that has a wrong choice the others are left, without a certificate, to be made anew by the next tuning.
        """
        task, demands = self.task, self.task.workbench.demands
        task.sources.request([choice.configuration for choice in held.choices])
        judged = self._judged(held, demands.seed if demands.seed is not None else 1 + last_seed(held))
        right = tuple(choice for choice in held.choices if choice.configuration not in task.failed)
        if right != held.choices:
            return replace(held, choices=right, certificate=None, space="")
        if judged is None:
            return held
        self._report(held, judged, 0, spent=False)
        return replace(held, certificate=judged.certificate)

    def _refine(self, selection: Selection, certificate: Certificate, goal: float, attempt: int) -> None:
        self.task.workbench.listen(
            Refining(
                kernel=selection.kernel,
                specialisation=selection.specialisation,
                certificate=certificate,
                max_loss=goal,
                attempt=attempt,
            )
        )

    def _report(
        self, selection: Selection, judged: Comparisons, attempts: int, *, spent: bool, hurried: bool = False
    ) -> None:
        self.task.workbench.listen(
            Certified(
                kernel=selection.kernel,
                specialisation=selection.specialisation,
                certificate=judged.certificate,
                attempts=attempts,
                spent=spent,
                hurried=hurried,
                held_out=judged.held_out,
            )
        )

    def _judged(self, selection: Selection, seed: int, *, in_time: bool = False) -> Comparisons | None:
        """Return what became of a rule's choices, or None where nothing could be tried.

        It ends with the budget, or, `in_time`, with the time that the task has of it.
        It speaks of problems that have no row, and of none that the rule has seen, except those that are called.
        """
        task, rows = self.task, set(self.maker.problems)
        calls = {problem: number for problem, number in self.maker.calls.items() if problem not in rows}
        seen = rows | self.maker.observed.times.keys()
        inside = draw(task.spec, task.specialisation, self.count, seed, calls=calls, without=seen)
        seen = {*seen, *inside}
        outside = draw(task.spec, task.specialisation, self.count // OUTSIDE, seed, reach=REACH, without=seen)
        with task.workbench.spending.stage("certifying"):
            found = [list(self._comparisons(selection, problems, in_time=in_time)) for problems in (inside, outside)]
        if not found[0]:
            return None
        return Comparisons(seed=seed, inside=tuple(found[0]), outside=tuple(found[1]), calls=bool(calls))

    def _comparisons(
        self, selection: Selection, problems: Sequence[Problem], *, in_time: bool
    ) -> Iterator[ComparedPick]:
        clock = self.task.workbench.clock
        for place, problem in enumerate(problems):
            if place and (clock.over or (in_time and clock.late)):
                return
            self.task.report("certifying", problem, place, len(problems))
            if (compared := self._compared(selection, problem)) is not None:
                yield compared

    def _compared(self, selection: Selection, problem: Problem) -> ComparedPick | None:
        task, observed = self.task, self.maker.observed
        pick = ranking(selection, task.spec, problem, task.facts)[0]
        shipped = [choice.configuration for choice in selection.choices]
        default = task.default_at(problem)
        entrants = list(dict.fromkeys([default, pick, *self._rivals(problem), *shipped]))
        if not agree(task, problem, shipped):
            return None
        if not observed.survey(problem, entrants, keep=[pick], rounds=ROUNDS):
            return None
        times = observed.times[problem]
        if pick not in times or default not in times:
            return None
        return ComparedPick(
            problem=problem, chosen_us=times[pick], best_us=min(times.values()), default_us=times[default]
        )

    def _rivals(self, problem: Problem) -> list[Configuration]:
        """Return the candidates that seem to be the fastest at a problem; of a small space not observed, all."""
        task = self.task
        if not self._costs:
            return [task.points[place] for place in range(len(task.points))] if len(task.points) <= SMALL else []
        expected = {c: predicted_us(cost, problem) for c, cost in self._costs.items() if c not in task.failed}
        likely = sorted(expected, key=lambda c: (expected[c], c))
        return [c for c in likely if task.launchable(c, problem)][:RIVALS]


def last_seed(held: Selection | None) -> int:
    """Return the seed of a selection's certificate; 0 where it has none."""
    return 0 if held is None or held.certificate is None else held.certificate.seed


def losses(compared: Sequence[ComparedPick]) -> Losses:
    """Return what comparisons say together, rounded to a tenth of a per mille."""
    found = sorted(one.loss for one in compared)
    worst = max(compared, key=lambda one: one.loss)
    slower = sum(one.slower for one in compared)
    return Losses(
        problems=len(compared),
        mean=round(statistics.fmean(found), 4),
        p95=round(found[max(0, math.ceil(0.95 * len(found)) - 1)], 4),
        worst=round(worst.loss, 4),
        slower=round(slower / len(compared), 4),
        worst_at=worst.problem.dims,
    )
