"""Child processes that answer requests, can be killed at any moment, and die with their parent.

Theory of operation. A child is a fresh interpreter (never a fork: CUDA does not survive one), started by its command
line rather than by `multiprocessing`, so that the caller's `__main__` is not run again and needs no guard. It takes
pickled requests from one end of a socket pair and answers each in turn: once, or with every part of an iterator as soon
as there is one.

A second pipe, the lifeline, carries nothing. The parent holds its writing end. When the parent dies, however it dies, a
thread of the child reads the end of the pipe and kills its own process.

Children of one process share a folder, which goes with it: `siblings_folder`.

A child that hangs in a kernel or dies by a signal is found by the parent at the request's deadline or at the end of the
stream. Both are answers (`Expired`, `Died`), not exceptions. What a child prints is kept in a file, whose last line
explains a death.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from pretuned.files import scratch

_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from pretuned.child import main; main(sys.argv[2:])"
)
_TAIL_BYTES: Final = 64 * 1024  # a sanitizer's report is long
_END_S: Final = 10.0  # for a killed process to be reaped: a driver tears down a hung context within a few seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The child ended without answering.

    `reason` is its exit status or signal, and the last line it printed; `output` the end of what it printed.
    """

    reason: str
    output: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The child did not answer in time and was killed."""

    after_s: float


_given: Path | None = None


def siblings_folder() -> Path:
    """Return the folder of what a child makes once for all children of its parent; in the parent, the same folder."""
    return _given or scratch()


class Child:
    """One child process that runs `module:function`, a callable from request to answer, or a factory of one.

    `target` names a function without arguments; it is called once in the child and returns the function that answers
    requests. Requests and answers are pickled. `environment` is added to this process's own. Not safe to share between
    threads.
    """

    def __init__(self, target: str, environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._folder = tempfile.mkdtemp(dir=scratch())  # for its temporary files: a killed child removes none
        passed = [json.dumps(sys.path), target, str(theirs.fileno()), str(lifeline), str(siblings_folder())]
        # -P: no json.py of the current folder; -u: what is printed is kept, however the process ends
        command = [sys.executable, "-P", "-u", "-c", _BOOT, *passed]
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            command,
            pass_fds=(theirs.fileno(), lifeline),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            # A group of its own: what it starts (a compiler) is ended with it.
            process_group=0 if sys.platform != "win32" else None,
            env={**os.environ, "TMPDIR": self._folder, **(environment or {})},
        )
        theirs.close()
        os.close(lifeline)
        self.connection = Connection(ours.detach())

    @property
    def pid(self) -> int:
        """The process id, for messages and tests."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def send(self, request: object) -> Died | None:
        """Send a request without waiting; returns `Died` if the child has ended."""
        try:
            self.connection.send(request)
        except OSError:
            return self._died()
        return None

    def receive(self) -> Any:  # noqa: ANN401 - whatever the target answers
        """Return the answer to the oldest request, waiting as long as it takes, or `Died`."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return self._died()

    def ask(self, request: object, *, timeout_s: float) -> Any:  # noqa: ANN401 - whatever the target answers
        """Send `request` and return the answer; `Expired` after `timeout_s` (the child is then dead), or `Died`."""
        return self.send(request) or self.answer(timeout_s)

    def answer(self, timeout_s: float) -> Any:  # noqa: ANN401 - whatever the target answers
        """Return the next answer; `Expired` after `timeout_s` (the child is then dead), or `Died`."""
        if not self.connection.poll(timeout_s):
            self.kill()
            return Expired(after_s=timeout_s)
        return self.receive()

    def strike(self) -> None:
        """End the process at once, from any thread: the one that waits for an answer then gets `Died`."""
        with contextlib.suppress(OSError):
            _kill(self._process)

    def kill(self) -> None:
        """End the process at once and wait until it is gone; does nothing the second time."""
        with contextlib.suppress(ProcessLookupError):
            _kill(self._process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self.connection.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        self._output.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _died(self) -> Died:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        status = self._process.returncode
        reason = (
            f"ended by {signal.Signals(-status).name}" if status is not None and status < 0 else f"exit status {status}"
        )
        output = self._printed()
        last = next((line.strip() for line in reversed(output.split("\n")) if line.strip()), "")
        self.kill()
        return Died(reason=f"{reason}: {last}" if last else reason, output=output)

    def _printed(self) -> str:
        """Return the end of what the child printed."""
        if self._output.closed:
            return ""
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _TAIL_BYTES))
        return self._output.read().decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group, unless it has been waited for: its number may be another's then."""
    if sys.platform != "win32" and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _adopt_site_packages() -> None:
    """Give `site` the folders that only `sys.path` names: pip's isolated builds install into such an overlay.

    `cuda.pathfinder`, which finds NVRTC and its headers for CuPy, asks `site` and would find nothing there.
    """
    depth = 1 if os.name == "nt" else 2  # Lib/site-packages, lib/python3.11/site-packages
    folders = [Path(entry) for entry in sys.path if Path(entry).name == "site-packages"]
    site.PREFIXES.extend(str(folder.parents[depth]) for folder in folders if len(folder.parents) > depth)


def main(arguments: list[str]) -> None:
    """Serve requests in the child: `module:function`, file descriptors of the socket and the lifeline, a folder."""
    global _given  # noqa: PLW0603 - what this process was started with
    target, channel, lifeline, folder = arguments
    _given = Path(folder)
    _adopt_site_packages()
    # Where there is a GPU, NVRTC answers from a cache on disk, and then without the log that registers are read from.
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    _kill_at_end_of(int(lifeline))
    threading.Thread(target=_die_with_parent, args=(int(lifeline),), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what ends
    connection = Connection(int(channel))
    module, _, function = target.partition(":")
    answer: Callable[[Any], Any] = getattr(importlib.import_module(module), function)()
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):  # the parent has closed its end
            return
        reply = answer(request)  # what it raises ends the process, as the last line printed
        try:
            for part in reply if isinstance(reply, Iterator) else (reply,):
                connection.send(part)
        except OSError:
            return


def _kill_at_end_of(lifeline: int) -> None:
    """Have Linux kill this process's group when the pipe ends: a thread cannot while a call holds the GIL."""
    if sys.platform == "linux":
        import fcntl  # noqa: PLC0415 - Windows has none, and a bake there imports this module

        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())  # the whole group, whose leader it is
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _die_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    if sys.platform == "win32":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        os.killpg(os.getpgrp(), signal.SIGKILL)
