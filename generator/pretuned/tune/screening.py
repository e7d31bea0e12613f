"""The pipeline that finds out what candidates take: proposals, compilers and the device at work together.

Theory of operation. A strategy proposes candidates in batches. Their sources go to the compilers at once, and binaries
are screened in the order in which they arrive, first at the representative problems, from which the strategy learns.
The next batch is proposed while the one before is still under way, from the results of all batches before that
(`batches`). So the same times give the same decisions, unless sources take seconds. While the device waits for
compilers, it goes on with the other problems, if the strategy asks for every configuration anyway.

A search knows its prices: the seconds that sources take a compiler, and candidates the device. Once it has taken the
seconds that an effort leaves free, it goes on as long as more of it is worth its price (`prospects`). Where every
configuration of a space was asked for at once and turns out to cost more than that, what no compiler has begun with is
taken back, and asked for in the order of its promise.

A candidate with register spills is put off if others of its implementation have none. It is screened only if none of
them works.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from pretuned.compile.result import Binary
from pretuned.spec.space import Configuration, Problem
from pretuned.strategies import AUTO, BATCH
from pretuned.tune.batches import Batches
from pretuned.tune.events import CandidatesScreened, Compiling
from pretuned.tune.prospects import Prices, Prospects, Searched, worth_s
from pretuned.tune.representatives import representatives
from pretuned.tune.request import THOROUGH
from pretuned.tune.space import pruning
from pretuned.tune.task import TuningTask

CHUNK: Final = 32  # candidates, at most, that are screened before compilers and clock are looked at again
CHUNK_US: Final = 300_000.0  # the same, in the time that so many candidates as slow as the default take
CALLS: Final = 10  # of a candidate that is screened
SHORT_S: Final = 0.05  # of waiting for compilers, at least
CARRIED: Final = 24  # candidates that are screened at a problem that is not a representative, at least
REPEATS: Final = 100.0  # of the calls of a usage file, that a tuning is for
SLOW_S: Final = 1.0  # of compiling a source: beyond, what a batch waits for counts more than in which order it ends
FILLED: Final = 0.75  # of the compilers, below which the next batch is asked for
HURRIED: Final = 6  # the same, when the budget is spent


class Screening:
    """Screens the candidates of `task` until its strategy has nothing more to ask, or until its time is over.

    `incumbents` are tried first, as the spec's own seeds are; `calls` says how often problems are called. `batches` are
    those of the search, where they were made before. After `run`, `whole` says whether there was time for all that the
    strategy asked, and that was worth its price.
    """

    def __init__(
        self,
        task: TuningTask,
        problems: Sequence[Problem],
        incumbents: Mapping[Problem, Configuration] | None = None,
        calls: Mapping[Problem, int] | None = None,
        batches: Batches | None = None,
    ) -> None:
        self.task = task
        self._called = sum((calls or {}).values())
        self._workbench = task.workbench
        self.incumbents = incumbents or {}
        self.problems = list(problems)
        self.representatives = representatives(problems, task.legal)
        self.whole = False
        self._batches = batches or Batches(
            task, self.representatives, self._workbench.strategy, self.incumbents.values()
        )
        self._prospects = Prospects()
        self._stopped = False  # more is not worth its price
        self._measured, self._measured_s = 0, 0.0
        self._begun: set[Problem] = set()  # problems where something was screened
        self._begun_s = self._workbench.clock.spent_s
        everything = self._batches.complete
        self._others = [one for one in self.problems if one not in self.representatives] if everything else []
        self._ahead: dict[Problem, list[Configuration]] = {
            problem: [] for problem in (*self.representatives, *self._others)
        }
        self._put_off: list[Configuration] = []
        self._recalled: set[Configuration] = set()
        self._left_out: set[Configuration] = set()

    def run(self) -> None:
        """Screen at the representatives, and at other problems while the device would wait for compilers."""
        binaries = self._workbench.binaries
        self.task.sources.request(self.task.defaults, first=True)
        while not self._late():
            asked = self._propose()
            binaries.poll()
            self._reconsider()
            work = self._ready(self.representatives)
            if work is None and self._open():
                work = self._ready(self._others)
            if work is not None:
                self._screen_timed(*work)
                self._report(work[0])
            elif self._open():
                binaries.poll(wait_s=self._left_s())
            elif not asked and not self._recall():  # of a batch that was asked for, all may be known already
                self.whole = True
                break
        self._note_search()

    def _report(self, problem: Problem) -> None:
        task, times = self.task, self.task.times[problem]
        evaluations = self._workbench.device.profile.evaluations
        best = min(times, key=lambda c: times[c], default=None)
        best_us = math.inf if best is None else times[best]
        self._workbench.listen(
            CandidatesScreened(
                kernel=task.spec.name,
                problem=problem,
                problems=len(self._ahead),
                seen=len(times),
                wanted=self._batches.wanted(problem, evaluations),
                best=best if math.isfinite(best_us) else None,
                best_us=best_us,
                default_us=times.get(task.default_at(problem)),
            )
        )

    def carry(self, problem: Problem, shipped: Sequence[Configuration] = ()) -> tuple[list[Configuration], bool]:
        """Screen the default, the incumbent, and the candidates that did well at the representatives, at `problem`.

        Where it is known what ships, only that is screened, and considered.

        Returns the candidates to consider there, and whether there was time for all of them. They depend only on their
        times and on those at the representatives: what else is known of the problem depends on how fast the compilers
        were.
        """
        task, late = self.task, self._late()
        if shipped:
            chosen = [c for c in shipped if task.is_legal(c, problem)]
            self._screen(problem, chosen)
            return chosen, self.whole
        if problem in self.representatives and self.whole:
            return list(task.times[problem]), True
        best = task.promising(problem, self.representatives, HURRIED if late else CARRIED)
        first = [task.default_at(problem), *([self.incumbents[problem]] if self._holds(problem) else [])]
        chosen = list(dict.fromkeys([*first, *best]))
        self._screen(problem, chosen)
        return chosen if self.whole else list(task.times[problem]), self.whole and not late

    def _screen(self, problem: Problem, chosen: Sequence[Configuration]) -> None:
        """Screen those of `chosen` that are not timed at `problem` yet."""
        task = self.task
        unknown = [c for c in chosen if c not in task.times[problem] and not task.known(c, problem)]
        if unknown:
            task.sources.request(unknown)
            task.screen(problem, unknown)

    def _holds(self, problem: Problem) -> bool:
        """Whether `problem` has an incumbent that may still be tried."""
        incumbent = self.incumbents.get(problem)
        return incumbent is not None and incumbent in self.task.points and self.task.is_legal(incumbent, problem)

    def _late(self) -> bool:
        first = self.representatives[0]
        begun = self.task.default_at(first) in self.task.times[first] or first in self.task.unfit
        return begun and self._workbench.clock.late

    def _left_s(self) -> float | None:
        """Return how long to wait for compilers at most; None, as long as it takes, for the default."""
        left_s = self._workbench.clock.screening_left_s
        first = self.representatives[0]
        begun = self.task.default_at(first) in self.task.times[first]
        return None if left_s is None or not begun else max(left_s, SHORT_S)

    # Proposals.

    def _propose(self) -> bool:
        """Ask for the next batch, once all batches but the last are through; return whether there was one.

        Where sources take seconds, compilers never wait for one that takes longest: the next batch is asked for while
        they still have work, from all that is known. The first two are asked for at once everywhere: a search that
        learns from fewer candidates is led astray by them.
        """
        outstanding = self._outstanding()
        if self._is_slow_to_compile and len(self._batches.asked) > 1:
            if len(outstanding) > FILLED * self._workbench.binaries.workers:
                return False
        elif any(not outstanding.isdisjoint(batch) for batch in self._batches.asked[:-1]):
            return False
        if self._batches.asked and not self._is_worth_more():
            return False
        unwanted = {*self._put_off, *self._left_out}
        batch = self._batches.next(outstanding, unwanted, slow=self._is_slow_to_compile)
        if not batch:
            return False
        for problem, ahead in self._ahead.items():
            ahead += [c for c in batch if self.task.is_legal(c, problem) and not self.task.known(c, problem)]
        outstanding = self._outstanding()
        sources = self.task.sources.request([c for c in batch if c in outstanding])
        if sources:
            self._workbench.listen(Compiling(kernel=self.task.spec.name, sources=sources))
        return True

    # Prices.

    @property
    def _is_slow_to_compile(self) -> bool:
        return self._prices.compile_s >= SLOW_S

    def _screen_timed(self, problem: Problem, chosen: list[Configuration]) -> None:
        """Screen candidates, and note the seconds that one takes.

        The first at a problem pay for its inputs, its reference and the start of processes, which others do not.
        """
        begun_s = self._workbench.clock.spent_s
        self.task.screen(problem, chosen)
        took_s = self._workbench.clock.spent_s - begun_s
        if problem not in self._begun:
            self._begun.add(problem)
            self._begun_s += took_s
            return
        self._measured += len(chosen)
        self._measured_s += took_s

    @property
    def _prices(self) -> Prices:
        """What a candidate takes at all representatives, as far as is known."""
        binaries, source = self._workbench.binaries, self.task.sources.candidate(self.task.defaults[0]).source
        compile_s = None if source is None else binaries.compile_s(source)
        measure_s = len(self.representatives) * self._measured_s / max(1, self._measured)
        return Prices(compile_s=compile_s or 0.0, workers=binaries.workers, measure_s=measure_s)

    def _observe(self) -> float:
        """Take in what is known; return the mean of the best times in microseconds, 0 before each problem has one."""
        fit = [problem for problem in self.representatives if problem not in self.task.unfit]
        times = [self.task.times[problem].values() for problem in fit]
        self._prospects = Prospects.of(times, self._batches.promise)
        bests = [best for known in times if math.isfinite(best := min(known, default=math.inf))]
        return statistics.fmean(bests) if bests and len(bests) == len(times) else 0.0

    def _is_worth_more(self) -> bool:
        """Whether another batch is worth its price; once it is not, nothing more is asked."""
        best_us, profile = self._observe(), self._workbench.device.profile
        spent_s = self._workbench.clock.spent_s - self._begun_s
        if self._stopped or self._batches.complete or not best_us or spent_s <= profile.searching_s:
            return not self._stopped
        worth = worth_s(profile.worth_s, self._called * best_us / 1e6, REPEATS)
        self._stopped = self._prospects.expected(BATCH) * worth < self._prices.of(BATCH)
        return not self._stopped

    def _reconsider(self) -> None:
        """Take back what was asked for at once, where all of it is beyond the free seconds; promise decides then."""
        if not self._batches.complete or self._workbench.demands.strategy.name != AUTO or self._recalled:
            return
        waiting, free_s = self._outstanding(), self._workbench.device.profile.searching_s
        spent_s = self._workbench.clock.spent_s - self._begun_s
        if spent_s + self._prices.of(len(waiting)) <= free_s:
            return
        kept, sources = set(self.task.defaults) | set(self.incumbents.values()), self.task.sources
        gone = set(sources.withdraw([c for c in waiting if c not in kept and sources.compiled(c) is None]))
        sources.request([c for c in waiting if c not in gone])  # some may share a source with what was taken back
        for problem, ahead in self._ahead.items():
            self._ahead[problem] = [c for c in ahead if c not in gone]
        self._others = []
        self._batches.begin_again(gone)

    def _note_search(self) -> None:
        """Note what was tried, and what trying more is expected to gain."""
        self._observe()
        task, tried = self.task, self._prospects.tried
        count = max((int(task.legal[problem].sum()) for problem in self.problems), default=0)
        most = count if count <= THOROUGH.exhaustive else THOROUGH.evaluations
        further = max(0, most - tried) if tried and self.whole else 0
        self._workbench.spending.searched.append(
            Searched(
                kernel=task.spec.name,
                specialisation=task.specialisation,
                tried=tried,
                of=count,
                further=further,
                gain=self._prospects.expected(further),
                seconds=self._prices.of(further),
            )
        )

    # Work.

    def _outstanding(self) -> set[Configuration]:
        """Return the candidates that are proposed, and not yet timed at every representative."""
        gone = self.task.failed
        fit = [problem for problem in self.representatives if problem not in self.task.unfit]
        return {c for problem in fit for c in self._ahead[problem] if c not in gone and c not in self._put_off}

    def _open(self) -> bool:
        return bool(self._outstanding())

    def _ready(self, problems: Sequence[Problem]) -> tuple[Problem, list[Configuration]] | None:
        """Return a problem with some compiled candidates that are to be screened there, or None."""
        for problem in problems:
            if taken := self._take(problem):
                return problem, taken
        return None

    def _take(self, problem: Problem) -> list[Configuration]:
        """Take compiled candidates that are to be screened at `problem`: one, until the default's time is known."""
        task = self.task
        taken: list[Configuration] = []
        left: list[Configuration] = []
        default_us = task.times[problem].get(task.default_at(problem))
        most = 1 if default_us is None else max(1, min(CHUNK, int(CHUNK_US / (CALLS * default_us))))
        for place, configuration in enumerate(self._ahead[problem]):
            if len(taken) == most:  # the others are looked at when their turn comes
                left += self._ahead[problem][place:]
                break
            done = configuration in task.times[problem] or configuration in task.failed
            if done or configuration in self._put_off or problem in task.unfit:
                continue
            if task.sources.compiled(configuration) is None:
                left.append(configuration)
            elif self._spills(configuration) and configuration not in {*task.defaults, *self._recalled}:
                self._put_off.append(configuration)
            else:
                taken.append(configuration)
        self._ahead[problem] = left
        return taken

    def _spills(self, configuration: Configuration) -> bool:
        compiled = self.task.sources.compiled(configuration)
        return isinstance(compiled, Binary) and pruning.spills(compiled)

    def _recall(self) -> bool:
        """Take back candidates that were put off, if no other of their implementation works; return whether any was."""
        task, off = self.task, self._put_off
        self._put_off = []
        times: Mapping[Configuration, float] = task.times[self.representatives[0]]
        sound = {c.implementation for c, time_us in times.items() if math.isfinite(time_us) and not self._spills(c)}
        back = [c for c in off if c.implementation not in sound]
        self._recalled.update(back)
        self._left_out.update(c for c in off if c not in back)
        task.workbench.spending.pruned["spills registers"] += len(off) - len(back)
        for problem, ahead in self._ahead.items():
            ahead += [c for c in back if self.task.is_legal(c, problem) and c not in task.times[problem]]
        return any(self._ahead[problem] for problem in self.representatives)
