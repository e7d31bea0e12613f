"""Compiling many sources at once, in worker processes.

Threads do not help (NVRTC serialises most of its work inside a process); warm processes do, and a compiler that crashes
or hangs on one source costs that source only. Workers start when the pool is made, so that their start overlaps with
rendering. Compilers of other machines can be lent to a pool (`pretuned.compile.outside`).
"""

from __future__ import annotations

import contextlib
import os
import queue
import statistics
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import wait
from types import TracebackType
from typing import Final, Self

from pretuned.child import Child, Died
from pretuned.compile.nvrtc import NVRTC
from pretuned.compile.outside import LOOK_S, CompileJob, Outside
from pretuned.compile.result import Binary, Toolchain, Unavailable
from pretuned.errors import DeviceError
from pretuned.outcome import CompileError, Crashed, TimedOut
from pretuned.render import Source

LIMIT_S: Final = 120.0  # a source; the slowest honest ones take a few seconds
HURRY: Final = 8.0  # times the median of others, where a pool is hurried
LEAST_S: Final = 10.0  # that a source gets in any case
ENOUGH: Final = 8  # sources that ended, of which others' limits follow
START_S: Final = 60.0  # a worker imports CuPy: seconds on a cold disk
POLL_S: Final = 1.0

Result = Binary | CompileError | TimedOut | Crashed


