"""Every configuration, for spaces that are small enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pretuned.strategies import Codes


class Exhaustive:
    """Tries everything, in order, in one batch."""

    complete = True

    def __init__(self, size: int, _first: Sequence[int] = ()) -> None:
        self.size = size

    def propose(self, _codes: Codes, times_us: Mapping[int, float]) -> list[int]:
        """Return all rows that were not tried."""
        return [row for row in range(self.size) if row not in times_us]
