"""The certificate of a selection: what its rule loses at problems that it was not made from.

Problems are drawn by a seed that is recorded, after the rule is made. At each, what the rule chooses is verified
against the default's results. Then it races the default and what seems best of all candidates, shipped or not: those
that costs fitted to the survey expect to be fast are screened, and the fastest of them race. The loss is what the
choice takes beyond the fastest of all in the race.

A selection that loses more there than the default, at all of these problems together, is not kept: the default ships
alone.

Where more is lost than `max-loss` allows, these problems go to those that the rule is made from. It is made anew, and
new problems certify it, twice: of many certificates one may hold by luck. So no certificate speaks of problems that
its rule has seen. The rule before is judged at the same new problems, and of the two the one stays that loses less
there: more problems do not always make a better rule. The certificate is that of these problems, the smaller of two
where that was the last refinement. Where no `max-loss` is asked for, 5% is much, and a rule is made
anew as often as the profile of the effort says, while its task has time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from pretuned.record.courses import HeldOut
from pretuned.record.selections import Certificate, Losses, Selection
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.events import Certified, Refining
from pretuned.tune.selecting import SelectionMaker
from pretuned.tune.selection import ranking
from pretuned.tune.selection.sampling import REACH, draw
from pretuned.tune.soundness import agree

SMALL: Final = 200  # candidates of a space that are screened at every problem, where nothing is known of them
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
    """What became of a selection's choices, at least one inside the sizes; `calls`: they weigh by calls."""

    selection: Selection
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
    def certified(self) -> Selection:
        """The selection with this certificate."""
        return replace(self.selection, certificate=self.certificate)

    @property
    def held_out(self) -> tuple[HeldOut, ...]:
        """Its problems, one by one."""
        return tuple(
            HeldOut(dims=one.problem.dims, loss=one.loss, inside=inside, slower=one.slower)
            for part, inside in ((self.inside, True), (self.outside, False))
            for one in part
        )

    def kept(self) -> Comparisons:
        """Return these, or what the default alone would have lost, where that is less."""
        inside, outside = (
            tuple(replace(one, chosen_us=one.default_us) for one in part) for part in (self.inside, self.outside)
        )
        lost, lost_by_default = (statistics.fmean(one.loss for one in part) for part in (self.inside, inside))
        if lost <= lost_by_default:
            return self
        alone = replace(self.selection, choices=self.selection.choices[-self.selection.defaults :])
        return replace(self, selection=alone, inside=inside, outside=outside)


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

        `held` is the one that the lock has: its seed is not used again. A refined selection stays where it loses no
        more than the one before at the same problems, new to both. Where time or problems end before half as many of
        them were compared as for the one before, that one stays, with its certificate.
        """
        task, demands, clock = self.task, self.task.workbench.demands, self.task.workbench.clock
        asked, unasked = demands.max_loss, task.workbench.device.profile.refinements
        goal, most = (MUCH, unasked) if asked is None else (asked, REFINEMENTS)
        seed = demands.seed if demands.seed is not None else 1 + last_seed(held)
        refined, again, best, rivals = 0, False, None, [self.maker.selection()]
        while True:
            judged = self._judged(rivals, seed, in_time=refined > 0 and asked is None)
            if any(map(self._has_failed, rivals)):
                self.maker.choose_again()  # what was wrong does not ship
                best = None if best is None or self._has_failed(best.selection) else best
                again, rivals = False, [self.maker.selection(), *([] if best is None else [best.selection])]
                continue
            cut = not judged or (best is not None and 2 * len(judged[0].inside) < len(best.inside))
            if not cut:
                best = min(judged, key=lambda one: one.certificate.inside.mean)  # of equals, the one made last
            if best is None:  # nothing could be tried: for want of time, or of problems
                return replace(rivals[0], space="") if clock.over else rivals[0]
            met, seed = best.certificate.inside.mean <= goal, seed + 1
            over = cut or clock.over or (asked is None and clock.late)
            if met and refined and not (again or over):
                again, rivals = True, [best.selection]  # of many certificates one may hold by luck
                continue
            if met or refined == most or over:
                shipped = best.kept()
                spent = clock.over and refined < most and not met
                self._report(shipped, refined, spent=spent, hurried=self.maker.hurried)
                return shipped.certified
            refined, again = refined + 1, False
            self._refine(best, goal, refined)
            self.maker.choose_again()
            rivals = [self.maker.selection(), best.selection]

    def renewed(self, held: Selection) -> Selection:
        """Return a selection that the lock has with a new certificate; it stays as it is where nothing can be tried.

        Of one that has a wrong choice the others are left, without a certificate, to be made anew by the next tuning.
        """
        task, demands = self.task, self.task.workbench.demands
        task.sources.request([*(choice.configuration for choice in held.choices), *self._all])
        judged = self._judged([held], demands.seed if demands.seed is not None else 1 + last_seed(held))
        right = tuple(choice for choice in held.choices if choice.configuration not in task.failed)
        if right != held.choices:
            return replace(held, choices=right, certificate=None, space="")
        if not judged:
            return held
        self._report(judged[0], 0, spent=False)
        return judged[0].certified

    def _has_failed(self, selection: Selection) -> bool:
        return any(choice.configuration in self.task.failed for choice in selection.choices)

    def _refine(self, judged: Comparisons, goal: float, attempt: int) -> None:
        self.task.workbench.listen(
            Refining(
                kernel=judged.selection.kernel,
                specialisation=judged.selection.specialisation,
                certificate=judged.certificate,
                max_loss=goal,
                attempt=attempt,
            )
        )

    def _report(self, judged: Comparisons, attempts: int, *, spent: bool, hurried: bool = False) -> None:
        self.task.workbench.listen(
            Certified(
                kernel=judged.selection.kernel,
                specialisation=judged.selection.specialisation,
                certificate=judged.certificate,
                attempts=attempts,
                spent=spent,
                hurried=hurried,
                held_out=judged.held_out,
            )
        )

    def _judged(self, selections: Sequence[Selection], seed: int, *, in_time: bool = False) -> list[Comparisons]:
        """Return what became of each rule's choices, all at the same problems; empty where nothing could be tried.

        It ends with the budget, or, `in_time`, with the time that the task has of it.
        It speaks of problems that have no row, and of none that the rules have seen, except those that are called.
        """
        task, rows = self.task, set(self.maker.problems)
        calls = {problem: number for problem, number in self.maker.calls.items() if problem not in rows}
        seen = rows | self.maker.observed.times.keys()
        inside = draw(task.spec, task.specialisation, self.count, seed, calls=calls, without=seen)
        seen = {*seen, *inside}
        outside = draw(task.spec, task.specialisation, self.count // OUTSIDE, seed, reach=REACH, without=seen)
        with task.workbench.spending.stage("choosing"):
            likely = self.maker.predictor.likely(self._costs, [*inside, *outside]) if self._costs else {}
        with task.workbench.spending.stage("certifying"):
            found = [
                list(self._comparisons(selections, problems, likely, in_time=in_time)) for problems in (inside, outside)
            ]
        if not found[0]:
            return []
        return [
            Comparisons(
                selection=selection,
                seed=seed,
                inside=tuple(picks[place] for picks in found[0]),
                outside=tuple(picks[place] for picks in found[1]),
                calls=bool(calls),
            )
            for place, selection in enumerate(selections)
        ]

    def _comparisons(
        self,
        selections: Sequence[Selection],
        problems: Sequence[Problem],
        likely: Mapping[Problem, Sequence[Configuration]],
        *,
        in_time: bool,
    ) -> Iterator[list[ComparedPick]]:
        clock = self.task.workbench.clock
        for place, problem in enumerate(problems):
            if place and (clock.over or (in_time and clock.late)):
                return
            self.task.report("certifying", problem, place, len(problems))
            rivals = self.maker.rivals(likely[problem], problem) if likely else self._all
            if compared := self._compared(selections, problem, rivals):
                yield compared

    def _compared(
        self, selections: Sequence[Selection], problem: Problem, rivals: Sequence[Configuration]
    ) -> list[ComparedPick]:
        """Return what each rule's choice took at a problem, of one race; empty where one is missing."""
        task, observed = self.task, self.maker.observed
        picks = [ranking(selection, task.spec, problem, task.facts)[0] for selection in selections]
        shipped = list(dict.fromkeys(choice.configuration for one in selections for choice in one.choices))
        default = task.default_at(problem)
        entrants = list(dict.fromkeys([default, *picks, *rivals, *shipped]))
        if not agree(task, problem, shipped) or not observed.survey(problem, entrants, keep=picks, rounds=ROUNDS):
            return []
        times = observed.times[problem]
        if not times.keys() >= {default, *picks}:
            return []
        return [
            ComparedPick(problem=problem, chosen_us=times[pick], best_us=min(times.values()), default_us=times[default])
            for pick in picks
        ]

    @cached_property
    def _all(self) -> list[Configuration]:
        """The candidates of a small space, as rivals where nothing was observed; none of a large one."""
        points = self.task.points
        return [points[place] for place in range(len(points))] if len(points) <= SMALL else []


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
