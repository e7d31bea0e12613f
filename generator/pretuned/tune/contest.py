"""One kernel at one specialisation: its candidates, what is known of each, and how more is found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pretuned.compile import host
from pretuned.compile.result import Binary
from pretuned.measure.requests import Entry, Prepare, Raced, TooLarge
from pretuned.measure.runner import TuningError
from pretuned.outcome import Failure, Outcome, Timed, detail, reworded
from pretuned.record.freshness import space_key
from pretuned.record.lock import row_from_json, row_to_json
from pretuned.record.rows import Row
from pretuned.render import candidate, digest, located, verification_key
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Guards, Pairs, Problem
from pretuned.tune.progress import Compiling, Failed

if TYPE_CHECKING:
    from pretuned.tune.tuner import Tuner

PROTOCOL: Final = 1  # of tuning: raised when outcomes or rows of before no longer mean the same

Samples = dict[Configuration, tuple[float, ...]]
Failures = dict[Configuration, Failure]


class Contest:
    """The candidates of `spec` for one specialisation, over `problems`."""

    def __init__(self, tuner: Tuner, spec: KernelSpec, specialisation: Pairs, problems: Sequence[Problem]) -> None:
        self.tuner = tuner
        self.spec = spec
        self.specialisation = specialisation
        self.facts = tuner.target.facts
        self.default = space.default(spec)
        self.verification = verification_key(spec)
        self.space = space_key(spec)
        self._prepared: tuple[Problem, int, bool] | None = None
        with tuner.effort.stage("rendering"):
            self.legal = {problem: list(space.configurations(spec, problem, self.facts)) for problem in problems}
            wanted = dict.fromkeys(c for configurations in self.legal.values() for c in configurations)
            self.candidates = {c: candidate(spec, specialisation, c) for c in wanted}

    # What is kept in the cache, under keys of all that it depends on.

    def _key(self, *parts: object) -> str:
        target = self.tuner.target
        device = [target.name, target.device.sm_count, target.device.compute_capability, target.driver]
        return digest([PROTOCOL, device, self.tuner.library.compiler, self.verification, *parts])

    def _outcome_key(self, configuration: Configuration, problem: Problem, what: str = "screen") -> str:
        return self._key(what, self.candidates[configuration].key, problem.dims)

    def _row_key(self, problem: Problem) -> str:
        keys = sorted(self.candidates[configuration].key for configuration in self.legal[problem])
        return self._key("row", keys, self.space, problem.specialisation, problem.dims)

    def cached_row(self, problem: Problem) -> Row | None:
        """Return the row that an earlier build settled from the same candidates."""
        data = self.tuner.cache.record(self._row_key(problem))
        try:
            return None if data is None else row_from_json(data)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None  # written by another version

    def keep_row(self, row: Row) -> None:
        """Keep a settled row."""
        self.tuner.cache.put_record(self._row_key(row.problem), row_to_json(row))

    # Compiled modules.

    def compile(self, configurations: Sequence[Configuration]) -> None:
        """Compile what of `configurations` is not compiled yet."""
        modules = [self.candidates[c].module for c in configurations]
        missing = self.tuner.library.missing(
            (module, self.tuner.target.device.architecture_of(module)) for module in modules
        )
        if missing:
            self.tuner.listen(Compiling(kernel=self.spec.name, modules=len(missing)))
            self.tuner.library.compile(missing)

    def binary(self, configuration: Configuration) -> Binary | Failure:
        """Return the compiled module of a configuration, or why there is none."""
        module = self.candidates[configuration].module
        return self.tuner.library.get(module, self.tuner.target.device.architecture_of(module))

    def _entry(self, configuration: Configuration) -> Entry:
        self.compile([configuration])
        binary = self.binary(configuration)
        if not isinstance(binary, Binary):
            said = located(self.spec, self.specialisation, configuration, detail(binary))
            raise TuningError(f"{self.spec.name}: {configuration} does not compile: {said}")
        return Entry(configuration=configuration, image=binary.image)

    # Measuring, at the problem that was prepared last.

    def prepare(self, problem: Problem, seed: int = 0, *, trust_default: bool = False) -> TooLarge | None:
        """Make `problem` the one that is measured, if it is not; with `trust_default`, judged against the default."""
        wanted = problem, seed, trust_default
        if self._prepared == wanted:
            return None
        self._prepared = None
        request = Prepare(
            spec=self.spec, problem=problem, default=self._entry(self.default), seed=seed, trust_default=trust_default
        )
        with self.tuner.effort.stage("preparing"):
            refused = self.tuner.runner.prepare(request)
        if refused is None:
            self._prepared = wanted
        return refused

    def screen(self, problem: Problem) -> tuple[dict[Configuration, Outcome], bool]:
        """Return the outcomes of what the strategy proposes, and whether the deadline allowed for all of it."""
        legal = self.legal[problem]
        strategy = self.tuner.strategy(len(legal))
        outcomes: dict[Configuration, Outcome] = {}
        while batch := strategy.propose(legal, {c: time_of(outcome) for c, outcome in outcomes.items()}):
            known = {c: self.tuner.cache.outcome(self._outcome_key(c, problem)) for c in batch}
            self.compile([c for c, outcome in known.items() if outcome is None])
            for configuration, outcome in known.items():
                if outcome is None and self.tuner.late() and self.default in outcomes:
                    return outcomes, False
                outcomes[configuration] = outcome or self._screen(configuration, problem)
        return outcomes, True

    def _screen(self, configuration: Configuration, problem: Problem) -> Outcome:
        binary = self.binary(configuration)
        if not isinstance(binary, Binary):  # the library remembers; the next build tries again
            return self.fail(configuration, problem, binary, keep=False)
        effort = self.tuner.effort
        effort.launched += 1
        with effort.stage("screening"):
            entry = Entry(configuration=configuration, image=binary.image)
            screened = self.tuner.runner.screen(entry, self.tuner.target.pace.samples)
        effort.seconds["verifying"] += screened.verify_s
        effort.seconds["screening"] -= screened.verify_s
        if not isinstance(screened.outcome, Timed):
            return self.fail(configuration, problem, screened.outcome)
        self.tuner.cache.put_outcome(self._outcome_key(configuration, problem), screened.outcome)
        return screened.outcome

    def refusal(self) -> str | None:
        """Return why no candidate can be tried on this device at all, which only the host has a reason for."""
        if not self.tuner.target.device.is_host:
            return None
        reason = host.gpu_only(self.candidates[self.default].module.source)
        return reason and located(self.spec, self.specialisation, self.default, reason)

    def race(self, chosen: Sequence[Configuration], rounds: int, round_us: float) -> tuple[Samples, Failures]:
        """Time `chosen` in interleaved rounds; whoever failed is among the failures, and the samples are then empty.

        `round_us` is what one call of each is expected to take, in microseconds.
        """
        self.tuner.effort.launched += 1
        raced = self.tuner.runner.race(tuple(self._entry(c) for c in chosen), rounds, round_us=round_us)
        if isinstance(raced, Raced):
            failures = {c: failure for c, failure in zip(chosen, raced.failures, strict=True) if failure is not None}
            return ({} if failures else dict(zip(chosen, raced.times_us, strict=True))), failures
        if len(chosen) == 1:
            return {}, {chosen[0]: raced}
        return {}, self._culprits(chosen, rounds, round_us) or {c: raced for c in chosen if c != self.default}

    def _culprits(self, chosen: Sequence[Configuration], rounds: int, round_us: float) -> Failures:
        """Return who fails when racing alone, after a race that was lost as a whole."""
        found: Failures = {}
        for configuration in chosen:
            alone = self.tuner.runner.race((self._entry(configuration),), rounds, round_us=round_us)
            failure = alone.failures[0] if isinstance(alone, Raced) else alone
            if failure is not None:
                found[configuration] = failure
        return found

    def checked(self, configuration: Configuration, problem: Problem, seed: int) -> bool:
        """Return whether a configuration was found right at `problem` with these inputs before."""
        return self.tuner.cache.record(self._outcome_key(configuration, problem, f"check {seed}")) is not None

    def check(self, configuration: Configuration, problem: Problem, seed: int) -> bool:
        """Verify a configuration at `problem`, which is prepared with `seed`, and return whether it is right."""
        self.tuner.effort.launched += 1
        verified = self.tuner.runner.verify(self._entry(configuration))
        if verified.failure is not None:
            self.fail(configuration, problem, verified.failure)
            return False
        key = self._outcome_key(configuration, problem, f"check {seed}")
        self.tuner.cache.put_record(key, {"error": verified.error})
        return True

    def fail(self, configuration: Configuration, problem: Problem, failure: Failure, *, keep: bool = True) -> Failure:
        """Tell and keep a failure, by the template's lines; raises TuningError where it is the default that fails."""
        failure = reworded(failure, partial(located, self.spec, self.specialisation, configuration))
        self.tuner.listen(Failed(kernel=self.spec.name, configuration=configuration, problem=problem, failure=failure))
        if configuration == self.default:
            raise TuningError(
                f"{self.spec.name}: the default ({configuration}) fails at {problem}: {detail(failure)}; "
                "a table ends in its default, so this has to be mended first"
            )
        if keep:
            self.tuner.cache.put_outcome(self._outcome_key(configuration, problem), failure)
        return failure

    def guards(self, configurations: Sequence[Configuration]) -> Mapping[Configuration, Guards]:
        """Return the guards of configurations."""
        return {c: space.guards(self.spec, self.specialisation, c, self.facts) for c in configurations}


def time_of(outcome: Outcome) -> float | None:
    """Return the time of a timed outcome in microseconds, None for a failure."""
    return outcome.time_us if isinstance(outcome, Timed) else None
