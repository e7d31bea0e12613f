"""A random sample: the control that every other strategy must beat."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from pretuned.strategies import BATCH, EVALUATIONS, Codes


class RandomSample:
    """Tries the default, the rows to try `first`, and a random sample of the rest that `seed` fixes.

    `evaluations` is how many rows it tries in all.
    """

    complete = False

    def __init__(self, size: int, first: Sequence[int] = (), *, evaluations: int = EVALUATIONS, seed: int = 0) -> None:
        count = min(evaluations, size)
        drawn = random.Random(seed).sample(range(1, size), max(count - 1, 0))  # noqa: S311 - not for cryptography
        self.rows = list(dict.fromkeys([0, *first, *drawn]))[:count]

    def propose(self, _codes: Codes, times_us: Mapping[int, float]) -> list[int]:
        """Return the next batch of the sample."""
        return [row for row in self.rows if row not in times_us][:BATCH]
