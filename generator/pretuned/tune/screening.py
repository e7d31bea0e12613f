"""The pipeline that finds out what candidates take: proposals, compilers and the device at work together.

Theory of operation. A strategy proposes candidates in batches; their modules go to the compilers at once, and whatever
has been compiled is screened, in whatever order it arrives: first at the anchors, which the strategy learns from. The
next batch is proposed while the one before is still under way, from the results of all batches before that: what a
strategy sees never depends on which module was compiled first, so that the same times give the same decisions. While
compilers leave the device nothing to do at the anchors, it goes on with the other problems of a small space.

A candidate whose registers spill where others of its implementation have none is put off, and screened only if none of
them works.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np

from pretuned.compile.result import Binary
from pretuned.spec import space
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.events import Compiling
from pretuned.tune.search import Exhaustive
from pretuned.tune.space import pruning
from pretuned.tune.task import TuningTask

CHUNK: Final = 32  # candidates that are screened before compilers and deadline are looked at again, at most
CHUNK_US: Final = 300_000.0  # the same, in the time that so many calls of the default take
CALLS: Final = 10  # of a candidate that is screened
SHORT_S: Final = 0.05
CARRIED: Final = 24  # candidates that are screened at a problem which is no anchor
HURRIED: Final = 6  # the same, where the budget is spent
FEW: Final = 4  # problems that are all anchors
NEAREST: Final = 0.25  # squared distance, in octaves, that counts as none: it keeps weights finite

BESTS: Final = 2  # of every other problem, that are tried whatever is expected of them

C = TypeVar("C")
Times = Mapping[C, float]  # microseconds; math.inf for a failure


class Screening:
    """Screens the candidates of `contest` until its strategy has no more to ask, or the deadline passes.

    `incumbents` are tried first, as the spec's own seeds are. `whole` tells, once it has run, whether there was time
    for all that the strategy asked.
    """

    def __init__(
        self,
        contest: TuningTask,
        problems: Sequence[Problem],
        incumbents: Mapping[Problem, Configuration] | None = None,
    ) -> None:
        self.contest = contest
        self.incumbents = incumbents or {}
        self.problems = list(problems)
        self.anchors = anchors(problems)
        self.whole = False
        self._rows = {problem: np.flatnonzero(contest.legal[problem]) for problem in self.problems}
        self._strategies = {
            anchor: contest.tuner.strategy(len(self._rows[anchor]), self._seeds(anchor)) for anchor in self.anchors
        }
        small = all(isinstance(strategy, Exhaustive) for strategy in self._strategies.values())
        self._others = [problem for problem in self.problems if problem not in self.anchors] if small else []
        self._ahead: dict[Problem, list[Configuration]] = {problem: [] for problem in (*self.anchors, *self._others)}
        self._batches: list[list[Configuration]] = []
        self._put_off: list[Configuration] = []
        self._recalled: set[Configuration] = set()
        self._left_out: set[Configuration] = set()
        self._exhausted: set[Problem] = set()  # anchors whose strategies have no more to ask

    def run(self) -> None:
        """Screen at the anchors, and in the time that compilers leave at other problems."""
        library = self.contest.tuner.library
        self.contest.request([self.contest.default], first=True)
        while not self._late():
            self._propose()
            library.poll()
            work = self._ready(self.anchors)
            if work is None and self._open():
                work = self._ready(self._others)
            if work is not None:
                self.contest.screen(*work)
            elif self._open():
                library.poll(wait_s=self._left_s())
            elif not self._recall():
                self.whole = True
                return

    def carry(self, problem: Problem) -> tuple[list[Configuration], bool]:
        """Screen at `problem` who did well at the anchors, the incumbent and the default.

        Returns who is to be considered there, and whether there was time for all of them. That depends on nothing but
        the times at the anchors: what else is known of the problem depends on how fast modules were compiled.
        """
        contest, late = self.contest, self._late()
        if problem in self.anchors and self.whole:
            return list(contest.times[problem]), True
        measured = {anchor: contest.times[anchor] for anchor in self.anchors}
        count = HURRIED if late else CARRIED
        best = promising(measured, problem, count, lambda c: self._legal(c, problem))
        first = [contest.default, *([self.incumbents[problem]] if self._holds(problem) else [])]
        chosen = list(dict.fromkeys([*first, *best]))
        unknown = [c for c in chosen if c not in contest.times[problem] and not contest.known(c, problem)]
        if unknown:
            contest.screen(problem, unknown)
        return chosen if self.whole else list(contest.times[problem]), self.whole and not late

    def _holds(self, problem: Problem) -> bool:
        """Whether `problem` has an incumbent that may still be tried."""
        incumbent = self.incumbents.get(problem)
        return incumbent is not None and incumbent in self.contest.points and self._legal(incumbent, problem)

    def _late(self) -> bool:
        first = self.anchors[0]
        begun = self.contest.default in self.contest.times[first] or first in self.contest.unfit
        return begun and self.contest.tuner.late()

    def _left_s(self) -> float | None:
        """Return how long to wait for compilers at most; the default is waited for as long as it takes."""
        left_s = self.contest.tuner.screening_left_s()
        begun = self.contest.default in self.contest.times[self.anchors[0]]
        return None if left_s is None or not begun else max(left_s, SHORT_S)

    def _legal(self, configuration: Configuration, problem: Problem) -> bool:
        return bool(self.contest.legal[problem][self.contest.row(configuration)])

    def _seeds(self, anchor: Problem) -> list[int]:
        """Return incumbents and seeds that are legal at `anchor`, as places among the configurations that are."""
        place = {int(row): index for index, row in enumerate(self._rows[anchor])}
        contest = self.contest
        first = dict.fromkeys([*self.incumbents.values(), *space.seeds(contest.spec)])
        rows = [contest.row(seed) for seed in first if seed in contest.points]
        return [place[row] for row in rows if row in place]

    # Proposals.

    def _propose(self) -> None:
        """Ask for the next batch, once all batches but the last are through."""
        outstanding = self._outstanding()
        if any(not outstanding.isdisjoint(batch) for batch in self._batches[:-1]):
            return
        batch = self._next_batch(outstanding)
        if not batch:
            return
        self._batches.append(batch)
        for problem, ahead in self._ahead.items():
            ahead += [c for c in batch if self._legal(c, problem) and not self.contest.known(c, problem)]
        outstanding = self._outstanding()
        modules = self.contest.request([c for c in batch if c in outstanding])
        if modules:
            self.contest.tuner.listen(Compiling(kernel=self.contest.spec.name, modules=modules))

    def _next_batch(self, outstanding: set[Configuration]) -> list[Configuration]:
        """Return what the next anchor in turn asks for that asks for anything."""
        turn = len(self._batches)
        for offset in range(len(self.anchors)):
            anchor = self.anchors[(turn + offset) % len(self.anchors)]
            if anchor in self._exhausted:
                continue
            if batch := self._asked(anchor, outstanding):
                return batch
            self._exhausted.add(anchor)
        return []

    def _asked(self, anchor: Problem, outstanding: set[Configuration]) -> list[Configuration]:
        """Return what the strategy asks for at `anchor`; it takes those of the last batch for middling, so far."""
        contest, rows = self.contest, self._rows[anchor]
        last = set(self._batches[-1]) if outstanding else set()
        seen: dict[Configuration, float] = {c: t for c, t in contest.times[anchor].items() if c not in last}
        timed = [time_us for time_us in seen.values() if math.isfinite(time_us)]
        seen |= dict.fromkeys(contest.failed - last, math.inf)
        seen |= dict.fromkeys({*self._put_off, *self._left_out} - last, math.inf)
        seen |= dict.fromkeys(last, statistics.median(timed) if timed else 1.0)
        place = {int(row): index for index, row in enumerate(rows)} if seen else {}
        times = {place[row]: time_us for c, time_us in seen.items() if (row := contest.row(c)) in place}
        asked = self._strategies[anchor].propose(contest.points.codes[rows], times)
        return [contest.points[int(rows[index])] for index in asked]

    # Work.

    def _outstanding(self) -> set[Configuration]:
        """Return who is proposed and not yet timed at every anchor."""
        gone = self.contest.failed
        fit = [anchor for anchor in self.anchors if anchor not in self.contest.unfit]
        return {c for anchor in fit for c in self._ahead[anchor] if c not in gone and c not in self._put_off}

    def _open(self) -> bool:
        return bool(self._outstanding())

    def _ready(self, problems: Sequence[Problem]) -> tuple[Problem, list[Configuration]] | None:
        """Return a problem with some of what is to be done there, compiled; or None."""
        for problem in problems:
            if taken := self._take(problem):
                return problem, taken
        return None

    def _take(self, problem: Problem) -> list[Configuration]:
        """Take compiled candidates off what is to be done at `problem`: one, until the default's time is known."""
        contest = self.contest
        taken: list[Configuration] = []
        left: list[Configuration] = []
        default_us = contest.times[problem].get(contest.default)
        most = 1 if default_us is None else max(1, min(CHUNK, int(CHUNK_US / (CALLS * default_us))))
        for configuration in self._ahead[problem]:
            done = configuration in contest.times[problem] or configuration in contest.failed
            if done or configuration in self._put_off or problem in contest.unfit:
                continue
            if len(taken) == most or contest.compiled(configuration) is None:
                left.append(configuration)
            elif self._spills(configuration) and configuration not in {contest.default, *self._recalled}:
                self._put_off.append(configuration)
            else:
                taken.append(configuration)
        self._ahead[problem] = left
        return taken

    def _spills(self, configuration: Configuration) -> bool:
        compiled = self.contest.compiled(configuration)
        return isinstance(compiled, Binary) and pruning.spills(compiled)

    def _recall(self) -> bool:
        """Take back who was put off where none of its implementation works without; return whether anybody was."""
        contest, off = self.contest, self._put_off
        self._put_off = []
        times: Mapping[Configuration, float] = contest.times[self.anchors[0]]
        sound = {c.implementation for c, time_us in times.items() if math.isfinite(time_us) and not self._spills(c)}
        back = [c for c in off if c.implementation not in sound]
        self._recalled.update(back)
        self._left_out.update(c for c in off if c not in back)
        contest.tuner.effort.pruned["spills registers"] += len(off) - len(back)
        for problem, ahead in self._ahead.items():
            ahead += [c for c in back if self._legal(c, problem) and c not in contest.times[problem]]
        return any(self._ahead[anchor] for anchor in self.anchors)


