"""Rows that lie apart: a call in memory where the strides that a spec names are not those of contiguous arrays.

Theory of operation. For each configuration two paddings are tried that its guards admit: one by as odd a number of
elements as can be, and one by the least that suits wide accesses. An array whose strides have names gets a room for it,
and an *image*, which holds what the room does before a call: rows with their values, and a pattern between them. After
the call what was written is brought back row by row; with the rows of the image in its place, the room has to be the
image again, or the call has written between rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pretuned.measure.launch import BoundBuffer, arrays
from pretuned.measure.machine import Enclosure, MachineMemory, Memory, OutOfMemory, Unequal
from pretuned.measure.regions import Region, placed, span
from pretuned.measure.workspace import GUARD, POISONS, GuardCheck, guarding, initial
from pretuned.runtime.types import DTYPES
from pretuned.spec import space, strides
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import fits_arguments
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, Problem

KEPT: Final = 4  # paddings whose memory stays
KEPT_SHARE: Final = 1 / 8  # of the free memory that they may have


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedArray:
    """An array whose rows lie apart. `pitches` are its strides in bytes by axis, `pristine` its values of before."""

    buffer: BoundBuffer
    region: Region
    image: Memory
    pitches: tuple[int, ...]
    pristine: int | None

    def copy(self, machine: MachineMemory, *, target: int, source: int, dense: str) -> None:
        """Copy all elements; `dense` says which of target and source is contiguous, or neither."""
        shape, size = self.buffer.shape, DTYPES[self.buffer.dtype].size_bytes
        if not self.buffer.nbytes:
            return
        side_by_side = tuple(math.prod(shape[axis + 1 :]) * size for axis in range(len(shape)))
        to = side_by_side if dense == "target" else self.pitches
        of = side_by_side if dense == "source" else self.pitches
        axis = max(axis for axis in range(len(shape)) if self.named(axis))
        for place in itertools.product(*(range(extent) for extent in shape[:axis])):
            machine.copy_rows(
                target + sum(index * pitch for index, pitch in zip(place, to, strict=False)),
                source + sum(index * pitch for index, pitch in zip(place, of, strict=False)),
                pitches=(to[axis], of[axis]),
                row_bytes=math.prod(shape[axis + 1 :]) * size,
                rows=shape[axis],
            )

    def named(self, axis: int) -> bool:
        """Return whether elements below an axis do not lie side by side."""
        below = math.prod(self.buffer.shape[axis + 1 :]) * DTYPES[self.buffer.dtype].size_bytes
        return axis == 0 or self.pitches[axis] != below


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsApart:
    """The strides of a call are not those of contiguous arrays."""

    strides: Pairs
    contiguous: Mapping[str, int]
    padded: Sequence[PaddedArray]
    fill: int
    memory: Enclosure

    def __str__(self) -> str:
        return "with " + " and ".join(f"{name} = {apart} (not {self.contiguous[name]})" for name, apart in self.strides)

    @property
    def nbytes(self) -> int:
        """The bytes of the rooms and images."""
        return 2 * sum(one.region.buffer.nbytes for one in self.padded)

    def placed(self, regions: Mapping[str, Region]) -> dict[str, Region]:
        """Return where the arrays lie, for those of a set."""
        return {**regions, **{one.buffer.name: one.region for one in self.padded}}

    def begin(self, machine: MachineMemory) -> None:
        """Give the arrays what they hold before a call."""
        for one in self.padded:
            if nbytes := one.region.buffer.nbytes:
                machine.fill(one.image.address, self.fill, nbytes)
            if one.pristine is not None:
                one.copy(machine, target=one.image.address, source=one.pristine, dense="source")
        machine.put([task for one in self.padded for task in initial(one.region, 0) if task.nbytes])

    def bring_back(self, machine: MachineMemory, regions: Mapping[str, Region]) -> None:
        """Give a set what the call wrote, and the rooms the rows of before."""
        for one in self.padded:
            if one.buffer.role != "in":
                one.copy(machine, target=regions[one.buffer.name].address, source=one.region.address, dense="target")
                one.copy(machine, target=one.region.address, source=one.image.address, dense="neither")

    def guard_checks(self) -> list[GuardCheck]:
        """Return the checks of guard bands, of inputs, and of what lies between rows."""
        found = [check for one in self.padded for check in guarding(one.region)]
        for one in self.padded:
            if one.buffer.role != "in" and (nbytes := one.region.buffer.nbytes):
                check = Unequal(address=one.region.address, other=one.image.address, nbytes=nbytes)
                found.append(GuardCheck(check=check, region=one.region, kind="between"))
        return found


class Paddings:
    """The memory of a problem for arrays whose rows lie apart, made as configurations ask for it.

    It has so many `rooms` at most.
    """

    def __init__(self, machine: MachineMemory, spec: KernelSpec, problem: Problem, pristine: Mapping[str, int]) -> None:
        self._machine, self._spec, self._problem, self._pristine = machine, spec, problem, pristine
        self._values = space.environment(spec, problem)
        named = {argument.name: strides.names_of(spec, argument) for argument in spec.arrays}
        self._named = [(one, named[one.name]) for one in arrays(spec, problem) if named[one.name]]
        self.rooms = KEPT * len(self._named)
        self._made: dict[tuple[Pairs, int], RowsApart] = {}  # the least recently used first

    def layouts(self, configuration: Configuration, device: DeviceFacts) -> Iterator[RowsApart]:
        """Yield the layouts that calls of a configuration may have and that fit into the memory."""
        if not self._named:
            return

        def legal(problem: Problem) -> bool:
            return space.legal(self._spec, problem, configuration, device)

        for paddings, fill in ((strides.ODD, POISONS[0]), (strides.EVEN, GUARD)):
            chosen = self._chosen(paddings, legal)
            if chosen is not None and (made := self._laid_out(chosen, fill)) is not None:
                yield made

    def _chosen(self, paddings: Sequence[strides.Padding], legal: Callable[[Problem], bool]) -> Pairs | None:
        """Return the strides of the first padding at which a configuration may be called."""
        for padding in paddings:
            apart = space.pairs(strides.padded(self._spec, self._values, padding))
            problem = replace(self._problem, strides=apart)
            if fits_arguments(self._spec, problem) and space.admitted(self._spec, problem) and legal(problem):
                return apart
        return None

    def _laid_out(self, apart: Pairs, fill: int) -> RowsApart | None:
        """Return a layout; None where it does not fit: a smaller problem shows what is wrong."""
        key = apart, fill
        found = self._made.pop(key, None)
        if found is None:
            while len(self._made) >= KEPT:
                self._made.pop(next(iter(self._made)))
            try:
                found = self._make(apart, fill)
            except OutOfMemory:
                self.forget()
                return None
        self._made[key] = found
        most = KEPT_SHARE * self._machine.free_bytes()
        while self._made and sum(one.nbytes for one in self._made.values()) > most:  # what is in use stays until then
            self._made.pop(next(iter(self._made)))
        return found

    def forget(self) -> None:
        """Give all memory back."""
        self._made.clear()
        self._machine.trim()

    def _make(self, apart: Pairs, fill: int) -> RowsApart:
        """Return a layout in memory of its own; raises OutOfMemory."""
        known, listed = dict(apart), []
        for buffer, names in self._named:
            below = [math.prod(buffer.shape[axis + 1 :]) for axis in range(len(names), len(buffer.shape))]
            elements = (*(int(known[name]) for name in names), *below)
            listed.append((buffer, replace(buffer, shape=(strides.span(buffer.shape, elements),)), elements))
        memory = self._machine.enclose([span(flat) for _, flat, _ in listed])
        padded = []
        for (buffer, flat, elements), room in zip(listed, memory.rooms, strict=True):
            image = self._machine.allocate(max(1, flat.nbytes))
            size = DTYPES[buffer.dtype].size_bytes
            padded.append(
                PaddedArray(
                    buffer=buffer,
                    region=placed(flat, room, pristine=image.address),
                    image=image,
                    pitches=tuple(size * stride for stride in elements),
                    pristine=self._pristine.get(buffer.name),
                )
            )
        contiguous = strides.contiguous(self._spec, self._values)
        return RowsApart(strides=apart, contiguous=contiguous, padded=padded, fill=fill, memory=memory)
