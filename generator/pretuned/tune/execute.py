"""Executing configurations on the host device, plainly or under sanitizers, to find what is wrong with templates.

There are four modes. `host` verifies results. `memory` does so under AddressSanitizer and UBSan, with the guard bands
of all arrays out of bounds. `races` looks for races and uninitialised reads in shared memory. `far` runs the first and
last blocks over arrays of more elements than an int32 counts, which are mapped but hardly touched. All but the first
also report barriers that not all threads of a block reach in the same place.

Theory of operation. Modes run one after another. Where the time is limited, each first executes what comes first of
every kernel, and then goes on within its share of what is left. In a mode, every kernel has an `Examination`: what is
to be executed, in the order of `agenda`, and what was found. Compilers and processes that execute work at the same
time, on a window of that order; the kernel that has taken the least time goes on first. Whatever fails, in a child or
while planning, is a finding of its kernel. When the time is over, what still runs is ended, and counts as cut off.
"""

from __future__ import annotations

import contextlib
import math
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pretuned.backends.host import BACKEND as HOST
from pretuned.compile.host import CPP
from pretuned.compile.pool import processors
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, TooLarge
from pretuned.measure.runner import CANDIDATE_S, Runner, TuningError
from pretuned.outcome import Failure, TimedOut
from pretuned.record.cache import Cache
from pretuned.runtime.records import Value
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.examination import Examination, Pending
from pretuned.tune.findings import ExecutionReport
from pretuned.tune.modes import FAR, ExecutionMode
from pretuned.tune.spending import Spending
from pretuned.tune.workbench import Clock

FIRST_FAR_SHARE: Final = 0.5  # of the time, after which far arrays no longer wait for what comes first
WINDOW: Final = 48  # sources that are compiled, or wait for it, ahead of what executes
WORKERS: Final = 3  # processes that execute, at most: with the compilers they take less than 1 GB as a rule
COMPILERS: Final = 4  # of about 100 MB each
POLL_S: Final = 0.02
SANITIZED: Final = 48  # configurations that one process executes under a sanitizer
END_S: Final = 0.1  # before the end of the time, from which on what fails is taken as cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionProgress:
    """What was executed last, and how many of the configurations have been, over all kernels of the mode.

    `problem` is None while the first sources are compiled.
    """

    kernel: str
    mode: str
    problem: Problem | None
    done: int
    configurations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What became of one configuration."""

    configuration: Configuration
    failure: Failure | None
    slow: bool = False  # ended after its limit, which is no finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of a chunk: `executed` of its configurations; or why it could not be prepared.

    `cut` are those that the time ended for: the first while it ran.
    """

    executed: tuple[Executed, ...] = ()
    cut: tuple[Configuration, ...] = ()
    too_large: str = ""
    trouble: str = ""
    seconds: float = 0.0
    remarks: tuple[tuple[str, str], ...] = ()  # kernels, with what to know of their references


def execute(
    specs: Mapping[str, KernelSpec],
    modes: Sequence[ExecutionMode],
    *,
    cache_folder: Path | None,
    sample: int | None = None,
    chosen: Mapping[str, Sequence[Mapping[str, Value]]] | None = None,
    budget_s: float | None = None,
    listen: Callable[[ExecutionProgress], None] = lambda _progress: None,
) -> Iterator[ExecutionReport]:
    """Yield a report for each mode and kernel, in that order; raises DeviceError without NumPy or a C++ compiler.

    With `sample`, so many configurations of each specialisation are executed; with `budget_s`, what that time allows.
    `chosen` are problems by kernel that are tried instead of those that are chosen here: values of all free dims, of
    those specialisations that are meant, and of constant dims any.
    """
    HOST.require()
    clock, count, compilers = Clock(budget_s), min(WORKERS, processors()), min(COMPILERS, processors())
    with Cache(cache_folder) as cache:
        jobs = {
            mode: [
                Examination(spec, mode, clock, count / len(specs), sample, (chosen or {}).get(name))
                for name, spec in specs.items()
            ]
            for mode in modes
        }
        if budget_s is not None and len(modes) > 1:
            for mode in modes:
                most_s = FIRST_FAR_SHARE * clock.left_s if mode is FAR else clock.left_s
                with BinaryStore(cache, Spending(), workers=compilers, toolchain=CPP) as binaries:
                    _Round(mode, jobs[mode], binaries, Clock(most_s), count, listen).run(firsts=True)
        for index, mode in enumerate(modes):
            share = Clock(None if budget_s is None else clock.left_s / (len(modes) - index))
            with BinaryStore(cache, Spending(), workers=compilers, toolchain=CPP) as binaries:
                _Round(mode, jobs[mode], binaries, share, count, listen).run()
            for job in jobs[mode]:
                job.close()
                yield job.report


