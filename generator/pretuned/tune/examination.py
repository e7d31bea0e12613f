"""What is to be executed of one kernel in one mode, and what was found: no process, no thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pretuned.compile.gpu_only import GPU_ONLY
from pretuned.compile.result import Binary
from pretuned.device.host import FACTS
from pretuned.measure.requests import CompiledCandidate
from pretuned.outcome import CompileError, Failure, LaunchFailed, TimedOut, detail, kind, reworded
from pretuned.render import Source, located, source_of
from pretuned.runtime.records import Value
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.tune.agenda import Chunk, Trials, chunks
from pretuned.tune.findings import ConfigurationKey, ExecutionReport, Finding
from pretuned.tune.modes import FAR, ExecutionMode
from pretuned.tune.trials import ELEMENTS, Trial, elements, far, trials
from pretuned.tune.workbench import Clock

PROBES: Final = 3  # sources; where they fail alike, the others are not compiled
LEVELS: Final = (ELEMENTS, ELEMENTS // 4, ELEMENTS // 16)  # elements of a call, by the time that there is
OVERHEAD_S: Final = 0.02  # of an execution, whatever its size
LATE_SHARE: Final = 0.8  # of the time that is left, for which sizes are chosen
FAR_SAMPLE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Configurations at one problem, with their sources."""

    problem: Problem
    sources: Mapping[Configuration, Source]


