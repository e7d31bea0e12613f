"""What a build has settled of a tuning task, for the builds after it: its rows, and its selection.

Both are remembered under all that they were chosen from. A build that would choose from the same takes what is there,
and measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from pretuned.record.rows import Row
from pretuned.record.selections import Selection
from pretuned.spec.space import Problem
from pretuned.strategies import AUTO
from pretuned.tune.task import TuningTask

KEYED: Final = 450  # candidates whose texts a settled row is remembered under


def cached_row(task: TuningTask, problem: Problem) -> Row | None:
    """Return the row that an earlier build settled from the same candidates."""
    return task.results.row(problem, chosen_from(task, problem))


def keep_row(task: TuningTask, row: Row) -> None:
    """Keep a settled row."""
    task.results.keep_row(row, chosen_from(task, row.problem))


def cached_selection(task: TuningTask, calls: Mapping[Problem, int]) -> Selection | None:
    """Return the selection that an earlier build made from the same candidates, problems and calls."""
    return task.results.selection(_selected_from(task, calls))


def keep_selection(task: TuningTask, calls: Mapping[Problem, int], selection: Selection) -> None:
    """Keep a selection that was made with time for all of it."""
    task.results.keep_selection(selection, _selected_from(task, calls))


def chosen_from(task: TuningTask, problem: Problem) -> list[object]:
    """Return what decides the row of `problem`: of a large space, a part of its candidates stands for all.

    A strategy that was asked for by its name is a part of that: its rows are not those of the default strategy. So is
    an effort.
    """
    legal = np.flatnonzero(task.legal[problem])
    spread = legal[:: max(1, len(legal) // KEYED)]
    keys = sorted(task.sources.candidate(task.points[int(index)]).key for index in spread)
    strategy = task.workbench.demands.strategy.name
    asked = [] if strategy == AUTO else [strategy]
    shipped = task.workbench.demands.max_configurations
    if effort := task.workbench.device.unusual_effort:
        asked.append(f"effort {effort}")
    return [keys, len(legal), task.sources.candidate(task.default_at(problem)).key, task.space, shipped, *asked]


def _selected_from(task: TuningTask, calls: Mapping[Problem, int]) -> list[object]:
    """Return what decides a selection: what decides the rows, and what is asked of it."""
    demands = task.workbench.demands
    asked = [demands.max_configurations, demands.max_loss, demands.certify, demands.seed]
    called = sorted((list(problem.dims), count) for problem, count in calls.items())
    return [list(task.specialisation), [chosen_from(task, problem) for problem in task.problems], asked, called]
