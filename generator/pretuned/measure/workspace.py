"""The memory of one problem: sets of buffers to rotate through, and guard bands.

Each *set* holds every buffer of one call. Timing rotates through as many sets as it takes to keep a launch from finding
its own data in L2.

All buffers of all sets lie in an *enclosure* of the machine: a room for each, and holes of addresses that nothing may
touch, around every room or around all of them. Guard bands of a known pattern fill everything else in the rooms. So a
write that misses its buffer hits a hole, which ends the process that runs candidates; a band, which is checked after
each call; a buffer of the same set, which is compared with what it must hold; or something of another set. `elsewhere`
finds the latter: a call on one set must leave the digests of the others as they were.

What results are judged by lies elsewhere: pristine inputs (`pretuned.measure.pristine`), and references in the stage. A
machine seals it, so that a write ends the process; where it cannot, digests are checked (`Stage.digests`).

Where a buffer lies decides how its accesses spread over the channels of memory and the slices of L2, by a percent or
two of a kernel's time. So buffers lie at random distances from each other: launches that rotate through the sets meet
many layouts, as calls do, and no candidate wins by the layout that one allocation happened to have.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pretuned.measure.launch import BoundBuffer
from pretuned.measure.machine import Check, Digest, MachineMemory, OutOfMemory, Unequal, Unlike
from pretuned.measure.regions import ALIGNMENT, MEMORY_SHARE, CallBuffers, Region, placed, span
from pretuned.runtime.types import DTYPES

GUARD: Final = 0xA5
# What outputs and scratch hold before a call, one after the other. NaN shows what was not written, or is computed with.
# But comparisons with it are false, and fmaxf(NaN, x) is x: what is compared with shows by numbers at either end.
POISONS: Final = (0xFF, 0x7B, 0xFB)  # in every floating type: NaN, a large number and a small one
INTEGER_POISONS: Final = (0x5B, 0xDB)  # nothing that counts or small inputs give


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardCheck:
    """A check of what a call must not touch, and how to say that it did: `message(first)`."""

    check: Check
    region: Region
    kind: str  # before, behind, or changed

    def message(self, first: int) -> str:
        """Return what happened, from the first place that was touched, in bytes."""
        size = DTYPES[self.region.buffer.dtype].size_bytes
        match self.kind:
            case "before":
                return f"written {_elements(self.region.front_bytes - first, size)} before its start"
            case "behind":
                return f"written {_elements(first + 1, size)} past its end"
            case _:
                return f"an input was changed, first at element {first // size}"


class Workspace:
    """`count` sets of `buffers`, of which inputs hold what lies at the addresses `pristine`, by name.

    Raises OutOfMemory if not even one set fits; fewer sets than asked are made where not all do. `cold` says whether
    calls shall find nothing of their data in caches. `nbytes` are those of all sets; `allocated_bytes` count the gaps
    too, of up to the machine's `gap_bytes`, that `seed` decides.
    """

    def __init__(
        self,
        machine: MachineMemory,
        buffers: Sequence[BoundBuffer],
        pristine: Mapping[str, int],
        count: int,
        *,
        cold: bool = True,
        seed: int = 0,
    ) -> None:
        self.buffers = tuple(buffers)
        self.cold = cold
        self._machine = machine
        set_bytes = sum(span(buffer) + machine.gap_bytes for buffer in self.buffers)
        room = int(machine.free_bytes() * MEMORY_SHARE)
        self.count = min(count, room // max(1, set_bytes))
        if self.count == 0:
            raise OutOfMemory(f"a call takes {set_bytes:,} bytes; {room:,} are free to measure with")
        self.nbytes = self.count * sum(map(span, self.buffers))
        self.allocated_bytes = self.count * set_bytes
        self._memory = machine.enclose([span(buffer) + machine.gap_bytes for buffer in self.buffers] * self.count)
        places = random.Random(seed)  # noqa: S311 - no secret
        rooms = iter(self._memory.rooms)
        self.sets: list[dict[str, Region]] = []
        for index in range(self.count):
            regions = {}
            for buffer in self.buffers:
                gap = ALIGNMENT * places.randrange(machine.gap_bytes // ALIGNMENT + 1)
                regions[buffer.name] = placed(buffer, next(rooms), gap, pristine=pristine.get(buffer.name))
            self.sets.append(regions)
            self.reset(index)

    def call_buffers(self, *, zeroed: frozenset[str], scratch: Workspace | None = None) -> CallBuffers:
        """Return the sets as calls see them, those of `scratch` joined to them."""
        sets = self.sets
        if scratch is not None:
            sets = [ours | theirs for ours, theirs in zip(self.sets, scratch.sets, strict=True)]
        return CallBuffers(sets, zeroed=zeroed, cold=self.cold, nbytes=self.nbytes)

    def array(self, index: int, name: str) -> np.ndarray[Any, Any]:
        """Return buffer `name` of set `index` as the host sees it, in its storage type."""
        buffer = self.sets[index][name].buffer
        host = np.empty(buffer.shape, DTYPES[buffer.dtype].storage)
        if host.nbytes:
            self._machine.read(self.sets[index][name].address, host)
        return host

    def reset(self, index: int, turn: int = 0) -> None:
        """Bring set `index` to the state before a call: inputs pristine, outputs and scratch poisoned, bands whole.

        `turn` and `index` choose the poison: set 0 holds NaN in turn 0.
        """
        for region in self.sets[index].values():
            self._fill(region.address - region.front_bytes, GUARD, region.front_bytes)
            self._fill(region.end, GUARD, region.tail_bytes)
            if region.pristine is None:
                poisons = POISONS if DTYPES[region.buffer.dtype].floating else INTEGER_POISONS
                self._fill(region.address, poisons[(index + turn) % len(poisons)], region.buffer.nbytes)
            elif region.buffer.nbytes:
                self._machine.copy(region.address, region.pristine, region.buffer.nbytes)

    def _fill(self, address: int, value: int, nbytes: int) -> None:
        if nbytes:
            self._machine.fill(address, value, nbytes)

    def guard_checks(self, index: int) -> list[GuardCheck]:
        """Return the checks that find a changed guard band or input in set `index`."""
        found = []
        for region in self.sets[index].values():
            front = Unlike(address=region.address - region.front_bytes, nbytes=region.front_bytes, value=GUARD)
            found.append(GuardCheck(check=front, region=region, kind="before"))
            tail = Unlike(address=region.end, nbytes=region.tail_bytes, value=GUARD)
            found.append(GuardCheck(check=tail, region=region, kind="behind"))
            if region.buffer.role == "in" and region.pristine is not None:
                check = Unequal(address=region.address, other=region.pristine, nbytes=region.buffer.nbytes)
                found.append(GuardCheck(check=check, region=region, kind="changed"))
        return found

    def elsewhere(self, index: int) -> list[Digest]:
        """Return the checks whose answers a call on set `index` must leave as they are: all rooms of the other sets."""
        spans: list[tuple[int, int]] = []
        others = [regions for other, regions in enumerate(self.sets) if other != index]
        for region in (region for regions in others for region in regions.values()):
            begin, end = region.address - region.front_bytes, region.end + region.tail_bytes
            if spans and spans[-1][1] == begin:
                begin = spans.pop()[0]
            spans.append((begin, end))
        return [Digest(address=begin, nbytes=end - begin) for begin, end in spans]


def _elements(nbytes: int, size: int) -> str:
    """Return a distance in bytes as elements of `size` bytes, rounded up."""
    count = -(-nbytes // size)
    return f"{count} element" + ("s" if count > 1 else "")
