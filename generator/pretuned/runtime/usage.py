"""PRETUNED_USAGE: which problems were called how often, one JSON object a line, added to a file when the process ends.

Lines are added in one write, so several processes may name one file; who reads it sums up. `pretuned tune --from-usage`
tunes for what was called.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import threading

from . import PACKAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Kernel
    from .lookup import Decision

FORMAT = 1
_counters: dict[str, itertools.count[int]] = {}
_lock = threading.Lock()


def counter_of(kernel: Kernel, device: str, decision: Decision, path: str) -> itertools.count[int]:
    """Return what counts the calls of a problem, for the file at `path`."""
    dims = {name: decision.values[name] for name in sorted(kernel.dims)}
    specialisation = {name: value for name, value in sorted(decision.shipped[0].items()) if name not in dims}
    line = {
        "format": FORMAT,
        "package": PACKAGE,
        "kernel": kernel.name,
        "device": device,
        "specialisation": specialisation,
        "dims": dims,
    }
    with _lock:
        if not _counters:
            atexit.register(_write, path, os.getpid())
        return _counters.setdefault(json.dumps(line), itertools.count())


def _write(path: str, process: int) -> None:
    """Add what was called; a path that cannot be written must not end a process in an error, but is told."""
    if os.getpid() != process:  # a fork, whose parent counts
        return
    lines = []
    for text, counter in sorted(_counters.items()):
        if calls := next(counter):  # what the next would be is how many there were
            lines.append(json.dumps({**json.loads(text), "calls": calls}))
    if not lines:
        return
    try:
        with open(path, "ab", buffering=0) as file:  # noqa: PTH123 - pathlib costs more than it gives here
            file.write("".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        os.write(2, f"{PACKAGE}: PRETUNED_USAGE: {error}\n".encode())
