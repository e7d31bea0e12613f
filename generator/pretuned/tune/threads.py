"""Linear algebra in one thread: while all cores compile, a BLAS that waits for its own threads takes 100 times longer.

OpenBLAS, which NumPy's wheels bring along, spins for threads that the compile workers keep from running: a proposal
that takes 30 ms alone took 10 s beside them. Its matrices are small, and one thread is as fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_MAPS: Final = Path("/proc/self/maps")  # what this process has loaded; tuning is done on Linux
_NAMES: Final = tuple(
    (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Hold every OpenBLAS in this process to one thread; another library stays as it is."""
    before = [(get(), put) for get, put in _controls()]
    for _, put in before:
        put(1)
    try:
        yield
    finally:
        for count, put in before:
            put(count)


@functools.cache
def _controls() -> tuple[tuple[Callable[[], int], Callable[[int], None]], ...]:
    """Return how the number of threads is read and set, for each OpenBLAS that is loaded."""
    try:
        paths = {line.split()[-1] for line in _MAPS.read_text().splitlines() if "openblas" in line}
    except OSError:
        return ()
    found = []
    for path in sorted(paths):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(path)
            found += [(library[get], library[put]) for get, put in _NAMES if hasattr(library, get)]
    return tuple(found)
