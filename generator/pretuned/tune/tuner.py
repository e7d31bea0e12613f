"""Tuning kernels on one device: from specs to the rows of their tables.

Theory of operation. Every kernel is one *contest* for each specialisation. Its candidates are screened at a few anchor
sizes while the compilers still work (`screening`), at every other size those that did well around it; then each row is
decided: the best of each set of guards race, the leaders meet the default in a long interleaved duel on fresh inputs,
are judged by it, checked at odd and boundary sizes, and tried beyond the outermost sizes (`decision`). While one
contest is measured, the modules of the next are compiled.

The tuner asks for its *turn* only once there is something to measure: whatever earlier builds have settled is handed
out before, and after a wait also what another one has settled meanwhile.

Every outcome, check and row goes into the cache the moment it is known, under a key of all that it depends on; the same
questions asked again, by a resumed or a second build, launch nothing. With a deadline, each contest gets a share of the
time by what it is expected to take, and of that a part for screening; whatever is known when it ends decides its rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pretuned.compile.pool import processors
from pretuned.measure.runner import Runner
from pretuned.record.cache import Cache
from pretuned.record.rows import Row, Skipped
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.decision import FRESH_SEED, Decision
from pretuned.tune.events import Decided, Effort, Listener, Measuring, OutOfBudget, Passed, Planned
from pretuned.tune.request import TuningDevice, TuningRequest
from pretuned.tune.screening import CARRIED, Screening, anchors
from pretuned.tune.search import EVALUATIONS, EXHAUSTIVE_LIMIT, Strategy, strategy_for
from pretuned.tune.task import TuningTask
from pretuned.tune.workbench import Watch

SCREENING_SHARE: Final = 0.7  # of a contest's time
COMPILE_S: Final = 0.3  # a module, on one core
SCREEN_S: Final = 0.0015  # a candidate at a problem
ROW_S: Final = 0.15  # races, duels and checks of a row
KERNEL_S: Final = 0.3  # inputs, references, the default


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one kernel at one specialisation takes: modules at most, candidates timed, seconds."""

    configurations: int
    modules: int
    screened: int
    seconds: float


def estimate(contest: TuningTask, rows: int, workers: int) -> Estimate:
    """Return what is ahead for `rows` rows of a contest."""
    count = len(contest.points)
    modules = count if count <= EXHAUSTIVE_LIMIT else EVALUATIONS
    searched = min(rows, len(anchors(contest.problems)))
    screened = modules * searched + CARRIED * (rows - searched)
    seconds = KERNEL_S + modules * COMPILE_S / workers + screened * SCREEN_S + rows * ROW_S
    return Estimate(configurations=count, modules=modules, screened=screened, seconds=seconds)


def share(estimates: Sequence[Estimate], left_s: float) -> float:
    """Return how many of the seconds that are left the first of `estimates` may take: by what each takes."""
    return left_s * estimates[0].seconds / sum(entry.seconds for entry in estimates)


@dataclass(slots=True, kw_only=True)
class _Task:
    """A contest with the problems that no earlier build has settled, and who holds their rows now."""

    contest: TuningTask
    problems: list[Problem]
    incumbents: Mapping[Problem, tuple[Configuration, ...]]

    @property
    def estimate(self) -> Estimate:
        """What its rows are expected to take."""
        return estimate(self.contest, len(self.problems), processors())


