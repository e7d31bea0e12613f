"""Memory in pages of its own: rooms between wide holes for buffers, and sealed pages for what judges them.

Theory of operation. A candidate runs in this process, so an index that is off may reach whatever is mapped. Three
things keep a write from going unseen, or from spoiling what later candidates are judged by:

Every buffer of a candidate (inputs, outputs, scratch, each copy of them) has a *room*: pages in the middle of a range
of addresses that is reserved and inaccessible. The hole on either side is as wide as an index of 32 bits reaches in
elements of 16 bytes, so whatever such an index hits is the room itself or a hole. A hole ends the process, which is an
outcome of the candidate that ran, with buffer and distance (see runtime.cpp). Within the room the buffer is pushed
against the end, and guard bands fill the rest.

Pristine inputs and references are *sealed*: read-only from the moment that they are written. Candidates run after that.

What is left are other copies of the same candidate's buffers, and those of other problems, which lie a hole or more
away. Copies are compared with what they held (`Bench` does so for all machines); every problem's buffers are filled
anew before they are used.

Reserved addresses cost no memory. Where `ulimit -v` forbids them, holes shrink, and at last vanish: then guard bands
and digests of what judges are all there is, as on a GPU without virtual memory management.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from pretuned.measure.machine import OutOfMemory
from pretuned.measure.regions import HOLE_BYTES, Room

LEAST_HOLE_BYTES: Final = 1 << 20
PAGE: Final = mmap.PAGESIZE
_NONE, _READ, _WRITE = 0, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE
_LAZILY: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE, mmap(2); Python names it from 3.12 on
_FAILED: Final = ctypes.c_void_p(-1).value


class SealablePages:
    """Zeroed memory that can be made read-only; raises OutOfMemory."""

    def __init__(self, nbytes: int) -> None:
        self._nbytes = _whole(nbytes)
        self.address = _mapped(self._nbytes, _WRITE) or _refuse(nbytes)
        self.sealed = False
        _unmapped_with(self, self.address, self._nbytes)

    def seal(self) -> None:
        """Make it read-only for good: whatever writes to it from now on ends the process."""
        self.sealed = _protected(self.address, self._nbytes, _READ)


class HostEnclosure:
    """A room of at least so many bytes for each of `sizes`, with holes of `hole_bytes` if these can be had.

    Raises OutOfMemory.
    """

    def __init__(self, sizes: Sequence[int], hole_bytes: int = HOLE_BYTES) -> None:
        pages = [_whole(size) for size in sizes]
        hole = hole_bytes
        while hole >= LEAST_HOLE_BYTES:
            total = sum(pages) + hole * (len(pages) + 1)
            if (address := _mapped(total, _NONE)) is not None:
                break
            hole //= 2
        else:
            pages, hole = list(sizes), 0
            total = _whole(sum(pages))
            address = _mapped(total, _WRITE) or _refuse(total)
        _unmapped_with(self, address, total)
        rooms = []
        for nbytes in pages:
            address += hole
            if hole and not _protected(address, nbytes, _WRITE):
                _refuse(nbytes)
            rooms.append(Room(begin=address, end=address + nbytes, hole_bytes=hole))
            address += nbytes
        self.rooms: tuple[Room, ...] = tuple(rooms)


@cache
def _libc() -> Any:  # noqa: ANN401 - foreign functions have no types
    """Return the C library; Python's own `mmap` neither reserves addresses nor changes what may be done with pages."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def _mapped(nbytes: int, protection: int) -> int | None:
    address: int | None = _libc().mmap(None, nbytes, protection, _LAZILY, -1, 0)
    return None if address == _FAILED else address


def _protected(address: int, nbytes: int, protection: int) -> bool:
    return not _libc().mprotect(address, nbytes, protection)


def _unmapped_with(owner: object, address: int, nbytes: int) -> None:
    """Unmap pages when nothing refers to `owner` any more."""
    weakref.finalize(owner, _libc().munmap, address, nbytes).atexit = False


def _whole(nbytes: int) -> int:
    """Return the bytes of as many whole pages as `nbytes` take, one at least."""
    return max(1, -(-nbytes // PAGE)) * PAGE


def _refuse(nbytes: int) -> int:
    raise OutOfMemory(f"{nbytes:,} bytes cannot be allocated")
