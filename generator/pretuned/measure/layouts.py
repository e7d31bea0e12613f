"""Other ways in which the arrays of a call may lie: what a spec allows beside an array of its own for every argument.

Theory of operation. A candidate is verified and timed on the sets of a workspace, where each array has memory of its
own. What a spec allows besides is a *layout*. A set is brought into it, the candidate is called there, and what it
wrote is brought back to the set, which is then judged as after any other call: results, guard bands and inputs alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pretuned.measure.machine import MachineMemory
from pretuned.measure.regions import CallBuffers, Region
from pretuned.spec.model import KernelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """The output is one of the inputs."""

    output: str
    input: str

    def __str__(self) -> str:
        return f"with {self.output} in place of {self.input}"

    def placed(self, regions: Mapping[str, Region]) -> dict[str, Region]:
        """Return where the arrays of a call lie, for those of a set."""
        moved = replace(regions[self.input], buffer=regions[self.output].buffer)
        return {**regions, self.output: moved}

    def bring_back(self, machine: MachineMemory, regions: Mapping[str, Region]) -> None:
        """Give a set what the call wrote, and the input its values of before."""
        output, source = regions[self.output], regions[self.input]
        assert source.pristine is not None  # it is an input
        if nbytes := output.buffer.nbytes:
            machine.copy(output.address, source.address, nbytes)
            machine.copy(source.address, source.pristine, nbytes)


def layouts(spec: KernelSpec) -> tuple[InPlace, ...]:
    """Return the layouts that calls of a kernel may have."""
    return tuple(
        InPlace(output=output.name, input=source.name) for output in spec.outputs for source in spec.in_place_of(output)
    )


def laid_out(layout: InPlace, buffers: CallBuffers) -> CallBuffers:
    """Return the first set of a call's buffers in a layout."""
    zeroed = frozenset(region.buffer.name for region in buffers.zeroed[0])
    return CallBuffers([layout.placed(buffers.sets[0])], zeroed=zeroed, cold=False)
