"""How often Python looks for reference cycles while trees of expressions fill its memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# By Python's own thresholds, collections take up to half of the time in which a selection is made.
SELDOM: Final = (100_000, 20, 100)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Collect reference cycles seldom: a collection walks the trees of thousands of terms, among which are none."""
    before = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