class _Round:
    """One mode over all kernels."""

    def __init__(
        self,
        mode: ExecutionMode,
        jobs: Sequence[Examination],
        binaries: BinaryStore,
        clock: Clock,
        workers: int,
        listen: Callable[[ExecutionProgress], None],
    ) -> None:
        self.mode, self.jobs, self.binaries, self.clock, self.listen = mode, jobs, binaries, clock, listen
        self._idle: queue.SimpleQueue[Runner] = queue.SimpleQueue()
        self._workers = workers
        self._compiling: list[tuple[Examination, Pending]] = []
        self._running: dict[Future[Answered], tuple[Examination, Pending]] = {}

    def run(self, *, firsts: bool = False) -> None:
        """Execute until there is nothing left to do, or no time; with `firsts`, what comes first of each kernel."""
        for job in self.jobs:
            job.clock = self.clock
            self._show(job, None)
        chunks = 1 if firsts else math.inf
        with contextlib.ExitStack() as runners, ThreadPoolExecutor(self._workers) as pool:
            for _ in range(self._workers):
                runner = runners.enter_context(self.mode.runner())
                runner.ends_s = self.clock.ends_s
                self._idle.put(runner)
            while not self.clock.over:
                self._feed(chunks)
                self._submit(pool)
                if not self._compiling and not self._running:
                    break
                if self._compiling and len(self._running) < self._workers:
                    self.binaries.poll(wait_s=POLL_S)
                else:
                    wait(self._running, timeout=10 * POLL_S, return_when=FIRST_COMPLETED)
                    self.binaries.poll()
                self._collect()
            wait(self._running)  # these end with the time
            self._collect()
        for job, pending in self._compiling:
            job.put_back(pending)

    def _feed(self, chunks: float) -> None:
        """Take what is next into the window, up to `chunks` of each kernel, and have it compiled."""
        while len(self._compiling) < WINDOW:
            hungry = [job for job in self.jobs if job.taken < chunks and job.wants_more(self._outstanding(job))]
            if not hungry:
                return
            job = min(hungry, key=lambda job: (job.layer, job.spent_s, job.taken))
            for pending in job.take():
                self.binaries.request([(source, self.mode.architecture) for source in pending.sources.values()])
                self._compiling.append((job, pending))

    def _outstanding(self, job: Examination) -> int:
        return sum(other is job for other, _ in (*self._compiling, *self._running.values()))

    def _submit(self, pool: ThreadPoolExecutor) -> None:
        """Hand out what is compiled, as far as processes are idle; note what did not compile."""
        waiting, self._compiling = self._compiling, []
        for job, pending in waiting:
            architecture = self.mode.architecture
            found = {c: self.binaries.find(source, architecture) for c, source in pending.sources.items()}
            if any(binary is None for binary in found.values()) or len(self._running) >= self._workers:
                self._compiling.append((job, pending))
                continue
            entries = job.compiled(pending, found)
            if entries and not job.over:
                self._running[pool.submit(self._answer, job, pending, entries)] = (job, pending)

    def _answer(self, job: Examination, pending: Pending, entries: Sequence[CompiledCandidate]) -> Answered:
        """Execute a chunk; this runs in a thread of its own, and answers whatever happens."""
        started, configurations = time.perf_counter(), tuple(entry.configuration for entry in entries)
        runner = self._idle.get()
        try:
            judge = job.judge(entries, pending.problem)
            refused = runner.prepare(PrepareRequest(spec=job.spec, problem=pending.problem, default=judge))
            if isinstance(refused, TooLarge):
                return Answered(too_large=refused.reason)
            executed = tuple(self._executed(runner, entries))
            remarks, runner.remarks = tuple(runner.remarks), []
            return Answered(
                executed=executed,
                cut=configurations[len(executed) :],
                seconds=time.perf_counter() - started,
                remarks=remarks,
            )
        except Exception as error:  # noqa: BLE001 - a finding of this kernel, and no end for the others
            seconds = time.perf_counter() - started
            endless = isinstance(error, TuningError) and not job.executed and seconds >= CANDIDATE_S
            if self.clock.left_s < END_S and not endless:
                return Answered(cut=configurations, seconds=seconds)
            text = str(error) if isinstance(error, TuningError) else f"{type(error).__name__}: {error}"
            return Answered(trouble=text, seconds=seconds)
        finally:
            if self.mode.sanitizer and len(runner.ran) > SANITIZED:
                runner.close()  # libraries under AddressSanitizer stay loaded, and on disk, as long as their process
            self._idle.put(runner)

    def _executed(self, runner: Runner, entries: Sequence[CompiledCandidate]) -> Iterator[Executed]:
        for entry in entries:
            if self.clock.over:
                return
            failure = runner.verify(entry).failure
            if failure is not None and self.clock.left_s < END_S:
                return
            slow = self.mode is FAR and isinstance(failure, TimedOut)
            yield Executed(configuration=entry.configuration, failure=failure, slow=slow)

    def _collect(self) -> None:
        for future in [future for future in self._running if future.done()]:
            job, pending = self._running.pop(future)
            answered = future.result()
            job.spent_s += answered.seconds
            for one in answered.executed:
                if one.slow:
                    job.slow(pending.problem, one.configuration)
                else:
                    job.verified(pending.problem, one.configuration, one.failure)
            if answered.cut:
                job.cut(pending, answered.cut)
            if answered.trouble:
                job.unprepared(pending.problem, answered.trouble)
            if answered.too_large:
                job.report.notes.append(f"not executed at {pending.problem}: {answered.too_large}")
            for other in self.jobs:
                for text in (text for kernel, text in answered.remarks if kernel == other.spec.name):
                    other.remark(text)
            self._show(job, pending.problem)

    def _show(self, job: Examination, problem: Problem | None) -> None:
        done = sum(len(job.executed) for job in self.jobs)
        total = sum(job.report.total for job in self.jobs)
        name, mode = job.spec.name, self.mode.name
        self.listen(ExecutionProgress(kernel=name, mode=mode, problem=problem, done=done, configurations=total))
