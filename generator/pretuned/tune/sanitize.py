"""Finalists of a tuning on the host device run once under the memory sanitizer; what it reports refuses them.

Holes and guard bands see what leaves the room of a buffer, and what is written within it. The sanitizer also sees what
is read there, accesses that miss shared memory or local variables, and undefined behaviour. A module takes it about a
second to compile and the kernel several times as long to run, so only those run under it that would be kept, once each,
at a size of few elements.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from pretuned.compile import host
from pretuned.compile.result import Binary
from pretuned.errors import Error
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import Runner
from pretuned.outcome import Failure, TimedOut
from pretuned.render import Source
from pretuned.spec.space import Configuration
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.modes import MEMORY


class Sanitizer(contextlib.AbstractContextManager["Sanitizer"]):
    """Runs configurations under the memory sanitizer, in a process that starts at the first need."""

    def __init__(self, binaries: BinaryStore) -> None:
        self._binaries = binaries
        self._stack = contextlib.ExitStack()
        self._runner: Runner | None = None
        self._available = Path(host.sanitizer_libraries()).is_file()

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def finding(self, request: PrepareRequest, configuration: Configuration, source: Source) -> Failure | None:
        """Return what is wrong with a configuration of `source` at a problem.

        None where nothing is, where it takes too long, and where the sanitizer is not to be had.
        """
        made = self._binaries.get(source, MEMORY.architecture) if self._available else None
        if not isinstance(made, Binary):
            return None
        if self._runner is None:
            self._runner = self._stack.enter_context(MEMORY.runner())
        try:
            if self._runner.prepare(request) is not None:
                return None
            failure = self._runner.verify(CompiledCandidate.of(configuration, made)).failure
        except Error:  # the process does not start here, or the reference fails, which tuning reports
            self._available = False
            return None
        return None if isinstance(failure, TimedOut) else failure
