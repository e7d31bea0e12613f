"""Tuning one kernel on one device: from a spec to the rows of its table.

Theory of operation. For each problem: screen what the strategy proposes (every candidate is verified before it is
timed), race the best of each set of guards, let the leaders meet the default in a long interleaved duel, verify whoever
beat it with fresh inputs and at odd and boundary sizes, and see whether it also wins beyond the outermost sizes. Every
outcome, check and row goes into the cache the moment it is known, under a key of all that it depends on; the same
questions asked again, by a resumed or a second build, launch nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pretuned.measure.runner import Runner
from pretuned.record.cache import Cache
from pretuned.record.rows import Row, Skipped
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.tune.contest import Contest
from pretuned.tune.decision import Decision
from pretuned.tune.library import Library
from pretuned.tune.progress import Decided, Effort, Listener, Measuring, OutOfBudget, Passed
from pretuned.tune.search import Strategy, strategy_for
from pretuned.tune.target import Target


@dataclass(frozen=True, kw_only=True)
class Tuner:
    """Tunes kernels on one device. `deadline` is a time of `time.monotonic()`, or None for as long as it takes."""

    runner: Runner
    target: Target
    library: Library
    cache: Cache
    effort: Effort
    listen: Listener
    deadline: float | None = None
    strategy: Callable[[int], Strategy] = strategy_for

    def tune(
        self, spec: KernelSpec, problems: Sequence[Problem], incumbents: Mapping[Problem, Configuration]
    ) -> list[Row | Skipped]:
        """Return a row, or why there is none, for each of `problems` that the deadline lets it reach."""
        found: list[Row | Skipped] = []
        by_specialisation: dict[Pairs, list[Problem]] = {}
        for problem in problems:
            by_specialisation.setdefault(problem.specialisation, []).append(problem)
        for specialisation, group in by_specialisation.items():
            contest = Contest(self, spec, specialisation, group)
            for problem in group:
                cached = contest.cached_row(problem)
                if cached is not None:
                    self.listen(Decided(row=cached, cached=True))
                    found.append(cached)
                elif not self.late():
                    self.runner.start()  # while the first modules compile
                    self._announce(contest, problem, len(found), len(problems))
                    found.append(self._settle(contest, problem, incumbents.get(problem)))
        if len(found) < len(problems):
            self.listen(OutOfBudget(rows=len(problems) - len(found)))
        return found

    def late(self) -> bool:
        """Return whether the budget is spent."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def _announce(self, contest: Contest, problem: Problem, done: int, rows: int) -> None:
        count = len(contest.legal[problem])
        self.listen(Measuring(kernel=contest.spec.name, problem=problem, candidates=count, done=done, rows=rows))

    def _settle(self, contest: Contest, problem: Problem, incumbent: Configuration | None) -> Row | Skipped:
        """Return the row of `problem`, or why it has none."""
        reason = contest.refusal()
        if reason is None and (too_large := contest.prepare(problem)) is not None:
            reason = too_large.reason
        if reason is not None:
            entry = Skipped(kernel=contest.spec.name, device=self.target.name, problem=problem, reason=reason)
            self.listen(Passed(entry=entry))
            return entry
        outcomes, whole = contest.screen(problem)
        row = Decision(contest, problem, outcomes, incumbent).row()
        if whole:
            contest.keep_row(row)
        else:  # good enough to bake now; the next build goes on from what was measured
            row = replace(row, space="")
        self.listen(Decided(row=row, cached=False))
        return row
