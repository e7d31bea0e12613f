"""The device memory of one problem: sets of buffers to rotate through, guard bands, pristine inputs. Uses CuPy.

Each *set* holds every buffer of one call. Timing rotates through as many sets as it takes to keep a launch from finding
its own data in L2. All buffers of all sets lie in one allocation, each between two guard bands of a known pattern, so
that a write just outside a buffer changes a band, and a write further away most likely another buffer's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import cupy
import numpy as np

from pretuned.errors import Error
from pretuned.measure.launch import Buffer
from pretuned.spec.types import DTYPES

ALIGNMENT: Final = 512  # what CuPy's own allocations have
GUARD_BYTES: Final = 2048
GUARD: Final = 0xA5
POISON: Final = 0xFF  # a NaN in every floating type, -1 or the largest value in integers
INTEGER_POISON: Final = 0x5B  # nothing that counts or small inputs give
MEMORY_SHARE: Final = 0.8


class OutOfMemory(Error):  # noqa: N818 - the term
    """A problem does not fit in the share of the free device memory that measuring may take."""


class Region:
    """One buffer of one set: where it lies in the arena."""

    __slots__ = ("buffer", "offset")

    def __init__(self, buffer: Buffer, offset: int) -> None:
        self.buffer = buffer
        self.offset = offset


def storage_dtype(dtype: str) -> str:
    """Return the type in which CuPy holds the bits of `dtype`."""
    return "uint16" if dtype == "bfloat16" else dtype


class Arena:
    """`count` sets of `buffers`, of which inputs hold the arrays of `stored` (by name, in storage types).

    Raises OutOfMemory if not even one set fits; fewer sets than asked are made where not all do.
    """

    def __init__(self, buffers: Sequence[Buffer], stored: Mapping[str, np.ndarray[Any, Any]], count: int) -> None:
        self.buffers = tuple(buffers)
        self.set_bytes = sum(_span(buffer) for buffer in self.buffers)
        self.pristine = {name: cupy.asarray(array) for name, array in stored.items()}
        room = int(cupy.cuda.runtime.memGetInfo()[0] * MEMORY_SHARE)
        self.count = min(count, room // max(1, self.set_bytes))
        if self.count == 0:
            raise OutOfMemory(f"a call takes {self.set_bytes:,} bytes; {room:,} are free to measure with")
        self.memory = cupy.empty(self.count * self.set_bytes, cupy.uint8)
        self.sets = [self._layout(index * self.set_bytes) for index in range(self.count)]
        self._bands = cupy.asarray(self._band_offsets())
        for index in range(self.count):
            self.reset(index)

    def _layout(self, base: int) -> dict[str, Region]:
        regions = {}
        for buffer in self.buffers:
            regions[buffer.name] = Region(buffer, base + GUARD_BYTES)
            base += _span(buffer)
        return regions

    def _band_offsets(self) -> np.ndarray[Any, Any]:
        """Return the offsets, within a set, of every byte that belongs to no buffer."""
        parts = []
        for region in self.sets[0].values():
            end = region.offset + region.buffer.nbytes
            span_end = region.offset - GUARD_BYTES + _span(region.buffer)
            parts += [np.arange(region.offset - GUARD_BYTES, region.offset), np.arange(end, span_end)]
        return np.concatenate(parts)

    def _view(self, region: Region) -> Any:  # noqa: ANN401 - CuPy ships no types
        memory = self.memory[region.offset : region.offset + region.buffer.nbytes]
        return memory.view(storage_dtype(region.buffer.dtype)).reshape(region.buffer.shape)

    def array(self, index: int, name: str) -> Any:  # noqa: ANN401 - CuPy ships no types
        """Return buffer `name` of set `index` as a CuPy array over the arena, in its storage type."""
        return self._view(self.sets[index][name])

    def addresses(self, index: int) -> dict[str, int]:
        """Return the device address of every buffer of set `index`, by name."""
        base = int(self.memory.data.ptr)
        return {name: base + region.offset for name, region in self.sets[index].items()}

    def reset(self, index: int) -> None:
        """Bring set `index` to the state before a call: inputs pristine, outputs and scratch poisoned, bands whole."""
        start = index * self.set_bytes
        self.memory[start : start + self.set_bytes][self._bands] = GUARD
        for region in self.sets[index].values():
            if region.buffer.name in self.pristine:
                self._view(region)[...] = self.pristine[region.buffer.name]
            elif region.buffer.nbytes:
                poison = POISON if DTYPES[region.buffer.dtype].floating else INTEGER_POISON
                self.memory[region.offset : region.offset + region.buffer.nbytes] = poison

    def restore(self, index: int) -> None:
        """Give the in-out arrays of set `index` their values of before the call again."""
        for region in self.sets[index].values():
            if region.buffer.role == "inout":
                self._view(region)[...] = self.pristine[region.buffer.name]

    def damage(self, index: int) -> tuple[str, str] | None:
        """Return (argument, what happened) if set `index` has a changed input or guard band, else None."""
        start = index * self.set_bytes
        changed = cupy.flatnonzero(self.memory[start : start + self.set_bytes][self._bands] != GUARD)
        if changed.size:
            return self._nearest(int(self._bands[changed[0]]))
        for region in self.sets[index].values():
            if region.buffer.role == "in":
                view, pristine = self._view(region), self.pristine[region.buffer.name]
                if bool((view.view(cupy.uint8) != pristine.view(cupy.uint8)).any() if view.size else False):
                    return region.buffer.name, "an input was changed"
        return None

    def _nearest(self, offset: int) -> tuple[str, str]:
        """Say which buffer a write at `offset` of a set lies beside."""
        for region in self.sets[0].values():
            end = region.offset + region.buffer.nbytes
            if offset < region.offset:
                return region.buffer.name, f"written {_elements(region, region.offset - offset)} before its start"
            if offset < region.offset - GUARD_BYTES + _span(region.buffer):
                return region.buffer.name, f"written {_elements(region, offset - end + 1)} past its end"
        raise AssertionError("a band lies beside a buffer")


def _elements(region: Region, distance: int) -> str:
    """Return a distance in bytes as elements of the region, rounded up."""
    count = -(-distance // DTYPES[region.buffer.dtype].size)
    return f"{count} element" + ("s" if count > 1 else "")


def _span(buffer: Buffer) -> int:
    """Bytes that a buffer takes with both its guard bands, a multiple of the alignment."""
    return GUARD_BYTES + -(-(buffer.nbytes + GUARD_BYTES) // ALIGNMENT) * ALIGNMENT