@dataclass(kw_only=True)
class Tuner:
    """Tunes kernels on one device. `deadline` is a time of `time.monotonic()`, or None for as long as it takes.

    `turn` has it get the device for itself, and is given what can be done while others have it.
    """

    runner: Runner
    target: TuningDevice
    library: BinaryStore
    cache: Cache
    effort: Effort
    listen: Listener
    watch: Watch = field(default_factory=Watch)
    deadline: float | None = None
    turn: Callable[[Callable[[], None]], None] = lambda _meanwhile: None
    strategy: Callable[[int, Sequence[int]], Strategy] = strategy_for
    _screen_until: float | None = None

    def tune(self, demands: Sequence[TuningRequest]) -> Iterator[Row | Skipped]:
        """Yield a row, or why there is none, for each problem that the deadline lets it reach."""
        begun_s = time.monotonic()
        tasks: list[_Task] = []
        for task in (task for demand in demands for task in self._tasks(demand)):
            yield from self._known(task)
            if task.problems:
                self.library.start()  # while the others are enumerated
                tasks.append(task)
        if not tasks:
            return
        asked_s = time.monotonic()
        self.turn(lambda: self._compile_ahead(tasks[0].contest))
        begun_s += time.monotonic() - asked_s
        for task in tasks:
            yield from self._known(task)
        tasks = [task for task in tasks if task.problems]
        if not tasks:
            return
        self._announce(tasks, begun_s)
        done, rows = 0, sum(len(task.problems) for task in tasks)
        for index, task in enumerate(tasks):
            if self._out_of_time():
                break
            self._share(tasks[index:])
            self.effort.kernel = task.contest.spec.name
            for found in self._settle(task, done, rows, tasks[index + 1 : index + 2]):
                done += 1
                yield found
        if done < rows:
            self.listen(OutOfBudget(rows=rows - done))

    def _tasks(self, demand: TuningRequest) -> Iterator[_Task]:
        for specialisation in dict.fromkeys(problem.specialisation for problem in demand.problems):
            problems = [problem for problem in demand.problems if problem.specialisation == specialisation]
            contest = TuningTask(self, demand.spec, specialisation, problems)
            yield _Task(contest=contest, problems=problems, incumbents=demand.incumbents)

    def _known(self, task: _Task) -> Iterator[Row]:
        """Yield the rows that an earlier build has settled, and take their problems off."""
        for problem in list(task.problems):
            if (row := task.contest.cached_row(problem)) is not None:
                task.problems.remove(problem)
                self.listen(Decided(row=row, cached=True))
                yield row

    def late(self) -> bool:
        """Return whether the time for screening the contest at hand is over."""
        left_s = self.screening_left_s()
        return left_s is not None and left_s <= 0

    def screening_left_s(self) -> float | None:
        """Return the seconds that are left for screening the contest at hand; None for as long as it takes."""
        return None if self._screen_until is None else self._screen_until - time.monotonic()

    def _out_of_time(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _announce(self, tasks: Sequence[_Task], begun_s: float) -> None:
        self.listen(
            Planned(
                kernels=len({task.contest.spec.name for task in tasks}),
                rows=sum(len(task.problems) for task in tasks),
                configurations=sum(task.estimate.configurations for task in tasks),
                modules=sum(task.estimate.modules for task in tasks),
                seconds=time.monotonic() - begun_s + sum(task.estimate.seconds for task in tasks),
                budget_s=None if self.deadline is None else self.deadline - begun_s,
            )
        )

    def _share(self, tasks: Sequence[_Task]) -> None:
        """Set until when the first of `tasks` may screen."""
        if self.deadline is not None:
            now = time.monotonic()
            mine_s = share([task.estimate for task in tasks], self.deadline - now)
            self._screen_until = now + SCREENING_SHARE * mine_s

    def _settle(self, task: _Task, done: int, rows: int, following: Sequence[_Task]) -> Iterator[Row | Skipped]:
        """Yield the rows of one contest."""
        contest = task.contest
        self.runner.start()  # while the first modules compile
        refusal = contest.refusal()
        for problem in task.problems:
            too_large = None if refusal else contest.prepare(problem, reference="none")
            if refusal or too_large:
                contest.unfit[problem] = refusal or (too_large.reason if too_large else "")
        fitting = [problem for problem in task.problems if problem not in contest.unfit]
        if fitting:
            yield from self._rows(task, fitting, done, rows, following)
        for problem, reason in contest.unfit.items():
            entry = Skipped(kernel=contest.spec.name, device=self.target.name, problem=problem, reason=reason)
            self.listen(Passed(entry=entry))
            yield entry

    def _rows(
        self, task: _Task, problems: Sequence[Problem], done: int, rows: int, following: Sequence[_Task]
    ) -> Iterator[Row]:
        contest, name = task.contest, task.contest.spec.name
        self.listen(Measuring(kernel=name, problem=problems[0], candidates=len(contest.points), done=done, rows=rows))
        winners = {problem: held[0] for problem, held in task.incumbents.items() if held}
        screening = Screening(contest, problems, winners)
        screening.run()
        for task_ahead in following:
            self._compile_ahead(task_ahead.contest)
        for index, problem in enumerate(problems):
            if self._out_of_time() and index:
                return
            considered, whole = screening.carry(problem)
            if problem in contest.unfit:
                continue
            if index + 1 < len(problems):  # its reference is made while this one is decided
                contest.prepare(problems[index + 1], FRESH_SEED, reference="soon")
            row = Decision(contest, problem, considered, task.incumbents.get(problem, ())).row()
            if row is None:
                continue
            if whole and not row.disturbed:
                contest.keep_row(row)
            if not whole:  # good enough to bake now; the next build goes on from what was measured
                row = replace(row, space="")
            self.listen(Decided(row=row, cached=False))
            yield row

    def _compile_ahead(self, contest: TuningTask) -> None:
        """Have the compilers go on with a contest whose candidates are all tried anyway."""
        if len(contest.points) <= EXHAUSTIVE_LIMIT:
            contest.request([contest.points[index] for index in range(len(contest.points))])
