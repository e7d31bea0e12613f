"""How several processes of one tuning share a device: they take turns at what runs there.

Most of a tuning is no measuring: candidates are chosen, rendered and compiled. So a device that several processes tune
on is less idle. No time is disturbed by what others run there, since candidates, inputs and references are asked for in
turns, each with its answer. To open the device takes no turn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock

MOST_PROCESSES: Final = 16  # of a device: each has compilers and memory of its own
LOOK_S: Final = 1e-3  # between two looks at whether the turn of another has ended: requests take some milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What the `processes` that share a device know of it.

    The lock of the file `turns` is held in a turn; it ends with the process that holds it. The device's own lock is
    held for all of them. `others` are the ids of processes that used the device before the tuning: what else runs there
    is the tuning's own.
    """

    turns: Path
    processes: int
    others: frozenset[int] = frozenset()


class Turns:
    """The turns of this process; without a file it is the only one, and every moment is its turn."""

    def __init__(self, file: Path | None = None) -> None:
        self._lock = None if file is None else FileLock(file, thread_local=False)

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Have a block run in a turn, which others wait for; blocks may lie in each other."""
        if self._lock is None:
            yield
            return
        with self._lock.acquire(poll_interval=LOOK_S):
            yield
