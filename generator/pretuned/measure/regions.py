"""Where the buffers of a call lie: plain data that the bench makes and machines read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pretuned.measure.launch import BoundBuffer

ALIGNMENT: Final = 512  # what CuPy's own allocations have
GUARD_BYTES: Final = 2048
MEMORY_SHARE: Final = 0.8  # of what is free, for one problem
HOLE_BYTES: Final = 64 << 30  # what an index of 32 bits reaches in elements of 16 bytes


class Room(NamedTuple):
    """Memory for one buffer and its guard bands, and the width of the holes around it: 0 if others lie beside it."""

    begin: int
    end: int
    hole_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One buffer of one set: its address on the machine, and the lengths of the guard bands around it.

    `pristine` is the address of the values that it has before a call, or None for outputs and scratch. Beyond the bands
    nothing is mapped for `hole_bytes`.
    """

    buffer: BoundBuffer
    address: int
    front_bytes: int
    tail_bytes: int
    hole_bytes: int = 0
    pristine: int | None = None

    @property
    def end(self) -> int:
        """The address just behind it."""
        return self.address + self.buffer.nbytes


def placed(buffer: BoundBuffer, room: Room, gap_bytes: int = 0, *, pristine: int | None = None) -> Region:
    """Return a buffer in its room of `span` and more bytes, `gap_bytes` behind the band in front of it.

    Where a hole follows, the buffer is pushed against it instead: no write past the end stays in the room.
    """
    last = (room.end - buffer.nbytes) // ALIGNMENT * ALIGNMENT
    address = last if room.hole_bytes else room.begin + GUARD_BYTES + gap_bytes
    return Region(
        buffer=buffer,
        address=address,
        front_bytes=address - room.begin,
        tail_bytes=room.end - address - buffer.nbytes,
        hole_bytes=room.hole_bytes,
        pristine=pristine,
    )


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
