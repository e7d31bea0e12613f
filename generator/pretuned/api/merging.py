"""Writing what several devices find into one lock while they go on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock

MERGE_S: Final = 1.0  # between two writes of the lock, at least
MERGE_SHARE: Final = 20.0  # the same, times what a write takes


class LockMerger:
    """Writes partial locks into the project's as they come, but spends no more than a small share of the time on it.

    What it has not written yet is lost with the process, and in the user cache all the same.
    """

    def __init__(self, path: Path, max_loss: float | None) -> None:
        self.changed = False
        self._path = path
        self._max_loss = max_loss
        self._waiting: list[Lock] = []
        self._next_s = 0.0

    def take(self, found: Lock) -> None:
        """Take a partial lock, and write it together with others when it is time to."""
        self._waiting.append(found)
        began_s = time.monotonic()
        if began_s < self._next_s:
            return
        with lockfile.updating(self._path):
            lock = lockfile.read(self._path)
            rows = [row for one in self._waiting for row in one.rows]
            skipped = [entry for one in self._waiting for entry in one.skipped]
            rules = [rule for one in self._waiting for rule in one.selections]
            devices = {name: device for one in self._waiting for name, device in one.devices.items()}
            self.changed |= lockfile.write(
                self._path, lock.updated(devices, rows, skipped, rules, max_loss=self._max_loss)
            )
        self._waiting = []
        ended_s = time.monotonic()
        self._next_s = ended_s + max(MERGE_S, MERGE_SHARE * (ended_s - began_s))
