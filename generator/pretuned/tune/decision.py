"""The decision of one row: race, duel, check, probe."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Final

from pretuned.compile.result import Binary
from pretuned.measure.rounds import Against, Cut
from pretuned.record.rows import Choice, Row
from pretuned.spec import space
from pretuned.spec.buckets import PROBE_RATIO, probes
from pretuned.spec.space import Configuration, Problem
from pretuned.tune import select
from pretuned.tune.checks import check_problems
from pretuned.tune.contest import Contest, Failures, Samples
from pretuned.tune.statistics import ratio_interval

FRESH_SEED: Final = 1  # of the inputs that finalists race on and are judged by: not those that they were screened with
PROBE_SEED: Final = 2  # of its own: what was judged against the default only is no check against the reference
ATTEMPTS: Final = 4  # to settle on finalists; each drops those that turned out wrong or lost a race as a whole


class Decision:
    """Settles the row of `problem` from what `contest` knows of it; `problem` fits the device."""

    def __init__(self, contest: Contest, problem: Problem, incumbent: Configuration | None) -> None:
        self.contest = contest
        self.problem = problem
        self.incumbent = incumbent
        known = contest.times[problem].items()
        self.times = {c: time_us for c, time_us in known if math.isfinite(time_us) and c not in contest.failed}
        self.guards = contest.guards(list(self.times))
        self.effort = contest.tuner.effort
        self.pace = contest.tuner.target.pace

    def row(self) -> Row:
        """Return the row: finalists that hold, ranked, or the default alone."""
        for _ in range(ATTEMPTS):
            ranked = self._ranked(select.finalists(self.times, self.guards, self.contest.default, self.incumbent))
            if ranked is not None and self._all_right([entry.configuration for entry in ranked]):
                return self._row(ranked, self._beyond(ranked))
        self.times = {self.contest.default: self.times[self.contest.default]}
        ranked = self._ranked([self.contest.default])
        assert ranked is not None  # a failing default ends in an error
        return self._row(ranked, {})

    def _ranked(self, finalists: Sequence[Configuration]) -> list[select.Ranked] | None:
        """Race the finalists, and let the leaders meet the default; None where somebody failed and was dropped."""
        default, guards = self.contest.default, self.guards
        self.contest.prepare(self.problem, FRESH_SEED)
        with self.effort.stage("racing"):
            samples = self._raced(finalists, self.pace.race_rounds, Cut(slack=select.TIE)) if len(finalists) > 1 else {}
        if samples is None:
            return None
        leaders = select.leaders(samples, guards, default, self.incumbent)
        with self.effort.stage("duelling"):
            duel = self._raced([default, *leaders], self.pace.duel_rounds, Against(gain=select.MIN_GAIN), judge=True)
        return None if duel is None else select.rank(duel, guards, default, self.incumbent)

    def _raced(
        self, chosen: Sequence[Configuration], rounds: int, rule: Cut | Against, *, judge: bool = False
    ) -> Samples | None:
        estimates_us = [self.times[c] for c in chosen]
        samples, failures = self.contest.race(self.problem, chosen, estimates_us, rounds, rule, judge=judge)
        self._drop(failures)
        return None if failures else samples

    def _drop(self, failures: Failures) -> None:
        for configuration, failure in failures.items():
            self.contest.drop(configuration, self.problem, failure)
            self.times.pop(configuration, None)

    def _all_right(self, chosen: Sequence[Configuration]) -> bool:
        """Verify who was not verified so before at odd and boundary problems; who is wrong anywhere is dropped."""
        contest = self.contest
        unproven = [c for c in chosen if c not in contest.proven]
        with self.effort.stage("checking"):
            for problem in check_problems(contest.spec, self.problem) if unproven else ():
                asked = [c for c in unproven if space.legal(contest.spec, problem, c, contest.facts)]
                unknown = [c for c in asked if c in self.times and not contest.checked(c, problem)]
                if unknown and contest.prepare(problem) is None:
                    wrong = [c for c in unknown if not contest.check(c, problem)]
                    self.times = {c: time_us for c, time_us in self.times.items() if c not in wrong}
        contest.proven.update(c for c in unproven if c in self.times)
        return all(c in self.times for c in chosen)

    def _beyond(self, ranked: Sequence[select.Ranked]) -> dict[Configuration, list[str]]:
        """Return in which directions each choice also beats the default outside the measured sizes."""
        contest, rounds = self.contest, self.pace.probe_rounds
        found: dict[Configuration, list[str]] = {}
        winners = [entry.configuration for entry in ranked if entry.configuration != contest.default]
        with self.effort.stage("probing"):
            for direction, problem in probes(contest.spec, self.problem) if winners and rounds else ():
                legal = [c for c in winners if space.legal(contest.spec, problem, c, contest.facts)]
                if not legal or contest.prepare(problem, PROBE_SEED, trust_default=True) is not None:
                    continue
                right = [c for c in legal if contest.check(c, problem, PROBE_SEED)]
                chosen = [contest.default, *right]
                estimates_us = [PROBE_RATIO * self.times[c] for c in chosen]
                rule = Against(gain=select.MIN_GAIN)
                samples, _ = contest.race(problem, chosen, estimates_us, rounds, rule) if right else ({}, {})
                for configuration in right if samples else ():
                    if ratio_interval(samples[configuration], samples[contest.default])[1] < 1 - select.MIN_GAIN:
                        found.setdefault(configuration, []).append(direction)
        return found

    def _row(self, ranked: Sequence[select.Ranked], beyond: Mapping[Configuration, Sequence[str]]) -> Row:
        contest, target = self.contest, self.contest.tuner.target
        return Row(
            kernel=contest.spec.name,
            device=target.name,
            problem=self.problem,
            choices=tuple(self._choice(entry, beyond.get(entry.configuration, ())) for entry in ranked),
            space=contest.space,
            verification=contest.verification,
            compiler=contest.tuner.library.compiler,
            driver=target.driver,
            date=dt.datetime.now(dt.UTC).date().isoformat(),
            disturbed=contest.disturbed.get(self.problem, ""),
        )

    def _choice(self, entry: select.Ranked, beyond: Sequence[str]) -> Choice:
        binary = self.contest.binary(entry.configuration)
        assert isinstance(binary, Binary)  # it ran
        return Choice(
            configuration=entry.configuration,
            candidate=self.contest.candidate(entry.configuration).key,
            cubin=binary.digest,
            time_us=float(f"{entry.time_us:.4g}"),
            ratio=(round(entry.ratio[0], 4), round(entry.ratio[1], 4)),
            beyond=tuple(sorted(beyond)),
        )
