"""A task that waits for its tuning: what is left of it to measure, what that is expected to take, and how it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pretuned.compile.pool import processors
from pretuned.record.selections import Selection
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.batches import Batches
from pretuned.tune.representatives import representatives
from pretuned.tune.screening import CARRIED
from pretuned.tune.task import TuningTask

# What the parts took on an H100 with 16 cores: enough to say whether a budget is near.
COMPILE_S: Final = 0.3  # per source, on one core
SCREEN_S: Final = 0.0015  # per candidate and problem
ROW_S: Final = 0.2  # per row: races, duels and checks
KERNEL_S: Final = 0.3  # per kernel: inputs, references, the default
SELECTION_S: Final = 0.06  # per problem at which what may ship races: what comes before and after that, included


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one task takes: sources at most, and seconds."""

    configurations: int
    sources: int
    seconds: float


@dataclass(slots=True, kw_only=True)
class PendingTask:
    """A task, the problems that no earlier build has settled, and the configurations of their rows so far.

    `selects`: no earlier build has made its selection; `shipped` is what that one ships, where one has. `held` is the
    selection that the lock has. `hasty`: its own was made before its share of the budget sufficed.
    """

    task: TuningTask
    problems: list[Problem]
    incumbents: Mapping[Problem, tuple[Configuration, ...]]
    calls: Mapping[Problem, int]
    selects: bool
    held: Selection | None
    shipped: tuple[Configuration, ...] = ()
    hasty: bool = False
    _batches: Batches | None = None

    @property
    def open(self) -> bool:
        """Whether anything is left to measure."""
        return bool(self.problems) or self.selects

    @property
    def estimate(self) -> Estimate:
        """What its rows are expected to take."""
        count, rows = len(self.task.points), len(self.problems)
        sources = count if self.tries_everything else min(count, self.task.workbench.device.profile.evaluations)
        searched = min(rows, len(representatives(self.task.problems, self.task.legal)))
        screened = sources * searched + CARRIED * (rows - searched)
        seconds = KERNEL_S + sources * COMPILE_S / processors() + screened * SCREEN_S + rows * ROW_S
        if self.selects:
            tried = self.task.workbench.device.profile.tried_problems * len(self.task.spec.free_dims)
            seconds += SELECTION_S * tried
        return Estimate(configurations=count, sources=sources, seconds=seconds)

    @property
    def fitting(self) -> list[Problem]:
        """The problems that fit into the device's memory, as far as is known by now."""
        return [problem for problem in self.task.problems if problem not in self.task.unfit]

    @property
    def batches(self) -> Batches | None:
        """The batches of its next search, the same ones while that begins from the same; None where no problem fits.

        In a space of millions, finding the first one takes seconds.
        """
        searched, first = representatives(self.fitting, self.task.legal), list(self.winners.values())
        if not searched:
            return None
        if self._batches is None or not self._batches.begin_from(searched, first):
            self._batches = Batches(self.task, searched, self.task.workbench.strategy, first)
        return self._batches

    @property
    def winners(self) -> Mapping[Problem, Configuration]:
        """The configurations that ship now, by problem."""
        return {problem: held[0] for problem, held in self.incumbents.items() if held}

    @property
    def tries_everything(self) -> bool:
        """Whether the strategy will ask for all configurations."""
        return self.task.workbench.strategy(len(self.task.points)).complete
