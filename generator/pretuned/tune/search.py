"""Strategies: which configurations to try next, given what is known. Pure.

NumPy is imported by what needs it: a build that only reads its table imports this module and may not have it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# (configurations, parameters): row i is a legal configuration; an entry is the index of its value in the parameter's
# sorted values, -1 where the configuration's implementation has no such parameter. The first column is the
# implementation's index.
Codes: TypeAlias = "npt.NDArray[np.int16]"

EXHAUSTIVE_LIMIT: Final = 450  # configurations; screening them all takes a few seconds
EVALUATIONS: Final = 448  # of a search through a larger space
BATCH: Final = 32  # what keeps 16 compile workers busy while another batch is measured


class Strategy(Protocol):
    """Proposes batches until it has nothing more to ask; the same decisions for the same measurements."""

    def propose(self, codes: Codes, times_us: Mapping[int, float]) -> list[int]:
        """Return rows of `codes` that `times_us` does not hold, at most a batch, or none to end the search.

        Row 0 is the default, which the first batch holds. `times_us`: microseconds by row, inf for a failure; it may
        hold rows that were never proposed.
        """
        ...


class Exhaustive:
    """Tries everything, in order, in one batch."""

    def propose(self, codes: Codes, times_us: Mapping[int, float]) -> list[int]:
        """Return all that was not tried."""
        return [row for row in range(len(codes)) if row not in times_us]


class RandomSample:
    """Tries the default and a fixed random sample of the rest: the control that any other strategy must beat."""

    def __init__(self, size: int = EVALUATIONS, seed: int = 0) -> None:
        self.size = size
        self.seed = seed

    def propose(self, codes: Codes, times_us: Mapping[int, float]) -> list[int]:
        """Return the next batch of the sample."""
        count = len(codes)
        rest = random.Random(self.seed).sample(range(1, count), max(min(self.size, count) - 1, 0))  # noqa: S311
        return [row for row in ([0, *rest] if count else []) if row not in times_us][:BATCH]


class Hybrid:
    """Learns from what was measured: a Gaussian process over the space, and steps from the best.

    `evaluations` is how many rows it tries in all, what others measured included; `batch` the most it proposes at
    once; `first` are rows that its first batch holds besides the default, such as an author's own suggestions. How it
    chooses is in `pretuned.tune.proposals`.
    """

    def __init__(
        self, evaluations: int = EVALUATIONS, batch: int = BATCH, seed: int = 0, first: Sequence[int] = ()
    ) -> None:
        self.evaluations = evaluations
        self.batch = batch
        self.seed = seed
        self.first = tuple(first)

    def propose(self, codes: Codes, times_us: Mapping[int, float]) -> list[int]:
        """Return what promises most, a few surprises among it."""
        from pretuned.tune.proposals import Known, propose, start  # noqa: PLC0415 - they import NumPy
        from pretuned.tune.threads import one_thread  # noqa: PLC0415 - once NumPy is loaded

        left = min(self.evaluations, len(codes)) - len(times_us)
        size = min(self.batch, left)
        if size <= 0:
            return []
        wanted = [row for row in dict.fromkeys((0, *self.first)) if row not in times_us][:size]
        known = Known.of(codes, times_us)
        if not known.enough:
            return start(known, wanted, size, self.seed)
        with one_thread():
            return wanted or propose(known, size, self.seed)


def strategy_for(size: int, first: Sequence[int] = ()) -> Strategy:
    """Return the strategy for a space of `size` legal configurations; `first` are rows to try first."""
    return Exhaustive() if size <= EXHAUSTIVE_LIMIT else Hybrid(first=first)