class Examination:
    """One kernel in one mode.

    `clock` owns the time at hand, of which this kernel may use `workers` processes. `chosen` are problems to try
    instead of those of `trials`.
    """

    def __init__(
        self,
        spec: KernelSpec,
        mode: ExecutionMode,
        clock: Clock,
        workers: float,
        sample: int | None,
        chosen: Sequence[Mapping[str, Value]] | None,
    ) -> None:
        self.spec, self.mode = spec, mode
        self.report = ExecutionReport(kernel=spec.name, mode=mode.name, by_hand=chosen is not None)
        self.executed: set[ConfigurationKey] = set()
        self.spent_s, self.taken, self.over = 0.0, 0, False
        self.clock, self._workers, self._sample, self._chosen = clock, workers, sample, chosen
        self._entries: dict[ConfigurationKey, CompiledCandidate] = {}
        self._dead: set[ConfigurationKey] = set()  # did not compile, or hung: not executed again
        self._verdicts: dict[str, str] = {}  # by source: why it did not compile, or nothing
        self._problems: set[Problem] = set()
        self._elements, self._troubles, self._remarked = 0, 0, False
        self._cut: dict[tuple[Problem, Configuration], None] = {}
        self._back: list[Pending] = []  # taken once, but there was no time for it
        self._next: Chunk | None = None
        self._chunks: Iterator[Chunk] = iter(())
        self._attempt(self._begin)

    # Planning.

    def _attempt(self, step: Callable[[], object]) -> None:
        """Do a step of planning: whatever goes wrong is a finding of this kernel."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the other kernels go on
            self._find(None, f"{type(error).__name__}: {error}", ((), None))
            self.over = True

    def _begin(self) -> None:
        self._first = self._planned(ELEMENTS)
        placed = [(s, trial) for s, found in self._first.items() for trial in found]
        self.report.total = len(placed)
        self.report.nowhere = [(s, trial.configuration, trial.refusal) for s, trial in placed if not trial.problems]
        self._chunks = chunks(self._first, self._further)
        self._next = next(self._chunks, None)

    def _planned(self, level: int) -> Trials:
        found: dict[Pairs, Sequence[Trial]] = {}
        for specialisation in self._specialisations():
            if self.mode is FAR:
                found[specialisation] = list(self._far(specialisation))
                continue
            found[specialisation] = trials(
                self.spec,
                specialisation,
                FACTS,
                sample=self._sample,
                elements=level,
                chosen=self._sizes(specialisation) or (),
            )
        if self.mode is FAR and not any(found.values()):
            self.report.notes.append("no array can grow beyond 2^31 elements by the kernel's free dims")
        return found

    def _specialisations(self) -> list[Pairs]:
        """Return all of the spec, or those that are meant: a constant dim may be chosen by hand to be any size."""
        listed = list(space.specialisations(self.spec))
        if self._chosen is None:
            return listed
        constant = [{name: one[name] for name in self.spec.constant_dims if name in one} for one in self._chosen]
        found = (tuple((name, dims.get(name, value)) for name, value in s) for dims in constant for s in listed)
        return [s for s in dict.fromkeys(found) if self._sizes(s) is not None]

    def _sizes(self, specialisation: Pairs) -> list[Pairs] | None:
        """Return the sizes that were chosen for a specialisation; None where others were meant."""
        if self._chosen is None:
            return []
        known = dict(specialisation)
        fitting = [one for one in self._chosen if all(one.get(name, value) == value for name, value in known.items())]
        dims = [{name: int(str(one[name])) for name in self.spec.free_dims} for one in fitting]
        return [space.pairs(one) for one in dims] or None

    def _far(self, specialisation: Pairs) -> Iterator[Trial]:
        problem = far(self.spec, specialisation)
        if problem is None:
            return
        for trial in trials(self.spec, specialisation, FACTS, sample=min(self._sample or FAR_SAMPLE, FAR_SAMPLE)):
            if space.legal(self.spec, problem, trial.configuration, FACTS):
                yield Trial(configuration=trial.configuration, problems=(problem,))

    def _further(self) -> Trials:
        """Return the trials of further layers: at the largest sizes that there seems to be time for."""
        if self.mode is FAR or self._chosen is not None:
            return self._first
        count = sum(len(trial.problems) for found in self._first.values() for trial in found)
        room_s = LATE_SHARE * self.clock.left_s * self._workers
        rate_s = max(0.0, self.spent_s - OVERHEAD_S * self.report.executions) / max(1, self._elements)
        level = next((level for level in LEVELS if count * level * rate_s <= room_s), LEVELS[-1])
        return self._first if level == LEVELS[0] else self._planned(level)

    # What is next.

    @property
    def layer(self) -> int:
        """The layer of what is next."""
        return self._next.layer if self._next is not None else 0

    def wants_more(self, outstanding: int) -> bool:
        """Return whether more of it can be taken while so many chunks are outstanding."""
        if self.over or (self._next is None and not self._back):
            return False
        if not self.executed and outstanding + self._troubles >= PROBES:
            return False  # where nothing can be judged, it ends at the same problems on every machine
        if len(self._verdicts) < PROBES:
            failed = len(self._verdicts) if any(self._verdicts.values()) else 0  # the rest waits for the last probe
            return outstanding < PROBES - failed
        return self.layer < 2 or self.report.executions > 0 or not outstanding  # noqa: PLR2004 - sizes need times

    def take(self) -> list[Pending]:
        """Return what is next; nothing where all of it is left out."""
        found: list[Pending] = []
        self._attempt(lambda: found.extend(self._taken()))
        return found

    def _taken(self) -> Iterator[Pending]:
        self.taken += 1
        if self._back:
            yield self._back.pop()
            return
        chunk = self._next
        assert chunk is not None  # wants_more() has looked
        specialisation = chunk.problem.specialisation
        living = [c for c in chunk.configurations if (specialisation, c) not in self._dead]
        sources = {c: source_of(self.spec, specialisation, c) for c in living}
        self._next = next(self._chunks, None)
        if sources:
            yield Pending(problem=chunk.problem, sources=sources)

    def put_back(self, pending: Pending) -> None:
        """Have something that was taken taken again, before all else."""
        self._back.append(pending)

    # What was found.

    def remark(self, text: str) -> None:
        """Note what to know of the reference, once: each process that executes says so."""
        if not self._remarked:
            self._remarked = True
            self.report.notes.append(text)

    def compiled(
        self, pending: Pending, found: Mapping[Configuration, Binary | Failure | None]
    ) -> list[CompiledCandidate]:
        """Note what did not compile, and return the rest."""
        specialisation = pending.problem.specialisation
        entries = []
        for configuration, made in found.items():
            if self.over:
                break
            key = specialisation, configuration
            failed = "" if isinstance(made, Binary) or made is None else self._unmade(key, made)
            if len(self._verdicts) < PROBES:
                self._verdicts[pending.sources[configuration].key] = failed
                self._stop_early()
            if isinstance(made, Binary):
                self._entries[key] = CompiledCandidate.of(configuration, made)
                entries.append(self._entries[key])
        return entries

    def _unmade(self, key: ConfigurationKey, failure: Failure) -> str:
        """Note a configuration that did not compile, and return why."""
        text = detail(self._reworded(key, failure))
        if key not in self._dead:
            self._dead.add(key)
            if isinstance(failure, CompileError) and GPU_ONLY in failure.line:
                self.report.gpu_only[key] = text
            else:
                self._find(failure, text, key)
        return text

    def _stop_early(self) -> None:
        """Give the kernel up where the first sources fail alike."""
        texts = set(self._verdicts.values())
        if len(self._verdicts) == PROBES and len(texts) == 1 and "" not in texts:
            self.over = True
            self.report.uncompiled = self.report.total - len(self._dead) - len(self.report.nowhere)

    def judge(self, entries: Sequence[CompiledCandidate], problem: Problem) -> CompiledCandidate:
        """Return what makes the reference where the spec names none: the problem's default, if it compiles."""
        return self._entries.get((problem.specialisation, space.default_at(self.spec, problem)), entries[0])

    def verified(self, problem: Problem, configuration: Configuration, failure: Failure | None) -> None:
        """Note what became of a configuration at a problem."""
        key = problem.specialisation, configuration
        self._cut.pop((problem, configuration), None)
        if isinstance(failure, LaunchFailed) and GPU_ONLY in failure.message:
            self.report.gpu_only.setdefault(key, failure.message)
            return
        self.executed.add(key)
        self._problems.add(problem)
        self.report.executions += 1
        self._elements += elements(self.spec, problem)
        if failure is None:
            return
        if isinstance(failure, TimedOut):
            self._dead.add(key)
        text = detail(self._reworded(key, failure))
        self._find(failure, text, key, problem)

    def slow(self, problem: Problem, configuration: Configuration) -> None:
        """Note a configuration that takes longer than its limit, which is no finding: it is not executed again."""
        self._dead.add((problem.specialisation, configuration))
        self.report.slow += 1

    def cut(self, pending: Pending, configurations: Sequence[Configuration]) -> None:
        """Note that the time ended while the first of these ran, and put them back."""
        self._cut[pending.problem, configurations[0]] = None
        self.put_back(Pending(problem=pending.problem, sources={c: pending.sources[c] for c in configurations}))

    def unprepared(self, problem: Problem, trouble: str) -> None:
        """Note that nothing can be judged at a problem: a reference fails, as a rule."""
        text = trouble.removeprefix(f"{self.spec.name}: ").removesuffix(f" at {problem}")
        self._find(None, text, (problem.specialisation, None), problem)
        self._troubles += 1
        if self._troubles == PROBES and not self.executed:  # others may be on their way
            self.over = True
            self.report.notes.append(f"stopped: the first {PROBES} problems could not be judged")

    def close(self) -> None:
        """Work out the figures of the report."""
        report = self.report
        report.cut = list(self._cut)
        report.configurations, report.execute_s = len(self.executed), self.spent_s
        report.sizes = len({problem.dims for problem in self._problems})
        report.gpu_only = {key: text for key, text in report.gpu_only.items() if key not in self.executed}
        seen = self.executed | self._dead | report.gpu_only.keys()
        if not self.over:
            report.left = max(0, report.total - len(seen) - len(report.nowhere))
            report.unfinished = self._next is not None or bool(self._back)
        report.findings.sort(key=lambda one: (str(one.specialisation), str(one.problem), str(one.configuration)))

    def _reworded(self, key: ConfigurationKey, failure: Failure) -> Failure:
        return reworded(failure, partial(located, self.spec, *key))

    def _find(
        self,
        failure: Failure | None,
        text: str,
        key: tuple[Pairs, Configuration | None],
        problem: Problem | None = None,
    ) -> None:
        self.report.findings.append(
            Finding(
                kernel=self.spec.name,
                mode=self.mode.name,
                outcome="error" if failure is None else kind(failure),
                detail=text,
                specialisation=key[0],
                configuration=key[1],
                problem=problem,
                failure=failure,
            )
        )
