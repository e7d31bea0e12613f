"""What a worker without a device does: it compiles for those that have one.

A source in, a binary out. Each is compiled by a child process, as many at once as an executor asks for; children are
kept for the next source, and end when none has come for a while. Whatever is no binary is left to the worker that asked
for it, which compiles the source itself.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from pretuned import backends
from pretuned.child import Child
from pretuned.compile.outside import CompileJob
from pretuned.compile.pool import LIMIT_S, START_S
from pretuned.compile.result import Binary
from pretuned.errors import DeviceError
from pretuned.version import __version__

IDLE_S: Final = 60.0  # that compilers are kept for the next source


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerEvidence:
    """What a worker has that has no device: its name among the workers, its compiler, its version of pretuned."""

    worker: str
    compiler: str
    version: str

    @classmethod
    def here(cls, backend: str, worker: str) -> CompilerEvidence:
        """Return what this process has to compile for a backend; raises DeviceError where that is not installed."""
        compiler = backends.named(backend).toolchain.installed()
        if compiler is None:
            raise DeviceError(f"{worker} has neither a device nor a compiler for {backend}")
        return cls(worker=worker, compiler=compiler, version=__version__)


class _Shop:
    """The compilers of this process, each of which compiles one source at a time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._idle: list[tuple[str, Child]] = []  # with what they run
        self._timer: threading.Timer | None = None

    def compiled(self, target: str, job: CompileJob) -> Binary | None:
        child = self._taken(target)
        found = child.ask(job, timeout_s=LIMIT_S + START_S)
        if child.alive:
            self._put_back(target, child)
        else:
            child.kill()
        return found if isinstance(found, Binary) else None

    def _taken(self, target: str) -> Child:
        with self._turn:
            if self._timer is not None:
                self._timer.cancel()
            place = next((n for n, (runs, _) in enumerate(self._idle) if runs == target), None)
            return Child(target) if place is None else self._idle.pop(place)[1]

    def _put_back(self, target: str, child: Child) -> None:
        with self._turn:
            self._idle.append((target, child))
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(IDLE_S, self._end_idle)
            self._timer.daemon = True
            self._timer.start()

    def _end_idle(self) -> None:
        with self._turn:
            ended, self._idle = self._idle, []
        for _, child in ended:
            child.kill()


_shop: Final = _Shop()


def compiled(backend: str, job: CompileJob) -> Binary | None:
    """Return the binary of a source for a backend's devices; None where there is none, for whatever reason."""
    return _shop.compiled(backends.named(backend).toolchain.worker, job)
