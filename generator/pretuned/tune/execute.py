"""Executing configurations on the host device, plainly or under sanitizers, to find what is wrong with templates.

There are four modes. `host` verifies results. `memory` does so under AddressSanitizer and UBSan, with the guard bands
of all arrays out of bounds. `races` looks for races and uninitialised reads in shared memory. `far` runs the first and
last blocks over arrays of more elements than an int32 counts, which are mapped but hardly touched. All but the first
also report barriers that not all threads of a block reach in the same place.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from pretuned.backends.host import CANDIDATE_S, TARGET
from pretuned.compile import host
from pretuned.compile.host import CPP
from pretuned.compile.pool import processors
from pretuned.compile.result import Binary
from pretuned.device.host import FACTS
from pretuned.errors import DeviceError
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import Runner
from pretuned.outcome import CompileError, Failure, TimedOut, reworded
from pretuned.record.cache import Cache
from pretuned.render import Source, located, source_of
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.events import Effort
from pretuned.tune.trials import far, trials

CHUNK: Final = 16  # configurations at one problem, which one process executes in turn
FAR_SAMPLE: Final = 16
FAR_S: Final = 30.0  # a block that goes over all of a far array takes longer, which is not a finding

ASAN: Final = "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1"
UBSAN: Final = "abort_on_error=1:halt_on_error=1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionMode:
    """How configurations are executed: what sources are compiled for, what the child runs, and its environment."""

    name: str
    architecture: str
    target: str
    sanitizer: bool = False
    limit_s: float = CANDIDATE_S

    def runner(self) -> Runner:
        """Return a process that executes in this mode."""
        environment = {"LD_PRELOAD": host.sanitizer_libraries(), "ASAN_OPTIONS": ASAN, "UBSAN_OPTIONS": UBSAN}
        return Runner(self.target, candidate_s=self.limit_s, environment=environment if self.sanitizer else None)


_MACHINE: Final = "pretuned.measure.host.machine"
PLAIN: Final = ExecutionMode(name="host", architecture=host.HOST, target=TARGET)
MEMORY: Final = ExecutionMode(
    name="memory", architecture=host.MEMORY, target=f"{_MACHINE}:serve_memory", sanitizer=True
)
RACES: Final = ExecutionMode(name="races", architecture=host.RACES, target=f"{_MACHINE}:serve_races")
FAR: Final = ExecutionMode(
    name="far",
    architecture=host.MEMORY,
    target="pretuned.measure.host.reach:serve",
    sanitizer=True,
    limit_s=FAR_S,
)
SANITIZERS: Final = (MEMORY, RACES, FAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was wrong with a configuration in a mode; `problem` is None if it did not compile."""

    kernel: str
    specialisation: Pairs
    configuration: Configuration
    problem: Problem | None
    mode: str
    failure: Failure


@dataclass(slots=True, kw_only=True)
class ExecutionReport:
    """What was executed of one kernel in one mode, what was wrong, and the seconds that it took.

    `legal_nowhere` counts the configurations that no problem tried here admits, so that they were not executed.
    """

    kernel: str
    mode: str
    configurations: int = 0
    executions: int = 0
    legal_nowhere: int = 0
    compile_s: float = 0.0
    execute_s: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    refused: str | None = None  # why the host cannot execute the kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    prepare: PrepareRequest
    entries: tuple[CompiledCandidate, ...]


def execute(
    specs: Mapping[str, KernelSpec],
    modes: Sequence[ExecutionMode],
    *,
    cache_folder: Path | None,
    sample: int | None = None,
    workers: int | None = None,
) -> Iterator[ExecutionReport]:
    """Yield a report for each kernel and mode, in that order; raises DeviceError without a C++ compiler.

    With `sample`, so many configurations of each specialisation are executed. In mode `far` these are at most
    FAR_SAMPLE, since they differ little in how they index.
    """
    if CPP.installed() is None:
        raise DeviceError(host.no_compiler())
    with Cache(cache_folder) as cache, BinaryStore(cache, Effort(), workers=workers, toolchain=CPP) as binaries:
        for name, spec in specs.items():
            for mode in modes:
                report = ExecutionReport(kernel=name, mode=mode.name)
                _execute(spec, mode, binaries, report, sample, workers or processors())
                yield report


