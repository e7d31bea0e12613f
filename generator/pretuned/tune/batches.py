"""Which candidates a search asks for next: the batches that the strategies of its representatives propose.

What a strategy sees must not depend on how fast compilers are. So strategies are asked as if the last batch were still
under way. If none asks for anything, they are asked again with all that is known, once nothing is under way. Where
sources take seconds, they always see all that is known.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, islice
from typing import Final

import numpy as np
import numpy.typing as npt

from pretuned.spec import space
from pretuned.spec.space import Configuration, Problem
from pretuned.strategies import AwareOfWork, OrderAware, Promising, Strategy, StrategyFactory, ask
from pretuned.strategies.hybrid import Hybrid
from pretuned.tune.task import TuningTask

SUGGESTED: Final = 16  # configurations that won elsewhere, at most: half of what a search begins with


class Batches:
    """The batches for `task`: a strategy of `make` for each of `representatives`.

    `first` are tried first, as the spec's own seeds are and some of what won elsewhere, where they are legal. `asked`
    is what was asked for so far.
    """

    def __init__(
        self,
        task: TuningTask,
        representatives: Sequence[Problem],
        make: StrategyFactory,
        first: Collection[Configuration],
    ) -> None:
        self.task = task
        self.asked: list[list[Configuration]] = []
        self._ahead: list[Configuration] = []  # the first batch, where it was asked for before the search
        self._begins = (list(representatives), list(first))
        suggested = chain(*(task.suggested[problem] for problem in (*representatives, *task.problems)))
        self._first = list(
            dict.fromkeys([*first, *space.seeds(task.spec), *islice(dict.fromkeys(suggested), SUGGESTED)])
        )
        self._rows: dict[Problem, npt.NDArray[np.intp]] = {p: np.flatnonzero(task.legal[p]) for p in representatives}
        self._strategies: dict[Problem, Strategy] = {
            problem: make(len(rows), self._seeds(problem)) for problem, rows in self._rows.items()
        }
        self._counts = {problem: int(legal.sum()) for problem, legal in task.legal.items()}
        self._exhausted = False  # strategies have nothing more to ask
        self._fruitless = -1  # after so many batches, they had nothing to ask but what the last one decides

    def begin_from(self, representatives: Sequence[Problem], first: Collection[Configuration]) -> bool:
        """Whether no search has taken any, and they were made for these representatives and `first`."""
        return not self.asked and self._begins == (list(representatives), list(first))

    @property
    def complete(self) -> bool:
        """Whether every configuration is asked for."""
        return all(strategy.complete for strategy in self._strategies.values())

    @property
    def promise(self) -> float:
        """What strategies expected their last batches to gain, the mean over those that say so."""
        promises = [strategy.promise for strategy in self._strategies.values() if isinstance(strategy, Promising)]
        return statistics.fmean(promises) if promises else 0.0

    def wanted(self, problem: Problem, evaluations: int) -> int:
        """Return about how many candidates are tried at a problem; a search takes `evaluations`."""
        legal, strategy = self._counts[problem], self._strategies.get(problem)
        return legal if strategy is None or strategy.complete else min(legal, evaluations)

    def ahead(self) -> list[Configuration]:
        """Return the first batch before the search begins, which `next` will give then."""
        if not self.asked and not self._ahead:
            self._ahead = self._first_asked(set(), ())
        return self._ahead

    def next(
        self, outstanding: set[Configuration], unwanted: Collection[Configuration], *, slow: bool
    ) -> list[Configuration]:
        """Return the batch of the next representative whose strategy asks for anything.

        `outstanding` are the candidates without a time at every representative, `unwanted` those that count as failed.
        Where sources are `slow` to compile, strategies see all that is known.
        """
        if self._exhausted:
            return []
        batch: list[Configuration] = []
        if self._fruitless != len(self.asked):
            hidden = outstanding if slow else {*chain(*self.asked[-1:])}
            batch = self._ahead or self._first_asked(hidden, unwanted)
            self._ahead = []
        if not batch:
            self._fruitless = len(self.asked)
            if outstanding:
                return []
            batch = self._first_asked(set(), unwanted)
            self._exhausted = not batch
        self.asked += [batch] if batch else []
        return batch

    def begin_again(self, without: Collection[Configuration]) -> None:
        """Take back what was asked for, and search for what is promising in place of trying everything."""
        self.asked = [[c for c in batch if c not in without] for batch in self.asked]
        self._exhausted, self._fruitless = False, -1
        for problem, rows in self._rows.items():
            self._strategies[problem] = Hybrid(len(rows), self._seeds(problem), evaluations=len(rows))

    def _seeds(self, problem: Problem) -> list[int]:
        """Return what is to be tried first and legal at `problem`, as places among its legal configurations."""
        place = {int(row): index for index, row in enumerate(self._rows[problem])}
        rows = [self.task.index_of(seed) for seed in self._first if seed in self.task.points]
        return [place[row] for row in rows if row in place]

    def _first_asked(self, hidden: set[Configuration], unwanted: Collection[Configuration]) -> list[Configuration]:
        """Return what the first strategy asks for that asks for anything; representatives take turns to be first."""
        problems = list(self._rows)
        turn = len(self.asked) % len(problems)
        fit = [problem for problem in (*problems[turn:], *problems[:turn]) if problem not in self.task.unfit]
        return next((batch for problem in fit if (batch := self._asked(problem, hidden, unwanted))), [])

    def _asked(
        self, problem: Problem, hidden: set[Configuration], unwanted: Collection[Configuration]
    ) -> list[Configuration]:
        """Return what the strategy asks for at `problem`, where what is hidden counts as under way.

        It has the median time so far, for strategies that do not know of such rows.
        """
        task, rows = self.task, self._rows[problem]
        seen: dict[Configuration, float] = {c: t for c, t in task.times[problem].items() if c not in hidden}
        timed = [time_us for time_us in seen.values() if math.isfinite(time_us)]
        seen |= dict.fromkeys({*task.failed, *unwanted} - hidden, math.inf)
        seen |= dict.fromkeys(hidden, statistics.median(timed) if timed else 1.0)
        place = {int(row): index for index, row in enumerate(rows)} if seen else {}
        times: Mapping[int, float] = {
            place[row]: time_us for c, time_us in seen.items() if (row := task.index_of(c)) in place
        }
        strategy = self._strategies[problem]
        if isinstance(strategy, OrderAware):
            strategy.nominal = task.points.nominal
        if isinstance(strategy, AwareOfWork):
            strategy.under_way = {place[row] for c in hidden if (row := task.index_of(c)) in place}
        asked = ask(strategy, task.points.codes[rows], times)
        return [task.points[int(rows[index])] for index in asked]
