"""Compiling many modules at once, in worker processes.

Threads do not help (NVRTC serialises most of its work inside a process); warm processes do, and a compiler that crashes
or hangs on one module costs that module only. Workers start when the pool is made, so that their start overlaps with
rendering.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Self

from pretuned.child import Child, Died, ready
from pretuned.compile.result import Binary, Unavailable
from pretuned.compile.toolchain import NVRTC, Toolchain
from pretuned.errors import DeviceError
from pretuned.outcome import CompileError, Crashed, TimedOut
from pretuned.render import Module

LIMIT_S: Final = 120.0  # a module; the slowest honest ones take a few seconds
START_S: Final = 60.0  # a worker imports CuPy: seconds on a cold disk
POLL_S: Final = 1.0

Job = tuple[Module, str]
Result = Binary | CompileError | TimedOut | Crashed


class CompilePool:
    """A pool of compile workers; use it in a `with` statement, which ends them.

    `workers` defaults to one a processor. A pool serves one `compile` at a time.
    """

    def __init__(self, workers: int | None = None, *, toolchain: Toolchain = NVRTC, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._target = toolchain.worker
        self._children = [Child(self._target) for _ in range(workers or processors())]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        for child in self._children:
            child.kill()
        self._children = []

    def compile(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        """Yield each distinct job with its result, in the order in which they end.

        A job is (module, architecture); modules with one key are one job. A worker that dies or passes the limit is
        replaced, and its job's result says so.
        """
        waiting = deque({(module.key, architecture): (module, architecture) for module, architecture in jobs}.values())
        busy: dict[Child, tuple[Job, float]] = {}
        try:
            yield from self._work(waiting, busy)
        finally:
            for child in busy:  # the caller stopped early: a later call must not take their answers for its own
                child.kill()

    def _work(self, waiting: deque[Job], busy: dict[Child, tuple[Job, float]]) -> Iterator[tuple[Job, Result]]:
        idle = list(self._children)
        while waiting or busy:
            while waiting and idle:
                child, job = idle.pop(), waiting.popleft()
                if child.send(job) is not None:  # it died while idle, or was ended with an earlier call's job
                    child = self._replace(child)
                    child.send(job)  # a death from here on shows at the answer
                busy[child] = (job, time.monotonic() + self.limit_s + START_S)
            for child in ready(list(busy), POLL_S):
                job, _ = busy.pop(child)
                result = child.receive()
                if isinstance(result, Died):
                    idle.append(self._replace(child))
                    yield job, Crashed(message=f"the compiler {result.reason}")
                    continue
                if isinstance(result, Unavailable):
                    raise DeviceError(result.reason)
                idle.append(child)
                yield job, result
            for child in [child for child, (_, deadline) in busy.items() if time.monotonic() > deadline]:
                job, _ = busy.pop(child)
                idle.append(self._replace(child))
                yield job, TimedOut(limit_s=self.limit_s)

    def _replace(self, child: Child) -> Child:
        child.kill()
        fresh = Child(self._target)
        self._children[self._children.index(child)] = fresh
        return fresh


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def compile_all(
    modules: Iterable[Module], architecture: str, *, workers: int | None = None, toolchain: Toolchain = NVRTC
) -> dict[str, Result]:
    """Compile `modules` for `architecture` in a pool of their own and return the results by module key."""
    jobs = list({module.key: (module, architecture) for module in modules}.values())
    with CompilePool(min(workers or processors(), max(1, len(jobs))), toolchain=toolchain) as pool:
        return {module.key: result for (module, _), result in pool.compile(jobs)}