def anchors(problems: Sequence[Problem]) -> list[Problem]:
    """Return some of `problems` that lie far from each other: the smallest, the largest, then the farthest from all.

    There are as many as the root of their number, or four where that is more.
    """
    wanted = max(FEW, math.isqrt(len(problems) - 1) + 1) if problems else 0
    if len(problems) <= wanted:
        return list(problems)
    chosen = [min(problems, key=_volume), max(problems, key=_volume)]
    while len(chosen) < wanted:
        chosen.append(max(problems, key=lambda problem: min(distance(problem, other) for other in chosen)))
    return chosen


def distance(one: Problem, other: Problem) -> float:
    """Return the squared distance of two problems of one specialisation, in octaves of their dims."""
    return sum((a - b) ** 2 for a, b in zip(_octaves(one), _octaves(other), strict=True))


def promising(
    measured: Mapping[Problem, Times[C]],
    problem: Problem,
    count: int,
    legal: Callable[[C], bool] = lambda _candidate: True,
) -> list[C]:
    """Return the `count` candidates that should do best at `problem`, the best first, then the best of each other one.

    A candidate's slowdown against the best at a problem is interpolated over the problems where it was timed, by the
    inverse of their squared distance: that favours who does well everywhere. Who is the best somewhere may be so here
    too, however bad elsewhere. Who failed anywhere, was timed nowhere, or is not `legal` is left out.
    """
    weighed: dict[C, tuple[float, float]] = {}
    failed = set()
    for other, times in measured.items():
        best = min(times.values(), default=math.inf)
        if math.isinf(best):
            continue
        weight = 1.0 / (distance(problem, other) + NEAREST)
        for candidate, time_us in times.items():
            if math.isinf(time_us):
                failed.add(candidate)
                continue
            total, weights = weighed.get(candidate, (0.0, 0.0))
            weighed[candidate] = total + weight * math.log(time_us / best), weights + weight
    able = {c: total / weights for c, (total, weights) in weighed.items() if c not in failed and legal(c)}
    expected = heapq.nsmallest(count, able, key=able.__getitem__)
    bests: list[C] = []
    for other in sorted(measured, key=lambda other: distance(problem, other)):
        times = measured[other]
        bests += heapq.nsmallest(BESTS, (c for c in times if c in able), key=times.__getitem__)
    return list(dict.fromkeys([*expected, *bests]))


def _octaves(problem: Problem) -> list[float]:
    return [math.log2(max(1, int(size))) for _, size in problem.dims]


def _volume(problem: Problem) -> float:
    return sum(_octaves(problem))
