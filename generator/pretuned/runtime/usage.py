"""PRETUNED_USAGE: which problems were called how often, added to a file when the process ends.

A line holds one JSON object. Lines are added in one write, so several processes may name one file; a reader adds them
up. `pretuned tune --from-usage` tunes for what was called.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import threading

from .table import PACKAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .records import Values
    from .table import Kernel

FORMAT = 1
_counters: dict[str, itertools.count[int]] = {}
_lock = threading.Lock()


def counter_of(kernel: Kernel, device: str, specialisation: Values, values: Values, path: str) -> itertools.count[int]:
    """Return what counts the calls of a problem, for the file at `path`; `values` has the size of every dim."""
    dims = {name: values[name] for name in sorted(kernel.dims)}
    chosen = {name: value for name, value in sorted(specialisation.items()) if name not in dims}
    line = {
        "format": FORMAT,
        "package": PACKAGE,
        "kernel": kernel.name,
        "device": device,
        "specialisation": chosen,
        "dims": dims,
    }
    with _lock:
        if not _counters:
            atexit.register(_write, path, os.getpid())
        return _counters.setdefault(json.dumps(line), itertools.count())


def _write(path: str, process: int) -> None:
    """Add what was called; a path that cannot be written is reported, and does not end the process in an error."""
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
