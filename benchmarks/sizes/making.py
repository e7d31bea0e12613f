"""The making of selections, replayed over recordings: survey, rivals, trial and choice, with times that are looked up.

All is as in a tuning (`pretuned.tune.selecting`), except that problems are drawn from those recorded, that what is
recorded needs no verification, and that no time ends it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from pretuned.record.cache import Cache
from pretuned.record.rows import TunedDevice
from pretuned.record.selections import PredictedChoice, Selection
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.observation import Observations
from pretuned.tune.representatives import representatives
from pretuned.tune.request import GPU_PROFILE, TuningDevice
from pretuned.tune.selecting import SelectionMaker
from pretuned.tune.selection import ranking
from pretuned.tune.selection.spreading import OUTSIDE, POOL, alternating, spread
from pretuned.tune.spending import Spending
from pretuned.tune.task import TuningTask
from pretuned.tune.workbench import Workbench
from sizes.matrix import Matrix

KNOWN = 0.6  # of the recorded problems inside the sizes, at most, that are drawn; rules are judged at the others
OFFERED = 0.75  # of them, those to choose the drawn ones from


class _Sources:
    """What candidates are compiled from, where nothing is compiled."""

    def __init__(self, recorded: Matrix) -> None:
        self._resources = dict(zip(recorded.configurations, recorded.resources, strict=True))

    def request(self, _configurations, **_options):
        return 0

    def resources(self, configuration):
        return self._resources[configuration]

    def headers(self, _shipped):
        return ()


class _Task(TuningTask):
    """A task whose candidates are those of a recording."""

    def __init__(self, recorded: Matrix) -> None:
        record = TunedDevice(
            name=recorded.device,
            sm_count=recorded.facts.sm_count,
            compute_capability=recorded.facts.compute_capability,
            l2_bytes=recorded.facts.l2_bytes,
            shared_bytes=recorded.facts.shared_bytes,
            memory_bytes=80 << 30,
            memory_gbps=3352,
            power_w=700,
        )
        workbench = Workbench(
            runner=None,
            device=TuningDevice(record=record, driver="", effort=GPU_PROFILE),
            binaries=SimpleNamespace(compiler="", poll=lambda: None),
            cache=Cache(None),
            spending=Spending(),
            listen=lambda _event: None,
        )
        problems = [recorded.problems[at] for at in recorded.places("tuned")]
        super().__init__(workbench, recorded.spec, recorded.specialisation, problems)
        self.recorded = recorded
        self.sources = _Sources(recorded)
        self.proven = set(recorded.configurations)
        self.rows = {problem: at for at, problem in enumerate(recorded.problems)}
        self.columns = {configuration: at for at, configuration in enumerate(recorded.configurations)}
        self.representatives = representatives(problems, self.legal)
        for problem in self.representatives:
            self.times[problem] = self.screened(problem, recorded.configurations)

    def screened(self, problem: Problem, candidates: Sequence[Configuration]) -> dict[Configuration, float]:
        """Return what those of `candidates` took in the screening that could run; in the race, where all raced."""
        able = [c for c in dict.fromkeys(candidates) if self.launchable(c, problem)]
        screened = {c: float(self.recorded.screened[self.rows[problem], self.columns[c]]) for c in able}
        return {c: self.raced(c, problem) if math.isnan(us) else us for c, us in screened.items()}

    def raced(self, configuration: Configuration, problem: Problem) -> float:
        """Return what a configuration took, or would have taken, in a race; nan where it could not run."""
        column = self.columns.get(configuration)
        return math.nan if column is None else float(self.recorded.times[self.rows[problem], column])

    def launchable(self, configuration: Configuration, problem: Problem) -> bool:
        return not math.isnan(self.raced(configuration, problem))

    def promising(self, problem, measured, count):
        return [c for c in super().promising(problem, measured, count) if c in self.columns]


class _Observations(Observations):
    """Times that are looked up."""

    task: _Task

    def raced(self, problem, estimates_us, *, rounds=0):
        return {c: self.task.raced(c, problem) for c in estimates_us}

    def _screened(self, problem, candidates):
        self.task.times.setdefault(problem, {}).update(self.task.screened(problem, candidates))
        return True


class _Maker(SelectionMaker):
    """Draws its problems from those recorded."""

    late = hurried = False
    task: _Task

    def __init__(self, task: _Task, seed: int) -> None:
        super().__init__(task, task.problems, task.representatives, {})
        self.observed = _Observations(task)
        self._random = random.Random(seed)
        self._drawn: set[Problem] = set()

    def drawn(self, count, seed, beside):
        recorded = self.task.recorded
        inside, outside = (
            [problem for at in recorded.places(part) if (problem := recorded.problems[at]) not in self._drawn]
            for part in ("inside", "outside")
        )
        of_outside = min(count // OUTSIDE, len(outside) // 2)
        of_inside = min(count - of_outside, int(KNOWN * len(inside)))
        pool = self._random.sample(inside, min(POOL * of_inside, int(OFFERED * len(inside))))
        others = self._random.sample(outside, of_outside)[::-1]  # as in the result that is kept
        found = alternating(spread(pool, of_inside, beside), others)
        self._drawn.update(found)
        return found

    def _agrees(self):
        return True

    def _choice(self, configuration, cost):
        return PredictedChoice(configuration=configuration, candidate="", cubin="", cost=cost)


@dataclass(frozen=True, kw_only=True)
class Made:
    """A selection made over a recording, and the recorded problems that it was made from."""

    recorded: Matrix
    selection: Selection
    known: frozenset[Problem]

    def lost(self, part: str) -> list[tuple[float, float, float]]:
        """Return at each other problem of `part` what the rule loses, the best of what ships, and the default."""
        recorded = self.recorded
        columns = {configuration: at for at, configuration in enumerate(recorded.configurations)}
        shipped = [columns[choice.configuration] for choice in self.selection.choices]
        found = []
        for at in recorded.places(part):
            problem, times = recorded.problems[at], recorded.times[at]
            if problem in self.known:
                continue
            ranked = [columns[c] for c in ranking(self.selection, recorded.spec, problem, recorded.facts)]
            default = recorded.default_at(problem)
            pick = next((one for one in ranked if not np.isnan(times[one])), default)
            of_shipped = float(np.nanmin(times[shipped]))
            best = float(np.nanmin(times))
            found.append((times[pick] / best - 1, of_shipped / best - 1, times[default] / best - 1))
        return found


def made(recorded: Matrix, seed: int) -> Made:
    """Make a selection from recorded times; `seed` draws its problems."""
    maker = _Maker(_Task(recorded), seed)
    maker.choose()
    return Made(recorded=recorded, selection=maker.selection(), known=frozenset(maker.observed.times))
