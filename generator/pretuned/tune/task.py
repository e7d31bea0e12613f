"""One kernel at one specialisation: its candidates, what is known of each, and how more is found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from pretuned.compile.result import Binary
from pretuned.measure.requests import PrepareRequest, TooLarge
from pretuned.measure.runner import PREPARE_S, TuningError
from pretuned.outcome import Failure, LaunchFailed, Outcome, Timed, TimedOut, detail, reworded
from pretuned.record.freshness import space_key
from pretuned.remedies import of_default
from pretuned.render import located, verification_key
from pretuned.spec import space
from pretuned.spec.defaults import defaults
from pretuned.spec.guards import Guards
from pretuned.spec.guards import guards as guards_of
from pretuned.spec.library import LibraryCall
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.tune.blame import culprits, passes_by_numpy
from pretuned.tune.events import AtProblem, ByNumpy, Failed, RemarkedReference
from pretuned.tune.representatives import promising
from pretuned.tune.results import KnownResults, context_of
from pretuned.tune.sources import TaskSources
from pretuned.tune.space import pruning
from pretuned.tune.space.points import Points
from pretuned.tune.workbench import Workbench

LEAST_PREPARE_S: Final = 30.0  # that inputs and references get, however little is left of the budget
LIMIT_S: Final = 1.0  # for screening a candidate, besides the time of LIMIT_CALLS calls of the default
LIMIT_CALLS: Final = 1000
CLEARANCES: Final = 3  # of the default, whose failures others may have caused


class TuningTask:
    """The candidates of `spec` for one specialisation, over `problems`.

    `points` are the candidates' configurations, `sources` what those are compiled from, `suggested` those that won
    elsewhere at the sizes of a problem, where they are legal. What is known so far:
    `times`: by problem, microseconds per call of each configuration, math.inf for a failure.
    `failed`: candidates that are not tried again.
    `proven`: candidates that the reference has found right at the odd and boundary sizes of a row.
    `noise`: by problem, what made its times noisy.
    `unfit`: by problem, why it is left out: it does not fit into memory, or the default cannot be launched there.
    """

    def __init__(
        self,
        workbench: Workbench,
        spec: KernelSpec,
        specialisation: Pairs,
        problems: Sequence[Problem],
        suggested: Mapping[Problem, Sequence[Configuration]] = MappingProxyType({}),
    ) -> None:
        self.workbench = workbench
        self.spec = spec
        self.specialisation = specialisation
        self.problems = tuple(problems)
        self.facts = workbench.device.facts
        self.sources = TaskSources(workbench, spec, specialisation)
        self.defaults = defaults(spec, specialisation)
        self.verification = verification_key(spec)
        self.space = space_key(spec, specialisation)
        with workbench.spending.stage("enumerating"):
            self.points = Points.of(spec, specialisation, problems, self.facts)
            self.legal = {problem: self.points.legal(problem) for problem in problems}
        self.times: dict[Problem, dict[Configuration, float]] = {problem: {} for problem in problems}
        self.failed: set[Configuration] = set()
        self.proven: set[Configuration] = set()
        self.noise: dict[Problem, str] = {}
        self.unfit: dict[Problem, str] = {}
        self._verified: set[Configuration] = set()
        self._clearances = CLEARANCES
        self._pruned: set[Configuration] = set()
        self._refusals = pruning.Refusals(spec, self.facts)
        self._indexes: dict[Configuration, int] = {}
        self.suggested = {
            problem: [c for c in suggested.get(problem, ()) if c in self.points and self.is_legal(c, problem)]
            for problem in problems
        }
        named = spec.name, workbench.device.name
        self.results = KnownResults(workbench.cache, self._context, self.sources.candidate, named)

    def default_at(self, problem: Problem) -> Configuration:
        """Return the default of a problem."""
        return self.defaults[0] if len(self.defaults) == 1 else space.default_at(self.spec, problem)

    def index_of(self, configuration: Configuration) -> int:
        """Return the place of a configuration among the points."""
        if configuration not in self._indexes:
            self._indexes[configuration] = self.points.index(configuration)
        return self._indexes[configuration]

    def is_legal(self, configuration: Configuration, problem: Problem) -> bool:
        """Whether a configuration is legal at one of `problems`."""
        return bool(self.legal[problem][self.index_of(configuration)])

    def promising(self, problem: Problem, representatives: Sequence[Problem], count: int) -> list[Configuration]:
        """Return what may be the best at one of `problems`: by its times at representatives, or as it has none.

        These are what won here elsewhere, the `count` candidates that should do best and the best of each
        representative; then, while there is time to compile them, as many of those that are legal here and at no
        representative.
        """
        measured = {other: self.times[other] for other in representatives}
        likely = promising(measured, problem, count, lambda c: self.is_legal(c, problem))
        best = list(dict.fromkeys([*(c for c in self.suggested[problem] if c not in self.failed), *likely]))
        if self.workbench.clock.late or not measured:
            return best
        covered = np.logical_or.reduce([self.legal[other] for other in representatives])
        untried = np.flatnonzero(self.legal[problem] & ~covered)[:count]
        return [*best, *(c for index in untried if (c := self.points[int(index)]) not in self.failed)]

    def report(self, stage: str, problem: Problem, done: int, problems: int) -> None:
        """Report that a stage has come to `problem`, behind `done` of its `problems`, and what was compiled by then."""
        self.workbench.binaries.poll()
        name = self.spec.name
        event = AtProblem(kernel=name, stage=stage, problem=problem, done=min(done, problems), problems=problems)
        self.workbench.listen(event)

    # What earlier builds found out.

    def _context(self) -> list[object]:
        """Return what everything measured depends on besides the candidate."""
        device = self.workbench.device
        compiler = self.workbench.binaries.compiler
        return context_of(self.spec, device.name, device.record, device.driver, compiler, self.verification)

    def known(self, configuration: Configuration, problem: Problem) -> bool:
        """Take over what an earlier build found out about a candidate at a problem, and return whether it did."""
        outcome = self.results.outcome(configuration, problem)
        if outcome is None or (configuration in self.defaults and not isinstance(outcome, Timed)):
            return False  # a default that failed is tried again, so that its failure is reported
        self._note(configuration, problem, outcome)
        return True

    # Measuring, at the problem that was prepared last.

    def prepare(
        self,
        problem: Problem,
        seed: int = 0,
        *,
        trust_default: bool = False,
        reference: Literal["none", "soon", "now"] = "now",
    ) -> TooLarge | None:
        """Prepare `problem` to be measured; with `trust_default`, the default's results are the reference."""
        request = PrepareRequest(
            spec=self.spec,
            problem=problem,
            default=self.sources.entry(self.default_at(problem)),
            seed=seed,
            trust_default=trust_default,
            reference=reference,
        )
        left_s = max(LEAST_PREPARE_S, self.workbench.clock.left_s)  # a reference may never return
        self.workbench.runner.prepare_s = min(PREPARE_S, left_s)
        with self.workbench.spending.stage("preparing"):
            refused = self.workbench.runner.prepare(request)
        while self.workbench.runner.notes:
            kernel, reason = self.workbench.runner.notes.pop(0)
            self.workbench.listen(ByNumpy(kernel=kernel, reason=reason))
        while self.workbench.runner.remarks:
            kernel, text = self.workbench.runner.remarks.pop(0)
            self.workbench.listen(RemarkedReference(kernel=kernel, text=text))
        return refused

    def screen(self, problem: Problem, chosen: Sequence[Configuration]) -> None:
        """Time compiled candidates at `problem`; the results stand in `times`, and failures are reported.

        A candidate that was never verified is verified first.
        """
        fits = [configuration for configuration in chosen if self._fits(configuration, problem)]
        default = self.default_at(problem)
        if default in fits or default not in self.times[problem]:  # the others are measured by it
            fits = [c for c in fits if c != default]
            self._screen_groups(problem, [default])
        self._screen_groups(problem, fits)

    def _screen_groups(self, problem: Problem, chosen: Sequence[Configuration]) -> None:
        right = [c for c in chosen if c in self._verified]
        unknown = [c for c in chosen if c not in self._verified]
        for verify, listed in ((True, unknown), (False, right)):
            group = [c for c in listed if c not in self.failed]
            if not group or problem in self.unfit:
                continue
            if (refused := self.prepare(problem, reference="now" if verify else "none")) is not None:
                self.unfit[problem] = refused.reason
            else:
                self._screen(problem, group, verify=verify)

    def _screen(self, problem: Problem, group: Sequence[Configuration], *, verify: bool) -> None:
        spending, times, default = self.workbench.spending, self.times[problem], self.default_at(problem)
        limit_s = LIMIT_S + LIMIT_CALLS * times[default] / 1e6 if default in times else None
        if self.spec.verify.compare is not None:  # a user's function, which may take any time
            limit_s = None
        entries = [self.sources.entry(configuration) for configuration in group]
        with spending.stage("screening"):
            best_us = min(times.values(), default=np.inf)
            found = self.workbench.runner.screen(entries, verify=verify, best_us=best_us, limit_s=limit_s)
            for configuration, screened in zip(group, found, strict=True):
                spending.launched += 1
                spending.move("screening", "loading", screened.load_s)
                spending.move("screening", "verifying", screened.verify_s)
                spending.device_s += screened.device_s
                outcome = screened.outcome
                if not isinstance(outcome, Timed):
                    if configuration in self.defaults and self.cleared(configuration):
                        self._screen(problem, [configuration], verify=verify)
                        continue
                    outcome = self.fail(configuration, problem, outcome)
                else:
                    self.results.keep(configuration, problem, outcome)
                self._note(configuration, problem, outcome)

    def _note(self, configuration: Configuration, problem: Problem, outcome: Outcome) -> None:
        if isinstance(outcome, Timed):
            self.times[problem][configuration] = outcome.time_us
            self._verified.add(configuration)
            return
        self.times[problem][configuration] = np.inf
        if not self._is_local(configuration, outcome):
            self.failed.add(configuration)

    def _is_local(self, configuration: Configuration, failure: Failure) -> bool:
        """Return whether a failure says nothing of other problems: of a launch, or that another default takes long."""
        return isinstance(failure, LaunchFailed) or (isinstance(failure, TimedOut) and configuration in self.defaults)

    def _fits(self, configuration: Configuration, problem: Problem) -> bool:
        """Return whether a candidate may be launched; if not, the reason is noted."""
        binary = self.sources.binary(configuration)
        if isinstance(binary, LibraryCall):
            return True
        if not isinstance(binary, Binary):  # not kept in the cache: the next build tries again
            self._note(configuration, problem, self.fail(configuration, problem, binary, keep=False))
            self.failed.add(configuration)
            return False
        if (refused := self._refusals.of(problem, configuration, binary)) is None:
            return True
        if configuration not in self._pruned:
            self._pruned.add(configuration)
            self.workbench.spending.pruned["does not fit the device"] += 1
        self._note(configuration, problem, refused)
        if configuration == self.default_at(problem):
            self.fail(configuration, problem, refused)
        return False

    def check(self, configuration: Configuration, problem: Problem, seed: int = 0) -> Failure | None:
        """Verify a configuration at `problem`, which is prepared with `seed`; return its failure, or None."""
        self.workbench.spending.launched += 1
        verified = self.workbench.runner.verify(self.sources.entry(configuration))
        if verified.failure is not None and configuration in self.defaults and self.cleared(configuration):
            verified = self.workbench.runner.verify(self.sources.entry(configuration))
        if verified.failure is None:
            self.results.keep_check(configuration, problem, seed, verified.error)
        return verified.failure

    def cleared(self, default: Configuration) -> bool:
        """Return whether a default, which has failed at the problem at hand, passes there in a fresh process.

        The candidates that made it fail are dropped, and a `gpu_reference` that did is not used any more. It is cleared
        a few times only, so that this ends.
        """
        runner, entry = self.workbench.runner, self.sources.entry(default)
        found = culprits(runner, entry) if self._clearances else None
        self._clearances -= 1
        if found is None:
            return passes_by_numpy(runner, entry)
        for request, entry, failure in found:
            if (request.spec, request.problem.specialisation) == (self.spec, self.specialisation):
                self.drop(entry.configuration, request.problem, failure)
                self.times[request.problem][entry.configuration] = np.inf
        return True

    def drop(self, configuration: Configuration, problem: Problem, failure: Failure, *, keep: bool = True) -> None:
        """Exclude a candidate that failed after it was screened."""
        self.fail(configuration, problem, failure, keep=keep)
        if configuration not in self.defaults or not self._is_local(configuration, failure):
            self.failed.add(configuration)

    def launchable(self, configuration: Configuration, problem: Problem) -> bool:
        """Return whether a configuration is legal at `problem`, and can be launched there; waits for the compiler."""
        if not space.legal(self.spec, problem, configuration, self.facts):
            return False
        binary = self.sources.binary(configuration)
        return not isinstance(binary, Binary) or self._refusals.of(problem, configuration, binary) is None

    def fail(self, configuration: Configuration, problem: Problem, failure: Failure, *, keep: bool = True) -> Failure:
        """Report and keep a failure, with the template's line numbers; raises TuningError if the default failed."""
        failure = reworded(failure, partial(located, self.spec, self.specialisation, configuration))
        event = Failed(kernel=self.spec.name, configuration=configuration, problem=problem, failure=failure)
        self.workbench.listen(event)
        self.workbench.spending.count_failure(event)
        if configuration == self.default_at(problem):
            if isinstance(failure, LaunchFailed) and problem not in self.problems:  # which nobody listed
                self.unfit[problem] = detail(failure)
                return failure
            raise TuningError(
                f"{self.spec.name}: the default ({configuration}) fails at {problem}: {detail(failure)}; "
                f"{of_default(failure, self.spec)}"
            )
        if configuration in self.defaults and not self._is_local(configuration, failure):
            raise TuningError(
                f"{self.spec.name}: {configuration}, the default of other problems, fails at {problem}: "
                f"{detail(failure)}; exclude it there by `where`, or mend the kernel"
            )
        if keep:
            self.results.keep(configuration, problem, failure)
        return failure

    def guards(self, configurations: Sequence[Configuration]) -> Mapping[Configuration, Guards]:
        """Return the guards of configurations."""
        return {c: guards_of(self.spec, self.specialisation, c, self.facts) for c in configurations}
