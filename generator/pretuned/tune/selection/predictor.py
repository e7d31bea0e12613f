"""What configurations take at problems that were not measured, and what follows from that. Pure.

A `Predictor` knows one kernel, device and specialisation. Everything that it returns is a function of what was measured
alone: problems and configurations are sorted first, so that nothing depends on the order in which results arrived.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from pretuned.compile.result import Resources
from pretuned.record.selections import Cost
from pretuned.spec import space
from pretuned.spec.defaults import defaults
from pretuned.spec.guards import guards as guards_of
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, Problem
from pretuned.tune.selection import portfolio
from pretuned.tune.selection.fitting import FEMTOSECONDS, fit, prediction
from pretuned.tune.selection.launch_terms import terms_of
from pretuned.tune.selection.refining import RELUCTANCE, scales
from pretuned.tune.selection.sampling import REACH, draw
from pretuned.tune.selection.terms import ProblemTable, Reals, Term

SYNTHETIC: Final = 1500  # problems that configurations are chosen over
SYNTHETIC_SEED: Final = 0
TRUSTED: Final = 40  # measured problems that count as much as all synthetic ones
FOLDS: Final = 8
KEPT: Final = 8  # tables of problems
NOTHING: Final = slice(0, 0)
# Per mille. What predicts so badly that more would be needed shows at few problems, and a wider margin would give
# away what is gained at all others.
MARGINS: Final = (10, 15, 20, 30, 50)
FEW: Final = 8  # problems, below which a fit says nothing about its own errors
UNKNOWN: Final = (50, 100)  # the margins then

MeasuredTimes = Mapping[Problem, Mapping[Configuration, float]]


class Predictor:
    """Predicts times of a kernel's configurations.

    `resources` gives those of a configuration's entry points by name. `calls` are problems with the numbers of their
    calls, which weigh in what ships.
    """

    def __init__(
        self,
        spec: KernelSpec,
        specialisation: Pairs,
        facts: DeviceFacts,
        resources: Callable[[Configuration], Mapping[str, Resources]],
        *,
        calls: Mapping[Problem, int] | None = None,
    ) -> None:
        self.spec = spec
        self.specialisation = specialisation
        self.facts = facts
        self.calls = calls or {}
        self._resources = resources
        self._defaults = defaults(spec, specialisation)
        self._terms: dict[Configuration, tuple[Term, ...]] = {}
        self._tables: dict[tuple[Problem, ...], ProblemTable] = {}
        self._synthetic: tuple[Problem, ...] | None = None

    def costs(self, times: MeasuredTimes, configurations: Iterable[Configuration]) -> dict[Configuration, Cost]:
        """Return the costs of those of `configurations` that were timed anywhere, each fitted alone."""
        problems = tuple(sorted(times))
        return self._costs(problems, times, sorted(set(configurations)))

    def deciding(self, times: MeasuredTimes, chosen: Iterable[Configuration]) -> dict[Configuration, Cost]:
        """Return the costs of what ships, refined together so that the choice among them loses little."""
        problems, listed = tuple(sorted(times)), sorted(set(chosen))
        return self._refined(problems, times, self._costs(problems, times, listed))

    def likely(
        self, costs: Mapping[Configuration, Cost], problems: Sequence[Problem]
    ) -> dict[Problem, list[Configuration]]:
        """Return by problem the configurations whose guards hold there, in the order of what `costs` predict."""
        listed = sorted(costs)
        predicted = self._predicted(tuple(problems), costs, listed) if problems else ()
        return {
            problem: [listed[column] for column in np.argsort(row, kind="stable") if np.isfinite(row[column])]
            for problem, row in zip(problems, predicted, strict=True)
        }

    def shortlist(self, times: MeasuredTimes, count: int) -> tuple[Configuration, ...]:
        """Return the configurations that may be the best anywhere, at most `count`, what the default may be first."""
        timed = {c for known in times.values() for c, us in known.items() if math.isfinite(us)}
        return self._chosen(times, sorted(timed), count, gain=0.0)

    def choose(self, times: MeasuredTimes, most: int) -> tuple[Configuration, ...]:
        """Return what ships, at most `most` configurations, the default last, or all that it may be besides.

        Only what was timed at half of the problems at which it is legal: of many predictions from few times, the lowest
        are those that err.
        """
        table = self._table(tuple(sorted(times)))
        counts = Counter(c for known in times.values() for c, us in known.items() if math.isfinite(us))
        often = [c for c in sorted(counts) if 2 * counts[c] >= self._admitted(c, table).sum()]
        found, count = self._chosen(times, often, most, gain=portfolio.GAIN), len(self._defaults)
        return (*found[count:], *found[:count])

    def margins(self, times: MeasuredTimes, costs: Mapping[Configuration, Cost]) -> tuple[int, int]:
        """Return the margins, per mille, inside and outside the sizes measured.

        With the first of them the rule would have lost least at the problems measured, each predicted from the others;
        what is lost against the default counts three times. Outside it is the widest, as nothing was measured there.
        """
        problems = tuple(sorted(times))
        own, listed = [space.default_at(self.spec, problem) for problem in problems], sorted(costs)
        if len(problems) < FEW or len(costs) < 2 or costs.keys().isdisjoint(self._defaults):  # noqa: PLR2004 - a choice
            return UNKNOWN
        predicted = _beside_defaults(self._left_out(problems, times, listed), own, listed)
        measured = _beside_defaults(_matrix(problems, times, listed), own, listed)
        margin = min(MARGINS, key=lambda one: (round(_regret(predicted, measured, one), 4), one))
        return margin, UNKNOWN[0]

    def _chosen(
        self, times: MeasuredTimes, candidates: Sequence[Configuration], most: int, *, gain: float
    ) -> tuple[Configuration, ...]:
        """Choose over synthetic problems, by what is predicted, and over those measured, by what was."""
        listed = [*self._defaults, *(candidate for candidate in candidates if candidate not in self._defaults)]
        problems, synthetic = tuple(sorted(times)), self._drawn()
        costs = self._costs(problems, times, listed)
        measured = _matrix(problems, times, listed)
        everywhere = np.concatenate(
            [self._predicted(synthetic, costs, listed), self._filled(measured, problems, costs, listed)]
        )
        share = len(problems) / (len(problems) + TRUSTED)
        weights = np.concatenate(
            [(1 - share) * _weights(synthetic, self.calls), share * _weights(problems, self.calls)]
        )
        found = portfolio.choose(portfolio.losses(everywhere), weights, range(len(self._defaults)), most, gain=gain)
        return tuple(listed[column] for column in found)

    def _filled(
        self,
        measured: Reals,
        problems: tuple[Problem, ...],
        costs: Mapping[Configuration, Cost],
        listed: Sequence[Configuration],
    ) -> Reals:
        """Return what was measured, with what is predicted where a configuration was not tried."""
        return np.where(np.isfinite(measured), measured, self._predicted(problems, costs, listed))

    def _drawn(self) -> tuple[Problem, ...]:
        if self._synthetic is None:
            inside = draw(self.spec, self.specialisation, SYNTHETIC * 4 // 5, SYNTHETIC_SEED, calls=self.calls)
            outside = draw(self.spec, self.specialisation, SYNTHETIC // 5, SYNTHETIC_SEED, reach=REACH)
            self._synthetic = (*inside, *outside)
        return self._synthetic

    def _costs(
        self,
        problems: tuple[Problem, ...],
        times: MeasuredTimes,
        listed: Sequence[Configuration],
        *,
        without: slice = NOTHING,
    ) -> dict[Configuration, Cost]:
        measured, table = _matrix(problems, times, listed), self._table(problems)
        measured[without] = np.nan
        best = np.array(
            [min((us for us in times[problem].values() if us > 0), default=math.nan) for problem in problems]
        )
        found: dict[Configuration, Cost] = {}
        for implementation in self.spec.all_implementations:
            columns = [column for column, one in enumerate(listed) if one.implementation == implementation]
            terms = [self._terms_of(listed[column]) for column in columns]
            for column, cost in zip(columns, fit(terms, table, measured[:, columns], best), strict=True):
                if cost:
                    found[listed[column]] = cost
        return found

    def _refined(
        self,
        problems: tuple[Problem, ...],
        times: MeasuredTimes,
        costs: Mapping[Configuration, Cost],
        *,
        without: slice = NOTHING,
    ) -> dict[Configuration, Cost]:
        """Return `costs` with other weights: what they decide at `problems` loses less."""
        if not costs:
            return {}
        listed, table = list(costs), self._table(problems)
        measured = _matrix(problems, times, listed)
        measured[without] = np.nan
        work_us = np.zeros((len(listed), len(problems), max(map(len, costs.values()))))
        for row, cost in enumerate(costs.values()):
            for column, (text, femtoseconds) in enumerate(cost):
                work_us[row, :, column] = np.nan_to_num(table.quantity(text)) * femtoseconds / FEMTOSECONDS
        places = {configuration: place for place, configuration in enumerate(listed)}
        defaults = [places.get(space.default_at(self.spec, problem), -1) for problem in problems]
        found = scales(work_us, measured, np.array(defaults))
        return {
            configuration: _scaled(cost, row) for (configuration, cost), row in zip(costs.items(), found, strict=True)
        }

    def _predicted(
        self, problems: tuple[Problem, ...], costs: Mapping[Configuration, Cost], listed: Sequence[Configuration]
    ) -> Reals:
        """Return the predicted times of `listed` (columns) at `problems` (rows), nan where one cannot run."""
        table = self._table(problems)
        found = np.full((len(problems), len(listed)), np.nan)
        for column, configuration in enumerate(listed):
            if configuration in costs:
                admitted = self._admitted(configuration, table)
                found[:, column] = np.where(admitted, prediction(costs[configuration], table), np.nan)
        return found

    def _admitted(self, configuration: Configuration, table: ProblemTable) -> Reals:
        guards = guards_of(self.spec, self.specialisation, configuration, self.facts).where
        found = np.ones(table.size)
        for condition in guards:
            found = found * (table.quantity(condition) > 0)
        return found

    def _left_out(self, problems: tuple[Problem, ...], times: MeasuredTimes, listed: Sequence[Configuration]) -> Reals:
        """Return what costs predict at each problem that were fitted to the others, by FOLDS parts."""
        found = np.full((len(problems), len(listed)), np.nan)
        for fold in range(min(FOLDS, len(problems))):
            part = slice(fold, None, FOLDS)
            costs = self._refined(problems, times, self._costs(problems, times, listed, without=part), without=part)
            found[part] = self._predicted(problems, costs, listed)[part]
        return found

    def _table(self, problems: tuple[Problem, ...]) -> ProblemTable:
        if problems not in self._tables:
            if len(self._tables) > KEPT:
                self._tables.clear()
            self._tables[problems] = ProblemTable(problems)
        return self._tables[problems]

    def _terms_of(self, configuration: Configuration) -> tuple[Term, ...]:
        if configuration not in self._terms:
            resources = self._resources(configuration)
            self._terms[configuration] = terms_of(self.spec, self.specialisation, configuration, self.facts, resources)
        return self._terms[configuration]


def _scaled(cost: Cost, scales_of_terms: Reals) -> Cost:
    """Return a cost with its terms multiplied; what the scales have beyond its terms is not read."""
    return tuple((text, max(1, round(fs * float(scales_of_terms[at])))) for at, (text, fs) in enumerate(cost))


def _matrix(problems: Sequence[Problem], times: MeasuredTimes, listed: Sequence[Configuration]) -> Reals:
    """Return the times of `listed` (columns) at `problems` (rows), nan where there is none."""
    found = np.array([[times[problem].get(one, math.nan) for one in listed] for problem in problems], dtype=np.float64)
    found = found.reshape(len(problems), len(listed))
    return np.where(np.isfinite(found) & (found > 0), found, np.nan)


def _beside_defaults(
    times: Reals, defaults_of_problems: Sequence[Configuration], listed: Sequence[Configuration]
) -> Reals:
    """Return times of `listed` with the default of each problem (row) in a column before them, and nowhere else."""
    place = {configuration: column for column, configuration in enumerate(listed)}
    others, own = times.copy(), np.full((len(times), 1), np.nan)
    for row, default in enumerate(defaults_of_problems):
        if default in place:
            own[row, 0], others[row, place[default]] = times[row, place[default]], np.nan
    return np.concatenate([own, others], axis=1)


def _weights(problems: Sequence[Problem], calls: Mapping[Problem, int]) -> Reals:
    """Return what each problem counts, all together 1: by the logarithm of its calls, where there are any."""
    counts = np.array([1 + math.log2(1 + calls.get(problem, 0)) for problem in problems], dtype=np.float64)
    total: Reals = counts / max(float(counts.sum()), 1.0)
    return total


def _regret(predicted: Reals, measured: Reals, margin: int) -> float:
    """Return what the rule's choices lose on average; column 0 is the default's."""
    with np.errstate(invalid="ignore"):
        faster = np.where(predicted[:, 1:] * 1000 <= predicted[:, :1] * (1000 - margin), predicted[:, 1:], np.inf)
    chosen = np.where(np.isfinite(faster.min(axis=1)), faster.argmin(axis=1) + 1, 0)
    took, default = measured[np.arange(len(measured)), chosen], measured[:, 0]
    judged = np.isfinite(took) & np.isfinite(default)
    best = np.nanmin(measured[judged], axis=1)
    lost = took[judged] / best - 1 + RELUCTANCE * np.maximum(took[judged] / default[judged] - 1, 0)
    return float(lost.mean()) if judged.any() else 0.0
