"""Executing configurations on the host device, plainly or under sanitizers, to find what is wrong with templates.

Ways of executing: `host` verifies results; `memory` does so under AddressSanitizer and UBSan, with the guard bands of
all arrays out of bounds; `races` looks for races and uninitialised reads in shared memory; `far` runs the first and
last blocks over arrays of more elements than an int32 counts, which are mapped but hardly touched. All but the first
also report barriers that not all threads of a block reach in the same place.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from pretuned.compile import host
from pretuned.compile.pool import processors
from pretuned.compile.result import Binary
from pretuned.compile.toolchain import CPP
from pretuned.device.host import FACTS
from pretuned.errors import DeviceError
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import HOST_CANDIDATE_S, Runner
from pretuned.outcome import CompileError, Failure, TimedOut, reworded
from pretuned.record.cache import Cache
from pretuned.render import Source, located, source_of
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.events import Effort
from pretuned.tune.trials import far, trials

CHUNK: Final = 16  # configurations at one problem that a process gets at once
FAR_SAMPLE: Final = 16
FAR_S: Final = 30.0  # a block that goes over all of a far array takes longer, and is let off

ASAN: Final = "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1"
UBSAN: Final = "abort_on_error=1:halt_on_error=1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way of executing: what modules are compiled for, what the child runs, and its environment."""

    name: str
    architecture: str
    target: str
    sanitizer: bool = False
    limit_s: float = HOST_CANDIDATE_S

    def runner(self) -> Runner:
        """Return a process that executes so."""
        environment = {"LD_PRELOAD": host.sanitizer_libraries(), "ASAN_OPTIONS": ASAN, "UBSAN_OPTIONS": UBSAN}
        return Runner(self.target, candidate_s=self.limit_s, environment=environment if self.sanitizer else None)


