"""The decision of one row: race the finalists, duel with the default, check odd sizes."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pretuned.measure.rounds import Cut
from pretuned.measure.sampling import least_launches
from pretuned.record.rows import Choice, Row
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.duel import duel
from pretuned.tune.events import Unconfirmed
from pretuned.tune.race import LEAST_ROUNDS, ROUNDS_US, Failures, affordable, race
from pretuned.tune.ranking import (
    MIN_GAIN,
    TIE,
    RankedCandidate,
    Samples,
    faster,
    finalists,
    leaders,
    rank,
    shares_of,
)
from pretuned.tune.soundness import verify_around
from pretuned.tune.task import TuningTask

FRESH_SEED: Final = 1  # of the inputs of races and duels, which differ from those of screening
ATTEMPTS: Final = 8  # to settle on finalists; each drops those that were wrong or failed


def in_time(
    candidates: Sequence[Configuration], times_us: Mapping[Configuration, float], default: Configuration, left_s: float
) -> list[Configuration]:
    """Return the default and the fastest others, in their order, whose fewest rounds take no longer than `left_s`.

    ROUNDS_US are always granted: this leaves out only what takes a large part of a second a call, as on the host.
    """
    room_us = (
        max(ROUNDS_US, left_s * 1e6) / (LEAST_ROUNDS * least_launches(min(times_us[c] for c in candidates)))
        - times_us[default]
    )
    chosen = {default}
    for candidate in sorted(candidates, key=lambda c: (times_us[c], c)):
        if candidate != default and (room_us := room_us - times_us[candidate]) >= 0:
            chosen.add(candidate)
    return [candidate for candidate in candidates if candidate in chosen]


class RowDecision:
    """Settles the row of `problem` from what `task` knows of it; the problem fits the device."""

    def __init__(
        self,
        task: TuningTask,
        problem: Problem,
        considered: Iterable[Configuration],
        incumbents: Sequence[Configuration],
    ) -> None:
        self.task = task
        self.problem = problem
        self.incumbents = incumbents
        known = task.times[problem]
        alive = (c for c in considered if c not in task.failed)
        self.times = {c: known[c] for c in alive if math.isfinite(known.get(c, math.inf))}
        self.default = task.default_at(problem)
        self.guards = task.guards(list(self.times))
        self.spending = task.workbench.spending
        self.profile = task.workbench.device.profile
        self.cut_short = False  # by the clock: not all finalists raced

    def row(self) -> Row | None:
        """Return the row, or None if the problem no longer fits the device.

        It has the finalists that passed all checks, ranked, or else the default alone.
        """
        for _ in range(ATTEMPTS):
            if not self._prepared():
                return None
            ranked = self._ranked(self._finalists())
            if ranked is not None and self._right([candidate.configuration for candidate in ranked]):
                return self._row(ranked)
        self.times = {self.default: self.times[self.default]}
        ranked = self._ranked([self.default]) if self._prepared() else None
        return None if ranked is None else self._row(ranked)

    def _finalists(self) -> list[Configuration]:
        """Return the candidates that race: as many of those that screening leaves as the budget has time for."""
        chosen = finalists(self.times, self.guards, self.default, self.incumbents)
        raced = in_time(chosen, self.times, self.default, self.task.workbench.clock.left_s)
        self.cut_short |= len(raced) < len(chosen)
        return raced

    def _prepared(self) -> bool:
        """Prepare the problem with fresh inputs, or with those it has if fresh ones do not fit beside them."""
        for seed in (FRESH_SEED, 0):
            refused = self.task.prepare(self.problem, seed)
            if refused is None:
                self.task.unfit.pop(self.problem, None)
                return True
            self.task.unfit[self.problem] = refused.reason
        return False

    def _ranked(self, candidates: Sequence[Configuration]) -> list[RankedCandidate] | None:
        """Race the candidates, then the leaders against the default; None if one failed and was dropped."""
        default, guards = self.default, self.guards
        with self.spending.stage("racing"):
            samples = self._raced(candidates, self.profile.race_rounds, Cut(slack=TIE)) if len(candidates) > 1 else {}
        if samples is None:
            return None
        fastest = leaders(samples, guards, default, self.incumbents)
        with self.spending.stage("duelling"):
            places, failures = duel(self.task, self.problem, {c: self.times[c] for c in [default, *fastest]})
        if self._dropped(failures):
            return None
        self._report(places)
        return rank(places, guards, default, self.incumbents)

    def _report(self, places: Sequence[Samples]) -> None:
        """Count and report what has become of the candidates that were faster at the first place."""
        default = self.default
        first = {c for c in places[0] if c != default and shares_of(places[:1], c, default)[0] < 1 - MIN_GAIN}
        kept = {one.configuration for one in faster(places, default)}
        self.spending.confirmed += bool(kept)
        if lost := len(first - kept):
            self.spending.unconfirmed += lost
            self.task.workbench.listen(Unconfirmed(kernel=self.task.spec.name, problem=self.problem, candidates=lost))

    def _raced(self, chosen: Sequence[Configuration], rounds: int, rule: Cut) -> Samples | None:
        estimates_us = {c: self.times[c] for c in chosen}
        rounds = affordable(rounds, estimates_us.values())
        samples, failures = race(self.task, self.problem, estimates_us, rounds, rule)
        return None if self._dropped(failures) else samples

    def _dropped(self, failures: Failures) -> bool:
        self.times = {c: time_us for c, time_us in self.times.items() if c not in failures}
        return bool(failures)

    def _right(self, chosen: Sequence[Configuration]) -> bool:
        """Return whether all of `chosen` are right around the problem too; what is not is out."""
        self.task.report("checking", self.problem, 0, 1)
        right = verify_around(self.task, self.problem, chosen)
        self.times = {c: time_us for c, time_us in self.times.items() if c not in self.task.failed}
        return right

    def _row(self, ranked: Sequence[RankedCandidate]) -> Row:
        task, device = self.task, self.task.workbench.device
        return Row(
            kernel=task.spec.name,
            device=device.name,
            problem=self.problem,
            choices=tuple(map(self._choice, ranked)),
            space="" if self.cut_short else task.space,  # the next build goes on
            verification=task.verification,
            compiler=task.workbench.binaries.compiler,
            driver=device.driver,
            date=dt.datetime.now(dt.UTC).date().isoformat(),
            noise=task.noise.get(self.problem, ""),
            headers=task.sources.headers(candidate.configuration for candidate in ranked),
            effort=device.unusual_effort,
        )

    def _choice(self, candidate: RankedCandidate) -> Choice:
        cubin, library = self.task.sources.shipped(candidate.configuration)
        return Choice(
            configuration=candidate.configuration,
            candidate=self.task.sources.candidate(candidate.configuration).key,
            cubin=cubin,
            library=library,
            time_us=_rounded(candidate.time_us),
            ratio=(round(candidate.ratio[0], 4), round(candidate.ratio[1], 4)),
            spread_us=(
                _rounded(candidate.spread_us[0]),
                _rounded(candidate.spread_us[1]),
                _rounded(candidate.spread_us[2]),
            ),
        )


def _rounded(time_us: float) -> float:
    """Return a time as rows have it: to four digits."""
    return float(f"{time_us:.4g}")
