"""Tuning kernels on one device: from requests to the rows of their tables.

Theory of operation. Each kernel is one *tuning task* per specialisation. Its candidates are screened at a few
representative sizes while the compilers still work (`screening`). Then they are measured between the spec's sizes and
around them, and the few that ship are chosen (`selecting`). Among those each row is decided (`decision`): the best of
each set of guards race; the leaders meet the default in a long interleaved duel on fresh inputs, are judged by it, and
verified at odd and boundary sizes. At last it is found out what the selection loses (`certification`). While one task
is measured, the sources of the next are compiled.

The tuner takes the device only when there is something to measure. Rows that earlier builds have settled are handed out
before, and after a wait for the device also those that another build has settled meanwhile.

Every outcome, check and row goes into the cache the moment it is known, under a key of everything that it depends on. A
resumed or second build that asks the same questions launches nothing. With a budget, each task gets a share of the time
by what it is expected to take, and part of that for screening; what is known when it ends decides its rows. What other
tasks leave of their shares goes to the selections that theirs did not suffice for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pretuned.errors import Error, SpecError
from pretuned.measure.launch import launches
from pretuned.measure.runner import TuningError
from pretuned.outcome import LaunchFailed
from pretuned.record.rows import Row, Skipped
from pretuned.record.selections import Selection
from pretuned.render import located
from pretuned.runtime.limits import CLUSTERS_FROM
from pretuned.spec import space
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.certification import Certification
from pretuned.tune.decision import FRESH_SEED, RowDecision
from pretuned.tune.events import Certified, Decided, Measuring, OutOfBudget, Passed, Planned
from pretuned.tune.pending import PendingTask
from pretuned.tune.request import TuningRequest
from pretuned.tune.screening import Screening
from pretuned.tune.selecting import SelectionMaker
from pretuned.tune.settled import cached_row, cached_selection, keep_row, keep_selection
from pretuned.tune.task import TuningTask
from pretuned.tune.workbench import Workbench

Found = Row | Skipped | Selection


class Tuner:
    """Tunes kernels on the device of `workbench`."""

    def __init__(self, workbench: Workbench) -> None:
        self.workbench = workbench
        self._wrong: dict[str, Error] = {}  # by kernel: why it cannot be tuned

    def tune(self, requests: Sequence[TuningRequest]) -> Iterator[Found]:
        """Yield a row, or why there is none, for each problem that the budget lets it reach.

        Raises TuningError at the end where a kernel cannot be tuned; the others have been.
        """
        yield from self._tune(requests)
        if self._wrong:
            raise TuningError("\n".join(map(str, self._wrong.values())))

    def _tune(self, requests: Sequence[TuningRequest]) -> Iterator[Found]:
        workbench = self.workbench
        pending: list[PendingTask] = []
        for one in (one for request in requests for one in self._planned(request)):
            yield from self._known(one)
            if one.open:
                workbench.binaries.start()  # while the others are enumerated
                pending.append(one)
        if not pending:
            return
        workbench.take_device(lambda: self._compile_ahead(pending[0]))
        for one in pending:
            yield from self._known(one)
        pending = [one for one in pending if one.open]
        if not pending:
            return
        self._announce(pending)
        yield from self._measured(pending)
        hasty = [one for one in pending if one.hasty]
        for one in hasty:
            one.problems = []  # their rows are decided
        yield from self._measured(hasty)  # with what others left of their shares

    def _measured(self, pending: Sequence[PendingTask]) -> Iterator[Found]:
        """Yield the rows of tasks that no earlier build has settled."""
        workbench = self.workbench
        done, rows = 0, sum(len(one.problems) for one in pending)
        for index, one in enumerate(pending):
            if workbench.clock.over:
                break
            if one.task.spec.name in self._wrong:
                continue
            seconds = [other.estimate.seconds for other in pending[index:]]
            workbench.clock.begin_screening(seconds[0] / sum(seconds))
            workbench.spending.kernel = one.task.spec.name
            try:
                for found in self._settle(one, done, rows, pending[index + 1 : index + 2]):
                    done += not isinstance(found, Selection)
                    yield found
            except TuningError as error:  # its author's: other kernels are no worse for it
                self._wrong[one.task.spec.name] = error
        if done < rows and workbench.clock.over:
            workbench.listen(OutOfBudget(rows=rows - done))

    def _planned(self, request: TuningRequest) -> Iterator[PendingTask]:
        """Yield a request's tasks; a space that is beyond counting ends its kernel only."""
        try:
            yield from self._tasks(request)
        except SpecError as error:
            self._wrong[request.spec.name] = error

    def _tasks(self, request: TuningRequest) -> Iterator[PendingTask]:
        held = {selection.specialisation: selection for selection in request.selections}
        asked = [problem.specialisation for problem in request.problems]
        renewed = held if self.workbench.demands.certify is not None else ()
        for specialisation in dict.fromkeys([*asked, *request.select, *renewed]):
            problems = [problem for problem in request.problems if problem.specialisation == specialisation]
            selects = self.workbench.device.profile.tried_problems > 0 and bool(request.spec.free_dims)
            others = space.problems(request.spec, specialisation) if selects else ()
            yield PendingTask(
                task=TuningTask(
                    self.workbench,
                    request.spec,
                    specialisation,
                    list(dict.fromkeys([*problems, *others])),
                    request.suggested,
                ),
                problems=problems,
                incumbents=request.incumbents,
                calls={p: n for p, n in request.calls.items() if p.specialisation == specialisation},
                selects=selects,
                held=held.get(specialisation),
            )

    def _known(self, pending: PendingTask) -> Iterator[Row | Selection]:
        """Yield the rows and the selection that an earlier build has settled; they are no longer pending."""
        for problem in list(pending.problems):
            if (row := cached_row(pending.task, problem)) is not None:
                pending.problems.remove(problem)
                self.workbench.listen(Decided(row=row, cached=True))
                yield row
        if self.workbench.demands.certify is not None:
            return
        if pending.selects and (found := cached_selection(pending.task, pending.calls)) is not None:
            pending.selects, pending.shipped = False, tuple(choice.configuration for choice in found.choices)
            if found.certificate is not None:
                self.workbench.listen(
                    Certified(
                        kernel=found.kernel,
                        specialisation=found.specialisation,
                        certificate=found.certificate,
                        cached=True,
                    )
                )
            yield found

    def _announce(self, pending: Sequence[PendingTask]) -> None:
        clock = self.workbench.clock
        estimates, spent_s = [one.estimate for one in pending], clock.spent_s
        self.workbench.listen(
            Planned(
                kernels=len({one.task.spec.name for one in pending}),
                rows=sum(len(one.problems) for one in pending),
                configurations=sum(estimate.configurations for estimate in estimates),
                sources=sum(estimate.sources for estimate in estimates),
                seconds=spent_s + sum(estimate.seconds for estimate in estimates),
                budget_s=clock.budget_s,
                spent_s=spent_s,
                device=self.workbench.device.name,
            )
        )

    def _settle(self, pending: PendingTask, done: int, rows: int, following: Sequence[PendingTask]) -> Iterator[Found]:
        """Yield the rows of one task."""
        task, workbench = pending.task, self.workbench
        workbench.runner.start()  # while the first sources compile
        refusal = _refusal(task)
        if workbench.demands.certify is not None:
            if pending.held is not None and not refusal:
                maker = SelectionMaker(task, task.problems, (), pending.calls)
                yield Certification(maker, workbench.demands.certify).renewed(pending.held)
            return
        if not refusal:
            self._compile_ahead(pending)  # while the default compiles, for which preparing waits
        passing = set()
        for problem in pending.problems:
            too_large = None if refusal else task.prepare(problem, reference="none")
            if refusal or too_large:
                task.unfit[problem] = refusal or (too_large.reason if too_large else "")
            if too_large and too_large.passing:
                passing.add(problem)
        fitting = [problem for problem in pending.problems if problem not in task.unfit]
        if fitting or (pending.selects and not refusal and pending.fitting):
            yield from self._rows(pending, fitting, done, rows, following)
        for problem in (problem for problem in pending.problems if problem in task.unfit):
            reason = task.unfit[problem]
            entry = Skipped(kernel=task.spec.name, device=workbench.device.name, problem=problem, reason=reason)
            workbench.listen(Passed(entry=entry))
            if problem not in passing:  # else the next tuning tries it again, and what the lock has of it stays
                yield entry

    def _rows(
        self, pending: PendingTask, problems: Sequence[Problem], done: int, rows: int, following: Sequence[PendingTask]
    ) -> Iterator[Row | Selection]:
        task, workbench = pending.task, self.workbench
        workbench.listen(
            Measuring(
                kernel=task.spec.name,
                problem=(problems or task.problems)[0],
                candidates=len(task.points),
                done=done,
                rows=rows,
                seconds=pending.estimate.seconds,
            )
        )
        screening = Screening(task, pending.fitting, pending.winners, pending.calls, pending.batches)
        screening.run()
        for ahead in following:
            self._compile_ahead(ahead)
        maker = SelectionMaker(task, task.problems, screening.representatives, pending.calls)
        if pending.selects:
            maker.choose(configuration for held in pending.incumbents.values() for configuration in held)
        yield from self._decided(pending, problems, screening, maker.chosen or pending.shipped)
        if maker.chosen and pending.fitting and not workbench.clock.over:
            yield self._selected(pending, maker)

    def _selected(self, pending: PendingTask, maker: SelectionMaker) -> Selection:
        """Return the certified selection of a task, and keep it if there was time for all of it."""
        count = self.workbench.device.profile.certified_problems
        selection = Certification(maker, count).certified(pending.held)
        pending.hasty, pending.held = not selection.space, selection
        if selection.space:
            keep_selection(pending.task, pending.calls, selection)
        return selection

    def _decided(
        self, pending: PendingTask, problems: Sequence[Problem], screening: Screening, shipped: Sequence[Configuration]
    ) -> Iterator[Row]:
        """Yield the rows of `problems`, decided among what ships, where that is known."""
        task, workbench = pending.task, self.workbench
        for index, problem in enumerate(problems):
            if workbench.clock.over and index:
                return
            task.report("deciding", problem, index, len(problems))
            considered, whole = screening.carry(problem, shipped)
            if problem in task.unfit:
                continue
            if index + 1 < len(problems):  # its reference is made while this one is decided
                task.prepare(problems[index + 1], FRESH_SEED, reference="soon")
            row = RowDecision(task, problem, considered, pending.incumbents.get(problem, ())).row()
            if row is None:
                continue
            pending.incumbents = {**pending.incumbents, problem: tuple(choice.configuration for choice in row.choices)}
            if whole and row.space and not row.noise:
                keep_row(task, row)
            if not whole:  # good enough to bake; the next build goes on from what was measured
                row = replace(row, space="")
            workbench.listen(Decided(row=row, cached=False))
            yield row

    def _compile_ahead(self, pending: PendingTask) -> None:
        """Request the binaries of what the search of a task tries first, which may be all of its candidates."""
        if (batches := pending.batches) is not None:
            pending.task.sources.request(pending.task.defaults, first=True)
            pending.task.sources.request(batches.ahead())


def _refusal(task: TuningTask) -> str | None:
    """Return why no candidate of a task can run on its device, or None."""
    for default in task.defaults:
        source = task.sources.candidate(default).source
        assert source is not None  # a default is never a library call
        if reason := task.workbench.device.backend.refusal(source):
            return located(task.spec, task.specialisation, default, reason)
    own = task.spec.all_implementations[task.spec.default_implementation]
    newer = own.tensor_maps or any(launch.cluster for launch in own.launches)  # what older devices lack
    tried = task.problems[:1] if newer and task.facts.compute_capability < CLUSTERS_FROM else []
    planned = [launches(task.spec, one, task.default_at(one), task.facts) for one in tried]
    return next((one.message for one in planned if isinstance(one, LaunchFailed)), None)
