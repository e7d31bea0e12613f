"""Where the buffers of a call lie: plain data that the bench makes and machines read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.measure.launch import BoundBuffer

ALIGNMENT: Final = 512  # what CuPy's own allocations have
GUARD_BYTES: Final = 2048
MEMORY_SHARE: Final = 0.8  # of what is free, for one problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One buffer of one set: its address on the machine, and the lengths of the guard bands around it.

    `pristine` is the address of the values that it has before a call, or None for outputs and scratch.
    """

    buffer: BoundBuffer
    address: int
    front_bytes: int = GUARD_BYTES
    slack_bytes: int = 0  # of the band behind it, besides what `span` holds
    pristine: int | None = None

    @property
    def end(self) -> int:
        """The address just behind it."""
        return self.address + self.buffer.nbytes

    @property
    def tail_bytes(self) -> int:
        """The length of the guard band behind it."""
        return span(self.buffer) - GUARD_BYTES - self.buffer.nbytes + self.slack_bytes


def span(buffer: BoundBuffer) -> int:
    """Return the bytes that a buffer takes with both its guard bands, a multiple of the alignment."""
    return GUARD_BYTES + -(-(buffer.nbytes + GUARD_BYTES) // ALIGNMENT) * ALIGNMENT


class CallBuffers:
    """The sets of buffers that a kernel's calls rotate through, its scratch included.

    `cold` says whether calls shall find nothing of their data in caches, where arrays of `nbytes` could be. For every
    set, `addresses` has its buffers by name, `zeroed` those that a call sets to zero first, and `changed` those that a
    call reads and writes. With any of these (`restores`) a set must get its values back before each call.
    """

    def __init__(
        self, sets: Sequence[Mapping[str, Region]], *, zeroed: frozenset[str], cold: bool = True, nbytes: int = 0
    ) -> None:
        self.sets = tuple(sets)
        self.cold = cold
        self.nbytes = nbytes
        self.addresses = [{name: region.address for name, region in regions.items()} for regions in self.sets]
        filled = [[region for region in regions.values() if region.buffer.nbytes] for regions in self.sets]
        self.zeroed = [[region for region in regions if region.buffer.name in zeroed] for regions in filled]
        self.changed = [[region for region in regions if region.buffer.role == "inout"] for regions in filled]
        self.restores = any(region.buffer.role == "inout" for region in self.sets[0].values())

    @property
    def count(self) -> int:
        """The number of sets."""
        return len(self.sets)
