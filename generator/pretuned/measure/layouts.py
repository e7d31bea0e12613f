"""Other ways in which the arrays of a call may lie: what a spec allows beside an array of its own for every argument.

Theory of operation. A candidate is verified and timed on the sets of a workspace, where each array has memory of its
own, aligned to 512 bytes. What a spec allows besides is a *layout*. A candidate is called in it as well, and what it
wrote is brought to the first set of the workspace, which is then judged as after any other call. Arrays that lie
elsewhere in a layout have rooms of their own, with guard bands that are checked as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pretuned.measure.launch import BoundBuffer, arrays
from pretuned.measure.machine import Enclosure, MachineMemory
from pretuned.measure.padding import Paddings
from pretuned.measure.regions import ALIGNMENT, CallBuffers, Region, placed, span
from pretuned.measure.workspace import GuardCheck, guarding, initial
from pretuned.spec import space
from pretuned.spec.guards import guards, least_alignment
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, Problem

Regions = Mapping[str, Region]  # where the arrays of a call lie, by name


class ArrayLayout(Protocol):
    """A way in which arrays may lie; `str()` of it ends messages."""

    @property
    def strides(self) -> Pairs:
        """The strides of calls, by name; empty where they are those of contiguous arrays."""
        ...

    def placed(self, regions: Regions) -> dict[str, Region]:
        """Return where the arrays lie, for those of a set."""
        ...

    def begin(self, machine: MachineMemory) -> None:
        """Give arrays that lie elsewhere what they hold before a call."""

    def bring_back(self, machine: MachineMemory, regions: Regions) -> None:
        """Give a set what the call wrote, and its inputs their values of before."""

    def guard_checks(self) -> list[GuardCheck]:
        """Return the checks of what the call must not have touched, beside those of the set."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """The output is one of the inputs."""

    output: str
    input: str
    strides: Pairs = ()

    def __str__(self) -> str:
        return f"with {self.output} in place of {self.input}"

    def placed(self, regions: Regions) -> dict[str, Region]:
        """Return where the arrays lie, for those of a set."""
        moved = replace(regions[self.input], buffer=regions[self.output].buffer)
        return {**regions, self.output: moved}

    def begin(self, machine: MachineMemory) -> None:
        """Do nothing: a set is ready as it is."""

    def bring_back(self, machine: MachineMemory, regions: Regions) -> None:
        """Give a set what the call wrote, and the input its values of before."""
        output, source = regions[self.output], regions[self.input]
        assert source.pristine is not None  # it is an input
        if nbytes := output.buffer.nbytes:
            machine.copy(output.address, source.address, nbytes)
            machine.copy(source.address, source.pristine, nbytes)

    def guard_checks(self) -> list[GuardCheck]:
        """Return none: all arrays are those of the set."""
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Arrays lie at addresses that are multiples of what is asked of them, and of no more."""

    asked: Mapping[str, int]  # bytes, by name
    regions: Regions
    strides: Pairs = ()

    def __str__(self) -> str:
        listed = " and ".join(f"{name} at a multiple of {nbytes} bytes" for name, nbytes in self.asked.items())
        return f"with {listed} and no more"

    def placed(self, regions: Regions) -> dict[str, Region]:
        """Return where the arrays lie, for those of a set."""
        return {**regions, **self.regions}

    def begin(self, machine: MachineMemory) -> None:
        """Give the arrays what they hold before a call."""
        machine.put([task for region in self.regions.values() for task in initial(region, 0) if task.nbytes])

    def bring_back(self, machine: MachineMemory, regions: Regions) -> None:
        """Give a set what the call wrote."""
        for name, region in self.regions.items():
            if region.buffer.role != "in" and region.buffer.nbytes:
                machine.copy(regions[name].address, region.address, region.buffer.nbytes)

    def guard_checks(self) -> list[GuardCheck]:
        """Return the checks of the arrays' guard bands, and of inputs."""
        return [check for region in self.regions.values() for check in guarding(region)]


class Elsewhere:
    """Memory of a problem for arrays that lie elsewhere in some layout; raises OutOfMemory.

    `nbytes` are its bytes, but for those of `paddings`; it has so many `rooms` at most.
    """

    def __init__(self, machine: MachineMemory, spec: KernelSpec, problem: Problem, pristine: Mapping[str, int]) -> None:
        self._spec, self._problem, self._pristine = spec, problem, pristine
        demanded = {one.argument for one in spec.constraints.addresses}
        names = {one.name for one in spec.arrays if one.whole in demanded}
        self._buffers: Sequence[BoundBuffer] = [one for one in arrays(spec, problem) if one.name in names]
        sizes = [span(buffer) for buffer in self._buffers]
        self.nbytes = sum(sizes)
        self._memory: Enclosure | None = machine.enclose(sizes) if sizes else None
        self.paddings = Paddings(machine, spec, problem, pristine)
        self.rooms = len(sizes) + self.paddings.rooms

    def layouts(self, configuration: Configuration, device: DeviceFacts) -> Iterator[ArrayLayout]:
        """Yield the layouts that calls of a configuration may have."""
        spec = self._spec
        for output in spec.outputs:
            for source in spec.in_place_of(output):
                if source not in spec.absent(self._problem.specialisation):
                    yield InPlace(output=output.name, input=source.name)
        if self._memory is not None:
            yield self._moved(configuration)
        yield from self.paddings.layouts(configuration, device)

    def _moved(self, configuration: Configuration) -> Moved:
        specialisation = self._problem.specialisation
        known = space.choices(self._spec, specialisation)
        asked = {one.name: least_alignment(self._spec, known, one) for one in self._spec.arrays}
        guarded = dict(guards(self._spec, specialisation, configuration).align)
        asked |= {one.name: guarded[one.whole] for one in self._spec.arrays if one.whole in guarded}
        regions = {}
        assert self._memory is not None
        for buffer, room in zip(self._buffers, self._memory.rooms, strict=True):
            region = placed(buffer, room, pristine=self._pristine.get(buffer.name))
            back = max(0, ALIGNMENT - asked[buffer.name])  # the band in front of it is longer than that
            regions[buffer.name] = replace(
                region,
                address=region.address - back,
                front_bytes=region.front_bytes - back,
                tail_bytes=region.tail_bytes + back,
            )
        return Moved(asked={buffer.name: asked[buffer.name] for buffer in self._buffers}, regions=regions)


def laid_out(layout: ArrayLayout, buffers: CallBuffers) -> CallBuffers:
    """Return the first set of a call's buffers in a layout."""
    zeroed = frozenset(region.buffer.name for region in buffers.zeroed[0])
    return CallBuffers([layout.placed(buffers.sets[0])], zeroed=zeroed, cold=False)
