"""What a terminal shows: a screen of pyte, fed with what is written to it, and programs that run on one."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence

import pyte


class TerminalScreen:
    """A screen of `columns` and `rows`; `written` is all that it was given."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""

    def feed(self, data: bytes) -> None:
        """Take in what a program writes to its terminal."""
        self.written += data
        self._stream.feed(data)

    def lines(self) -> list[str]:
        """Return what can be read, without blanks at the ends of lines and without empty lines at the end."""
        found = [line.rstrip() for line in self.screen.display]
        while found and not found[-1]:
            found.pop()
        return found


def run_on_terminal(
    command: Sequence[str],
    screen: TerminalScreen,
    *,
    environment: Mapping[str, str],
    folder: str | os.PathLike[str],
    look: Callable[[float], int | None] = lambda _seconds: None,
    limit_s: float = 120.0,
) -> int:
    """Run a command whose terminal is `screen`, and return its status.

    `look` is called after each output, with the seconds since the start; it may return a new number of columns.
    """
    parent, child = pty.openpty()
    _resize(child, screen.screen)
    begun_s = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - what a test or a recording names
        command, stdin=child, stdout=child, stderr=child, env=dict(environment), cwd=folder, close_fds=True
    ) as process:
        os.close(child)
        try:
            while time.monotonic() - begun_s < limit_s:
                if not select.select([parent], [], [], 0.2)[0]:
                    continue
                data = _read(parent)
                if not data:
                    return process.wait()
                screen.feed(data)
                if columns := look(time.monotonic() - begun_s):
                    screen.screen.resize(columns=columns)
                    _resize(parent, screen.screen)
            raise TimeoutError(f"no end within {limit_s:g} s: {' '.join(command)}")
        finally:
            process.kill()
            os.close(parent)


def _resize(descriptor: int, screen: pyte.Screen) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", screen.lines, screen.columns, 0, 0))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError as error:  # how Linux reports that nobody has the other end any more
        if error.errno == errno.EIO:
            return b""
        raise
