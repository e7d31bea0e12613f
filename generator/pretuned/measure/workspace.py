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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pretuned.measure.launch import BoundBuffer
from pretuned.measure.machine import ByteCopy, ByteFill, Check, Digest, MachineMemory, OutOfMemory, Unequal, Unlike
from pretuned.measure.regions import ALIGNMENT, MEMORY_SHARE, CallBuffers, Region, placed, span
from pretuned.runtime.types import DTYPES

GUARD: Final = 0xA5
# What outputs and scratch hold before a call, one after the other. NaN shows what was not written, or is computed with.
# But comparisons with it are false, and fmaxf(NaN, x) is x: what is compared with shows by numbers at either end.
POISONS: Final = (0xFF, 0x7B, 0xFB)  # in every floating type: NaN, a large number and a small one
INTEGER_POISONS: Final = (0x5B, 0xDB)  # nothing that counts or small inputs give
TURNS: Final = len(POISONS) * len(INTEGER_POISONS)  # after which both begin anew


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardCheck:
    """A check of what a call must not touch, and how to say that it did: `message(first)`."""

    check: Check
    region: Region
    kind: str  # before, behind, between, or changed

    def message(self, first: int) -> str:
        """Return what happened, from the first place that was touched, in bytes."""
        size = DTYPES[self.region.buffer.dtype].size_bytes
        match self.kind:
            case "before":
                return f"written {_elements(self.region.front_bytes - first, size)} before its start"
            case "behind":
                return f"written {_elements(first + 1, size)} past its end"
            case "between":
                return f"written between its rows, first at element {first // size} from its start"
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
        for _ in range(self.count):
            regions = {}
            for buffer in self.buffers:
                gap = ALIGNMENT * places.randrange(machine.gap_bytes // ALIGNMENT + 1)
                regions[buffer.name] = placed(buffer, next(rooms), gap, pristine=pristine.get(buffer.name))
            self.sets.append(regions)
        self._tasks: dict[tuple[int, int], list[ByteFill | ByteCopy]] = {}
        self._checks: dict[int, list[GuardCheck]] = {}
        self.reset(range(self.count))

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

    def reset(self, indices: Sequence[int], turn: int = 0) -> None:
        """Bring sets to the state before a call: inputs pristine, outputs and scratch poisoned, bands whole.

        `turn` and the set's index choose the poison: set 0 holds NaN in turn 0.
        """
        self._machine.put([task for index in indices for task in self._initial(index, (index + turn) % TURNS)])

    def _initial(self, index: int, poison: int) -> list[ByteFill | ByteCopy]:
        if (index, poison) not in self._tasks:
            regions = self.sets[index].values()
            tasks = [task for region in regions for task in initial(region, poison) if task.nbytes]
            self._tasks[index, poison] = tasks
        return self._tasks[index, poison]

    def guard_checks(self, index: int) -> list[GuardCheck]:
        """Return the checks that find a changed guard band or input in set `index`."""
        if index not in self._checks:
            self._checks[index] = [check for region in self.sets[index].values() for check in guarding(region)]
        return self._checks[index]

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


def initial(region: Region, poison: int) -> Iterator[ByteFill | ByteCopy]:
    """Yield what brings a buffer to its state before a call, whose poison that number chooses."""
    yield ByteFill(address=region.address - region.front_bytes, nbytes=region.front_bytes, value=GUARD)
    yield ByteFill(address=region.end, nbytes=region.tail_bytes, value=GUARD)
    nbytes = region.buffer.nbytes
    if region.pristine is not None:
        yield ByteCopy(address=region.address, source=region.pristine, nbytes=nbytes)
    else:
        poisons = POISONS if DTYPES[region.buffer.dtype].floating else INTEGER_POISONS
        yield ByteFill(address=region.address, nbytes=nbytes, value=poisons[poison % len(poisons)])


def guarding(region: Region) -> Iterator[GuardCheck]:
    """Yield the checks that find a changed guard band or input."""
    front = Unlike(address=region.address - region.front_bytes, nbytes=region.front_bytes, value=GUARD)
    yield GuardCheck(check=front, region=region, kind="before")
    tail = Unlike(address=region.end, nbytes=region.tail_bytes, value=GUARD)
    yield GuardCheck(check=tail, region=region, kind="behind")
    if region.buffer.role == "in" and region.pristine is not None:
        check = Unequal(address=region.address, other=region.pristine, nbytes=region.buffer.nbytes)
        yield GuardCheck(check=check, region=region, kind="changed")


def _elements(nbytes: int, size: int) -> str:
    """Return a distance in bytes as elements of `size` bytes, rounded up."""
    count = -(-nbytes // size)
    return f"{count} element" + ("s" if count > 1 else "")