_MACHINE: Final = "pretuned.measure.host.machine"
PLAIN: Final = Way(name="host", architecture=host.HOST, target=f"{_MACHINE}:serve")
MEMORY: Final = Way(name="memory", architecture=host.MEMORY, target=f"{_MACHINE}:serve_memory", sanitizer=True)
RACES: Final = Way(name="races", architecture=host.RACES, target=f"{_MACHINE}:serve_races")
FAR: Final = Way(
    name="far",
    architecture=host.MEMORY,
    target="pretuned.measure.host.reach:serve",
    sanitizer=True,
    limit_s=FAR_S,
)
SANITIZERS: Final = (MEMORY, RACES, FAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was wrong with a configuration, in which way of executing it; `problem` is None where it did not compile."""

    kernel: str
    specialisation: Pairs
    configuration: Configuration
    problem: Problem | None
    way: str
    failure: Failure


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was executed of one kernel in one way, and the seconds that compiling and executing took.

    `legal_nowhere` counts the configurations that no problem tried here admits, so that they were not executed.
    """

    kernel: str
    way: str
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


def exercise(
    specs: Mapping[str, KernelSpec],
    ways: Sequence[Way],
    *,
    cache_folder: Path | None,
    sample: int | None = None,
    workers: int | None = None,
) -> Iterator[Tally]:
    """Yield a tally for each kernel and way, in that order; raises DeviceError without a C++ compiler.

    With `sample`, so many configurations of each specialisation are executed; in the way `far` at most FAR_SAMPLE:
    they differ little in how they index.
    """
    if CPP.installed() is None:
        raise DeviceError(f"there is no C++ compiler: {host.INSTALL}")
    with Cache(cache_folder) as cache, BinaryStore(cache, Effort(), workers=workers, toolchain=CPP) as library:
        for name, spec in specs.items():
            for way in ways:
                tally = Tally(kernel=name, way=way.name)
                _exercise(spec, way, library, tally, sample, workers or processors())
                yield tally


def _exercise(spec: KernelSpec, way: Way, library: BinaryStore, tally: Tally, sample: int | None, workers: int) -> None:
    every = {s: dict(_wanted(spec, s, way, sample)) for s in space.specialisations(spec)}
    wanted = {s: {c: problems for c, problems in by.items() if problems} for s, by in every.items()}
    tally.legal_nowhere = sum(map(len, every.values())) - sum(map(len, wanted.values()))
    modules = {(s, c): source_of(spec, s, c) for s, by_configuration in wanted.items() for c in by_configuration}
    defaults = {s: modules[s, space.default(spec)] for s in wanted if (s, space.default(spec)) in modules}
    for specialisation, module in defaults.items():
        if (refusal := host.gpu_only(module.text)) is not None:
            tally.refused = located(spec, specialisation, space.default(spec), refusal)
    if tally.refused is not None or not modules:
        return
    started = time.perf_counter()
    library.compile((module, way.architecture) for module in modules.values())
    tally.compile_s = time.perf_counter() - started
    entries: dict[tuple[Pairs, Configuration], CompiledCandidate] = {}
    for (specialisation, configuration), module in modules.items():
        made = library.get(module, way.architecture)
        if isinstance(made, Binary):
            entries[specialisation, configuration] = CompiledCandidate.of(configuration, made)
        elif not _gpu_only(module, made):
            tally.findings.append(_finding(spec, specialisation, configuration, None, way, made))
    tally.configurations = len(entries)
    chunks = list(_chunks(spec, wanted, entries))
    tally.executions = sum(len(chunk.entries) for chunk in chunks)
    started = time.perf_counter()
    tally.findings += _execute(spec, way, chunks, workers)
    tally.execute_s = time.perf_counter() - started


def _wanted(
    spec: KernelSpec, specialisation: Pairs, way: Way, sample: int | None
) -> Iterator[tuple[Configuration, tuple[Problem, ...]]]:
    if way is not FAR:
        for trial in trials(spec, specialisation, FACTS, sample=sample):
            yield trial.configuration, trial.problems
        return
    problem = far(spec, specialisation)
    if problem is None:
        return
    for trial in trials(spec, specialisation, FACTS, sample=min(sample or FAR_SAMPLE, FAR_SAMPLE)):
        if space.legal(spec, problem, trial.configuration, FACTS):
            yield trial.configuration, (problem,)


def _gpu_only(module: Source, failure: Failure) -> bool:
    """Whether an alternative to the default is merely not for the host."""
    return isinstance(failure, CompileError) and host.gpu_only(module.text) is not None


def _chunks(
    spec: KernelSpec,
    wanted: Mapping[Pairs, Mapping[Configuration, Sequence[Problem]]],
    entries: Mapping[tuple[Pairs, Configuration], CompiledCandidate],
) -> Iterator[_Chunk]:
    """Yield work for one process at a time: configurations that share a problem, whose reference is made once."""
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


def _execute(spec: KernelSpec, way: Way, chunks: Sequence[_Chunk], workers: int) -> list[Finding]:
    """Execute chunks in `workers` processes, each served by a thread; raises what preparing one raises."""
    waiting: queue.SimpleQueue[_Chunk] = queue.SimpleQueue()
    for chunk in chunks:
        waiting.put(chunk)
    findings: list[Finding] = []
    errors: list[Exception] = []
    threads = [
        threading.Thread(target=_serve, args=(spec, way, waiting, findings, errors))
        for _ in range(min(workers, len(chunks)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sorted(findings, key=lambda found: (found.specialisation, str(found.problem), str(found.configuration)))


def _serve(
    spec: KernelSpec,
    way: Way,
    waiting: queue.SimpleQueue[_Chunk],
    findings: list[Finding],
    errors: list[Exception],
) -> None:
    try:
        with way.runner() as runner:
            while not errors:
                chunk = waiting.get_nowait()
                if runner.prepare(chunk.prepare) is None:
                    findings.extend(_found(spec, way, chunk, runner.verify))
    except queue.Empty:
        return
    except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits
        errors.append(error)


def _found(
    spec: KernelSpec, way: Way, chunk: _Chunk, verify: Callable[[CompiledCandidate], object]
) -> Iterator[Finding]:
    problem = chunk.prepare.problem
    for entry in chunk.entries:
        failure: Failure | None = getattr(verify(entry), "failure", None)
        if failure is None or (way is FAR and isinstance(failure, TimedOut)):  # far problems may take too long
            continue
        yield _finding(spec, problem.specialisation, entry.configuration, problem, way, failure)


def _finding(
    spec: KernelSpec,
    specialisation: Pairs,
    configuration: Configuration,
    problem: Problem | None,
    way: Way,
    failure: Failure,
) -> Finding:
    return Finding(
        kernel=spec.name,
        specialisation=specialisation,
        configuration=configuration,
        problem=problem,
        way=way.name,
        failure=reworded(failure, partial(located, spec, specialisation, configuration)),
    )
