"""The search through large spaces: a Gaussian process over what was measured, and steps from the best.

`proposals` chooses the batches and says how; `surrogate` is the process.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pretuned.strategies import BATCH, EVALUATIONS, Codes

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


class Hybrid:
    """Learns from what was measured, and tries what promises most.

    Its first batch holds the default and the rows to try `first`, such as suggestions of the kernel's author.
    `evaluations` is how many rows are tried in all, those included that were measured for other reasons; `batch` is
    the most that it proposes at once.
    """

    complete = False
    nominal: Sequence[int] = ()  # columns whose values have no order
    under_way: Collection[int] = ()  # rows whose times do not count yet
    promise = 0.0  # by how much the last batch is expected to lower the logarithm of the best time

    def __init__(
        self,
        size: int,
        first: Sequence[int] = (),
        *,
        evaluations: int = EVALUATIONS,
        batch: int = BATCH,
        seed: int = 0,
    ) -> None:
        self.evaluations = min(evaluations, size)
        self.first = tuple(first)
        self.batch = batch
        self.seed = seed

    def propose(self, codes: Codes, times_us: Mapping[int, float]) -> list[int]:
        """Return the rows that promise most, and a few surprises."""
        from pretuned.strategies.hybrid.proposals import Known, propose, room, start  # noqa: PLC0415 - they import NumPy

        left = self.evaluations - len(times_us)
        if left <= 0:
            return []
        wanted = [row for row in dict.fromkeys((0, *self.first)) if row not in times_us][: min(self.batch, left)]
        size = room(len(times_us), self.batch, left)
        known = Known.of(codes, times_us, self.nominal, self.under_way)
        if not known.enough:
            return start(known, wanted, max(size, len(wanted)), self.seed)
        # A BLAS spins while it waits for threads of its own that the compile workers keep from running: a proposal that
        # takes 30 ms alone took 10 s beside them. The matrices are small, and one thread is as fast.
        with _blas().limit(limits=1, user_api="blas"):
            if not wanted:
                wanted, self.promise = propose(known, size, self.seed)
        return wanted


@functools.cache
def _blas() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - it looks up what NumPy has loaded

    return ThreadpoolController()
