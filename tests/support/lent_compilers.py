"""Compilers that only sleep, here and elsewhere: what a pool shares its sources with."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import threading
import time
from collections import Counter
from multiprocessing import Pipe

from pretuned.compile.outside import Lent, Ordered, Outside, Returned
from pretuned.compile.result import Binary

RELEASE = "13.0.88"


def binary_of(job, release=RELEASE, image=None):
    """The binary of a job by a compiler of some release."""
    source, architecture = job
    image = f"{source.text} by {release}".encode() if image is None else image
    return Binary(
        module=source.key,
        architecture=architecture,
        image=image,
        digest=hashlib.sha256(image).hexdigest(),
        flags=(),
        compiler=release,
        resources={},
    )


def compiler():
    """What a compile worker runs: it takes COMPILE_S seconds for a source."""

    def compiled(job):
        time.sleep(float(os.environ.get("COMPILE_S", "0")))
        return binary_of(job)

    return compiled


class Elsewhere:
    """Workers elsewhere, each a function from a job to what is sent back; one that returns `...` never answers."""

    def __init__(self, **workers):
        self._functions = workers
        self._connection, theirs = Pipe()
        self.outside = Outside(theirs)
        self._turn = threading.Lock()
        self.got = Counter()
        threading.Thread(target=self._run, daemon=True).start()

    def lend(self, slots=1, *, gone=()):
        self._send(Lent(workers={name: slots for name in self._functions if name not in gone}))

    def hang_up(self):
        """End the connection, also for a thread that waits for it, which to close it would not wake."""
        with socket.socket(fileno=os.dup(self._connection.fileno())) as ours, contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)

    def _send(self, what):
        with self._turn:
            self._connection.send(what)

    def _run(self):
        try:
            while isinstance(ordered := self._connection.recv(), Ordered):
                self.got[ordered.worker] += 1
                threading.Thread(target=self._answer, args=(ordered,), daemon=True).start()
        except (EOFError, OSError, TypeError):  # the last where it is closed while it is read
            pass

    def _answer(self, ordered):
        found = self._functions[ordered.worker](ordered.job)
        if found is not ...:
            with contextlib.suppress(OSError):  # the pool is closed
                self._send(Returned(number=ordered.number, binary=found))