def _execute(
    spec: KernelSpec,
    mode: ExecutionMode,
    binaries: BinaryStore,
    report: ExecutionReport,
    sample: int | None,
    workers: int,
) -> None:
    every = {s: dict(_wanted(spec, s, mode, sample)) for s in space.specialisations(spec)}
    wanted = {s: {c: problems for c, problems in by.items() if problems} for s, by in every.items()}
    report.legal_nowhere = sum(map(len, every.values())) - sum(map(len, wanted.values()))
    sources = {(s, c): source_of(spec, s, c) for s, by_configuration in wanted.items() for c in by_configuration}
    defaults = {s: sources[s, space.default(spec)] for s in wanted if (s, space.default(spec)) in sources}
    for specialisation, source in defaults.items():
        if (refusal := host.gpu_only(source.text)) is not None:
            report.refused = located(spec, specialisation, space.default(spec), refusal)
    if report.refused is not None or not sources:
        return
    started = time.perf_counter()
    binaries.compile((source, mode.architecture) for source in sources.values())
    report.compile_s = time.perf_counter() - started
    entries: dict[tuple[Pairs, Configuration], CompiledCandidate] = {}
    for (specialisation, configuration), source in sources.items():
        made = binaries.get(source, mode.architecture)
        if isinstance(made, Binary):
            entries[specialisation, configuration] = CompiledCandidate.of(configuration, made)
        elif not _gpu_only(source, made):
            report.findings.append(_finding(spec, specialisation, configuration, None, mode, made))
    report.configurations = len(entries)
    chunks = list(_chunks(spec, wanted, entries))
    report.executions = sum(len(chunk.entries) for chunk in chunks)
    started = time.perf_counter()
    report.findings += _run(spec, mode, chunks, workers)
    report.execute_s = time.perf_counter() - started


def _wanted(
    spec: KernelSpec, specialisation: Pairs, mode: ExecutionMode, sample: int | None
) -> Iterator[tuple[Configuration, tuple[Problem, ...]]]:
    if mode is not FAR:
        for trial in trials(spec, specialisation, FACTS, sample=sample):
            yield trial.configuration, trial.problems
        return
    problem = far(spec, specialisation)
    if problem is None:
        return
    for trial in trials(spec, specialisation, FACTS, sample=min(sample or FAR_SAMPLE, FAR_SAMPLE)):
        if space.legal(spec, problem, trial.configuration, FACTS):
            yield trial.configuration, (problem,)


def _gpu_only(source: Source, failure: Failure) -> bool:
    """Whether a source does not compile because only GPUs can run it."""
    return isinstance(failure, CompileError) and host.gpu_only(source.text) is not None


def _chunks(
    spec: KernelSpec,
    wanted: Mapping[Pairs, Mapping[Configuration, Sequence[Problem]]],
    entries: Mapping[tuple[Pairs, Configuration], CompiledCandidate],
) -> Iterator[_Chunk]:
    """Yield what one process executes in turn: configurations that share a problem, and so its reference."""
    for specialisation, by_configuration in wanted.items():
        default = entries.get((specialisation, space.default(spec)))
        if default is None:
            continue
        at: dict[Problem, list[CompiledCandidate]] = {}
        for configuration, problems in by_configuration.items():
            for problem in problems if (specialisation, configuration) in entries else ():
                at.setdefault(problem, []).append(entries[specialisation, configuration])
        for problem, found in at.items():
            prepare = PrepareRequest(spec=spec, problem=problem, default=default)
            for first in range(0, len(found), CHUNK):
                yield _Chunk(prepare=prepare, entries=tuple(found[first : first + CHUNK]))


def _run(spec: KernelSpec, mode: ExecutionMode, chunks: Sequence[_Chunk], workers: int) -> list[Finding]:
    """Execute chunks in `workers` processes; raises what preparing one raises."""
    count = min(workers, len(chunks))
    if not count:
        return []
    idle: queue.SimpleQueue[Runner] = queue.SimpleQueue()

    def found(chunk: _Chunk) -> list[Finding]:
        runner = idle.get()
        try:
            return _found(spec, mode, chunk, runner)
        finally:
            idle.put(runner)

    with contextlib.ExitStack() as runners, ThreadPoolExecutor(count) as pool:
        for _ in range(count):
            idle.put(runners.enter_context(mode.runner()))
        findings = list(itertools.chain.from_iterable(pool.map(found, chunks)))
    return sorted(findings, key=lambda found: (found.specialisation, str(found.problem), str(found.configuration)))


def _found(spec: KernelSpec, mode: ExecutionMode, chunk: _Chunk, runner: Runner) -> list[Finding]:
    problem = chunk.prepare.problem
    if runner.prepare(chunk.prepare) is not None:  # it does not fit into this machine's memory
        return []
    verified = [(entry.configuration, runner.verify(entry).failure) for entry in chunk.entries]
    return [
        _finding(spec, problem.specialisation, configuration, problem, mode, failure)
        for configuration, failure in verified
        if failure is not None and not (mode is FAR and isinstance(failure, TimedOut))  # which is slow by design
    ]


def _finding(
    spec: KernelSpec,
    specialisation: Pairs,
    configuration: Configuration,
    problem: Problem | None,
    mode: ExecutionMode,
    failure: Failure,
) -> Finding:
    return Finding(
        kernel=spec.name,
        specialisation=specialisation,
        configuration=configuration,
        problem=problem,
        mode=mode.name,
        failure=reworded(failure, partial(located, spec, specialisation, configuration)),
    )