class CompilePool:
    """A pool of compile workers, fed and emptied by a thread of its own; use it in a `with` statement, which ends them.

    `workers` defaults to one a processor. Jobs are (source, architecture); sources with one key are one job. A worker
    that dies or passes the limit is replaced, and its job's result says so. With `hurried`, the limit of a source
    follows what others of the same functions took (`limit_after`), but for those that were put in `first`.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        toolchain: Toolchain = NVRTC,
        limit_s: float = LIMIT_S,
        hurried: bool = False,
    ) -> None:
        self.limit_s = limit_s
        self._hurried = hurried
        self._took_s: dict[tuple[str, ...], list[float]] = {}  # by functions
        self._patient: set[tuple[str, str]] = set()  # jobs that have all of limit_s
        self._warm: set[Child] = set()  # workers that have answered
        self.unanswered = 0  # jobs put in that did not come out yet; for the thread that puts them in
        self.elsewhere: Counter[str] = Counter()  # what came out that others have compiled, by worker
        self._outside: Outside | None = None
        self._target = toolchain.worker
        self._children = [Child(self._target) for _ in range(workers or processors())]
        self._waiting: deque[CompileJob] = deque()
        self._done: queue.SimpleQueue[tuple[CompileJob, Result, str] | Exception] = queue.SimpleQueue()
        self._wake_reader, self._wake_writer = Pipe(duplex=False)
        self._closing = False
        self._broken: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="compiling", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; what was not compiled is forgotten."""
        if self._closing:
            return
        self._closing = True
        self._wake()
        self._thread.join()
        for child in self._children:
            child.kill()
        if self._outside is not None and self._outside.connection is not None:
            self._outside.connection.close()

    def borrow(self, outside: Outside) -> None:
        """Have compilers elsewhere compile too; once."""
        self._outside = outside
        self._wake()

    @property
    def slots(self) -> int:
        """How many sources are compiled at once."""
        return len(self._children) + (0 if self._outside is None else self._outside.slots)

    def put(self, jobs: Iterable[CompileJob], *, first: bool = False) -> None:
        """Have jobs compiled behind those that wait already, or with `first` before them."""
        distinct = list({(source.key, architecture): (source, architecture) for source, architecture in jobs}.values())
        self.unanswered += len(distinct)
        if first:
            self._patient.update((source.key, architecture) for source, architecture in distinct)
            self._waiting.extendleft(reversed(distinct))
        else:
            self._waiting.extend(distinct)
        self._wake()

    def withdraw(self, jobs: Iterable[CompileJob]) -> list[CompileJob]:
        """Take back those of `jobs` that no worker has begun with, and return them."""
        unwanted = {(source.key, architecture) for source, architecture in jobs}
        kept: list[CompileJob] = []
        gone: list[CompileJob] = []
        with contextlib.suppress(IndexError):  # at the end; the other thread takes some meanwhile
            while True:
                job = self._waiting.popleft()
                held = self._outside is not None and self._outside.holds(job)
                (gone if (job[0].key, job[1]) in unwanted and not held else kept).append(job)
        self._waiting.extendleft(reversed(kept))
        self.unanswered -= len(gone)
        self._wake()
        return gone

    def mean_s(self, source: Source) -> float | None:
        """Return the mean seconds that sources of the same functions took a worker; None where too few have ended."""
        took_s = list(self._took_s.get(source.functions, ()))
        return statistics.fmean(took_s) if len(took_s) >= ENOUGH else None

    def take(self, *, wait_s: float | None) -> list[tuple[CompileJob, Result]]:
        """Return the jobs that have ended since; raises DeviceError without a compiler.

        Waits up to `wait_s` seconds for one, as long as it takes with None.
        """
        found: list[tuple[CompileJob, Result]] = []
        while self.unanswered:
            if self._broken is not None:
                raise self._broken
            try:
                answer = self._done.get(block=not found and wait_s != 0, timeout=wait_s or None)
            except queue.Empty:
                break
            if isinstance(answer, Exception):
                self._broken = answer
                continue
            self.unanswered -= 1
            job, result, worker = answer
            self.elsewhere.update([worker] if worker else [])
            found.append((job, result))
        return found

    def compile(self, jobs: Iterable[CompileJob]) -> Iterator[tuple[CompileJob, Result]]:
        """Yield each distinct job with its result, in the order in which they end.

        What others have put in is waited for too, and forgotten.
        """
        listed = list(jobs)
        wanted = {(source.key, architecture) for source, architecture in listed}
        self.put(listed)
        while wanted:
            for (source, architecture), result in self.take(wait_s=None):
                if (source.key, architecture) in wanted:
                    wanted.discard((source.key, architecture))
                    yield (source, architecture), result

    def _wake(self) -> None:
        self._wake_writer.send_bytes(b"!")

    def _work(self) -> None:
        """Keep every worker busy: this runs in the pool's thread, and alone touches the workers."""
        busy: dict[Child, tuple[CompileJob, float]] = {}  # with when they began
        idle = list(self._children)
        try:
            while not self._closing:
                self._feed(idle, busy)
                if self._outside is not None:
                    self._share(self._outside, len(idle))
                    self._feed(idle, busy)
                for child in self._answered(list(busy)):
                    job, begun_s = busy.pop(child)
                    if child in self._warm:  # others have imported their compiler meanwhile
                        self._took_s.setdefault(job[0].functions, []).append(time.monotonic() - begun_s)
                    self._warm.add(child)
                    idle.append(self._finish(child, job))
                for child, limit_s in self._late(busy):
                    job, _ = busy.pop(child)
                    idle.append(self._replace(child))
                    self._hand_out(job, TimedOut(limit_s=limit_s))
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits
            self._done.put(error)

    def _feed(self, idle: list[Child], busy: dict[Child, tuple[CompileJob, float]]) -> None:
        """Give waiting jobs to idle workers."""
        while idle:
            try:
                job = self._waiting.popleft()
            except IndexError:  # none waits, or the other thread has just withdrawn it
                return
            if self._outside is not None and self._outside.has_settled(job):
                continue
            child = idle.pop()
            if child.send(job) is not None:  # it died while idle
                child = self._replace(child)
                child.send(job)  # a death from here on shows at the answer
            busy[child] = (job, time.monotonic())

    def _late(self, busy: dict[Child, tuple[CompileJob, float]]) -> list[tuple[Child, float]]:
        """Return the workers whose job has passed its limit, with that limit."""
        found = []
        for child, ((source, architecture), begun_s) in busy.items():
            if time.monotonic() - begun_s <= min(self.limit_s, LEAST_S):  # no limit is shorter, and medians take time
                continue
            limit_s = self.limit_s
            if self._hurried and (source.key, architecture) not in self._patient:
                limit_s = limit_after(self._took_s.get(source.functions, ()), limit_s)
            start_s = 0.0 if child in self._warm else START_S
            if time.monotonic() - begun_s > limit_s + start_s:
                found.append((child, limit_s))
        return found

    def _answered(self, busy: list[Child]) -> list[Child]:
        """Return the busy workers that have an answer, or none once there is something else to do."""
        by_connection: dict[object, Child] = {child.connection: child for child in busy}
        outside, poll_s = self._outside, POLL_S
        if outside is not None and outside.is_busy:
            poll_s = LOOK_S
        others = [outside.connection] if outside is not None and outside.connection is not None else []
        found = wait([*by_connection, *others, self._wake_reader], poll_s)  # type: ignore[list-item]  # a Connection each
        if self._wake_reader in found:
            self._wake_reader.recv_bytes()
        return [by_connection[connection] for connection in found if connection in by_connection]

    def _finish(self, child: Child, job: CompileJob) -> Child:
        """Hand out a worker's answer, and return the worker for the next job."""
        result = child.receive()
        if isinstance(result, Unavailable):
            raise DeviceError(result.reason)
        if isinstance(result, Died):
            self._hand_out(job, Crashed(message=f"the compiler {result.reason}"))
            return self._replace(child)
        self._hand_out(job, result)
        return child

    def _hand_out(self, job: CompileJob, result: Result) -> None:
        """Hand out what became of a job here, unless its binary has come from elsewhere."""
        if self._outside is None or self._outside.take_note(job, result):
            self._done.put((job, result, ""))

    def _share(self, outside: Outside, idle: int) -> None:
        """Exchange jobs and binaries with the compilers elsewhere."""
        for job, binary, worker in outside.receive():
            if binary is None:
                self._waiting.appendleft(job)
            else:
                self._done.put((job, binary, worker))
        self._waiting.extendleft(outside.late(self._took_s, idle))
        outside.give(self._waiting)

    def _replace(self, child: Child) -> Child:
        child.kill()
        fresh = Child(self._target)
        self._children[self._children.index(child)] = fresh
        return fresh


def limit_after(took_s: Sequence[float], limit_s: float = LIMIT_S) -> float:
    """Return the seconds that a source gets after others of the same functions took `took_s`; at most `limit_s`."""
    if len(took_s) < ENOUGH:
        return limit_s
    return min(limit_s, max(LEAST_S, HURRY * statistics.median(took_s)))


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def compile_all(
    sources: Iterable[Source], architecture: str, *, workers: int | None = None, toolchain: Toolchain = NVRTC
) -> dict[str, Result]:
    """Compile `sources` for `architecture` in a pool of their own and return the results by source key."""
    jobs = list({source.key: (source, architecture) for source in sources}.values())
    with CompilePool(min(workers or processors(), max(1, len(jobs))), toolchain=toolchain) as pool:
        return {source.key: result for (source, _), result in pool.compile(jobs)}
