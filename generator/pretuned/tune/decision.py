"""The decision of one row: race, duel, check, probe."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pretuned.compile.result import Binary
from pretuned.measure.libraries import release
from pretuned.measure.requests import PROBE_LAUNCHES
from pretuned.measure.rounds import Against, Cut
from pretuned.record.rows import Choice, Row
from pretuned.spec.buckets import PROBE_RATIO, bounds, fits_arguments, probes, sizes_of
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Problem, admitted
from pretuned.tune import race as racing
from pretuned.tune.race import RankedCandidate, Samples, race, ratio_interval
from pretuned.tune.task import TuningTask

FRESH_SEED: Final = 1  # of the inputs that finalists race on and are judged by: not those that they were screened with
TRUSTED_SEED: Final = 2  # of its own: what was judged against the default only is no check against the reference
ATTEMPTS: Final = 8  # to settle on finalists; each drops those that turned out wrong or lost a race as a whole
LEAST_ROUNDS: Final = 7  # of slow kernels: the fewest that an interval of 95% can be had from, and one more
ROUNDS_US: Final = 2e6  # what all rounds of a race may take together, beyond the fewest
TINY: Final = (0, 1, 37)  # nothing to do, a single element, less than a warp and a bit


def affordable(rounds: int, estimates_us: Sequence[float]) -> int:
    """Return how many of `rounds` those who take `estimates_us` a call may race for."""
    return max(min(rounds, LEAST_ROUNDS), min(rounds, int(ROUNDS_US / (PROBE_LAUNCHES * sum(estimates_us)))))


class Decision:
    """Settles the row of `problem` from what `contest` knows of it; `problem` fits the device."""

    def __init__(
        self,
        contest: TuningTask,
        problem: Problem,
        considered: Iterable[Configuration],
        incumbents: Sequence[Configuration],
    ) -> None:
        self.contest = contest
        self.problem = problem
        self.incumbents = incumbents
        known = contest.times[problem]
        alive = (c for c in considered if c not in contest.failed)
        self.times = {c: known[c] for c in alive if math.isfinite(known.get(c, math.inf))}
        self.guards = contest.guards(list(self.times))
        self.effort = contest.tuner.effort
        self.pace = contest.tuner.target.pace

    def row(self) -> Row | None:
        """Return the row: finalists that hold, ranked, or the default alone; None where the problem fits no more."""
        for _ in range(ATTEMPTS):
            if not self._prepared():
                return None
            ranked = self._ranked(racing.finalists(self.times, self.guards, self.contest.default, self.incumbents))
            if ranked is not None and self._all_right([entry.configuration for entry in ranked]):
                return self._row(ranked, self._beyond(ranked))
        self.times = {self.contest.default: self.times[self.contest.default]}
        ranked = self._ranked([self.contest.default]) if self._prepared() else None
        return None if ranked is None else self._row(ranked, {})

    def _prepared(self) -> bool:
        """Prepare the problem with fresh inputs, or where these do not fit beside the others, with those it has."""
        for seed in (FRESH_SEED, 0):
            refused = self.contest.prepare(self.problem, seed)
            if refused is None:
                self.contest.unfit.pop(self.problem, None)
                return True
            self.contest.unfit[self.problem] = refused.reason
        return False

    def _ranked(self, finalists: Sequence[Configuration]) -> list[RankedCandidate] | None:
        """Race the finalists, and let the leaders meet the default; None where somebody failed and was dropped."""
        default, guards = self.contest.default, self.guards
        with self.effort.stage("racing"):
            samples = self._raced(finalists, self.pace.race_rounds, Cut(slack=racing.TIE)) if len(finalists) > 1 else {}
        if samples is None:
            return None
        leaders = racing.leaders(samples, guards, default, self.incumbents)
        with self.effort.stage("duelling"):
            duel = self._raced([default, *leaders], self.pace.duel_rounds, Against(gain=racing.MIN_GAIN), judge=True)
        return None if duel is None else racing.rank(duel, guards, default, self.incumbents)

    def _raced(
        self, chosen: Sequence[Configuration], rounds: int, rule: Cut | Against, *, judge: bool = False
    ) -> Samples | None:
        estimates_us = [self.times[c] for c in chosen]
        rounds = affordable(rounds, estimates_us)
        samples, failures = race(self.contest, self.problem, chosen, estimates_us, rounds, rule, judge=judge)
        self.times = {c: time_us for c, time_us in self.times.items() if c not in failures}
        return None if failures else samples

    def _all_right(self, chosen: Sequence[Configuration]) -> bool:
        """Verify at the odd and boundary problems of the row's bucket; who is wrong anywhere is dropped.

        The reference judges who was not judged so by it before, the default's own results the others: it was judged
        with them at its first row, and takes no time on the host.
        """
        contest = self.contest
        with self.effort.stage("checking"):
            for problem in check_problems(contest.spec, self.problem):
                if not contest.launchable(contest.default, problem):
                    continue
                asked = [c for c in chosen if c in self.times and contest.launchable(c, problem)]
                self._check(problem, [c for c in asked if c not in contest.proven], 0)
                trusted = [c for c in asked if c in contest.proven and c != contest.default]
                self._check(problem, trusted, TRUSTED_SEED)
        contest.proven.update(c for c in chosen if c in self.times)
        return all(c in self.times for c in chosen)

    def _check(self, problem: Problem, asked: Sequence[Configuration], seed: int) -> None:
        contest = self.contest
        unknown = [c for c in asked if not contest.memory.checked(c, problem, seed)]
        if not unknown or contest.prepare(problem, seed, trust_default=seed == TRUSTED_SEED) is not None:
            return
        for configuration in unknown:
            failure = contest.check(configuration, problem, seed)
            if failure is not None:
                contest.drop(configuration, problem, failure)
                del self.times[configuration]

    def _beyond(self, ranked: Sequence[RankedCandidate]) -> dict[Configuration, list[str]]:
        """Return in which directions each choice also beats the default outside the measured sizes.

        Who differs from the default there does not: a call that far out gets the default instead.
        """
        contest, rounds = self.contest, self.pace.probe_rounds
        found: dict[Configuration, list[str]] = {}
        winners = [entry.configuration for entry in ranked if entry.configuration != contest.default]
        with self.effort.stage("probing"):
            for direction, problem in probes(contest.spec, self.problem) if winners and rounds else ():
                able = [c for c in winners if contest.launchable(c, problem)]
                if not able or not contest.launchable(contest.default, problem):
                    continue
                if contest.prepare(problem, TRUSTED_SEED, trust_default=True) is not None:
                    continue
                right = []
                for configuration in able:
                    failure = contest.check(configuration, problem, TRUSTED_SEED)
                    if failure is None:
                        right.append(configuration)
                    else:
                        contest.fail(configuration, problem, failure, keep=False)
                chosen = [contest.default, *right]
                estimates_us = [PROBE_RATIO * self.times[c] for c in chosen]
                rule = Against(gain=racing.MIN_GAIN)
                samples, _ = race(contest, problem, chosen, estimates_us, rounds, rule) if right else ({}, {})
                for configuration in right if samples else ():
                    if ratio_interval(samples[configuration], samples[contest.default])[1] < 1 - racing.MIN_GAIN:
                        found.setdefault(configuration, []).append(direction)
        return found

    def _row(self, ranked: Sequence[RankedCandidate], beyond: Mapping[Configuration, Sequence[str]]) -> Row:
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

    def _choice(self, entry: RankedCandidate, beyond: Sequence[str]) -> Choice:
        binary, call = self.contest.binary(entry.configuration), self.contest.call(entry.configuration)
        assert isinstance(binary, Binary) or call is not None  # it ran
        return Choice(
            configuration=entry.configuration,
            candidate=self.contest.candidate(entry.configuration).key,
            cubin=binary.digest if isinstance(binary, Binary) else "",
            library="" if call is None else release(call.module),
            time_us=float(f"{entry.time_us:.4g}"),
            ratio=(round(entry.ratio[0], 4), round(entry.ratio[1], 4)),
            beyond=tuple(sorted(beyond)),
        )


def check_problems(spec: KernelSpec, problem: Problem) -> Iterator[Problem]:
    """Yield the odd and boundary problems of the bucket of `problem` that the kernel admits, without repetition.

    Those are: every dim tiny; the bucket's lower bounds; one less than the measured sizes, which breaks every multiple.
    """
    dims = {name: int(size) for name, size in problem.dims}
    trials: list[dict[str, int]] = [dict.fromkeys(dims, size) for size in TINY]
    trials.append({name: bounds(sizes_of(spec, name), size)[0] or size for name, size in dims.items()})
    trials.append({name: max(size - 1, 1) for name, size in dims.items()})
    seen = {problem}
    for trial in trials:
        other = Problem(specialisation=problem.specialisation, dims=tuple(sorted(trial.items())))
        if other not in seen and fits_arguments(spec, other) and admitted(spec, other):
            seen.add(other)
            yield other
