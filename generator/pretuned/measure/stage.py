"""One problem on the machine: inputs, buffers to rotate through, and what every output must be.

NumPy's references run on the host, in a thread of their own, while other candidates or problems are timed: they are
waited for only where something is judged. Those that the machine computes are made at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Final

from pretuned.measure import data
from pretuned.measure.data import HostArray
from pretuned.measure.launch import BoundBuffer, absent, arrays
from pretuned.measure.layouts import Elsewhere
from pretuned.measure.machine import CheckResult, Digest, MachineMemory, OutOfMemory
from pretuned.measure.pristine import Pools, Watched, watched
from pretuned.measure.references import DeviceReferences, Reference, kept, tolerance
from pretuned.measure.regions import MEMORY_SHARE
from pretuned.measure.requests import PrepareRequest
from pretuned.measure.workspace import Workspace
from pretuned.remedies import FULL
from pretuned.runtime.types import DTYPES

PLACES: Final = 1 << 16  # seeds of places, which those of inputs are below


class Stage:
    """A prepared problem; raises OutOfMemory where it does not fit, FunctionError where making inputs fails."""

    def __init__(self, machine: MachineMemory, request: PrepareRequest, pools: Pools) -> None:
        spec, problem = request.spec, request.problem
        self.request = request
        self._machine = machine
        buffers = arrays(spec, problem)
        demand_room(machine, buffers)
        self._stored = data.inputs(spec, problem, request.seed)
        self.by_default = request.by_default
        self._expected: Future[dict[str, HostArray] | None] | None = None
        self._references: dict[str, Reference] | None = None
        self._inputs: dict[str, HostArray] | None = None
        self._place = 0
        self.pristine = pools.lay_out(self._stored)
        self._referred: list[Watched] = []
        self._tolerances: dict[str, tuple[float, float]] = {}
        at = {name: one.memory.address for name, one in self.pristine.inputs.items()}
        self.elsewhere = Elsewhere(machine, spec, problem, at)
        self.workspace = self._laid_out()
        self.nbytes = self.workspace.allocated_bytes + footprint(buffers) + self.elsewhere.nbytes

    @property
    def digests(self) -> list[Digest]:
        """The checks that show whether what results are judged by is what it was, for `trusts`."""
        return [one.check for one in self._watched]

    def trusts(self, results: Sequence[CheckResult]) -> bool:
        """Return whether the answers to `digests` are those of the beginning."""
        return [result.count for result in results] == [one.digest for one in self._watched]

    @property
    def _watched(self) -> list[Watched]:
        watched = (*self.pristine.pools, *self.pristine.inputs.values(), *self._referred)
        return [one for one in watched if one.digest is not None]

    def move(self, place: int) -> None:
        """Lay the buffers out anew, in other memory and at other distances from each other; `place` 0 is the first.

        What judges results stays where it is, so nothing comes from the host. Where both layouts do not fit into the
        device's memory, the old one is given back before.
        """
        if place == self._place:
            return
        self._place = place
        if MEMORY_SHARE * self._machine.free_bytes() < self.workspace.allocated_bytes + self.workspace.nbytes:
            del self.workspace
            self.elsewhere.paddings.forget()
        self.workspace = self._laid_out()

    def _laid_out(self) -> Workspace:
        spec, seed = self.request.spec, self.request.seed + PLACES * self._place
        buffers, cold = arrays(spec, self.request.problem), spec.cache == "cold"
        wanted = self._machine.sets_wanted(sum(buffer.nbytes for buffer in buffers)) if cold else 1
        pristine = {name: one.memory.address for name, one in self.pristine.inputs.items()}
        return Workspace(self._machine, buffers, pristine, wanted, cold=cold, seed=seed)

    def begin_reference(self, host: Executor, device: DeviceReferences) -> None:
        """Have the device make the reference, or `host` where that cannot be, if nothing does yet."""
        if self._references is None and self._expected is None:
            request = self.request
            found = device.find(request, self.pristine.inputs)
            if found is not None:
                self._refer(found)
                return
            remark = partial(device.remark, request.spec.name)
            self._expected = host.submit(data.reference, request.spec, request.problem, self._stored, remark)

    @property
    def references(self) -> Mapping[str, Reference]:
        """What every output must be, by name; waits for the host, and raises FunctionError where its function fails."""
        if self._references is None:
            assert self._expected is not None, "begin_reference() comes first"
            expected = self._expected.result()
            assert expected is not None  # the spec names a reference
            self._expected = None
            self._refer({name: kept(self._machine, array) for name, array in expected.items()})
        assert self._references is not None
        return self._references

    def _refer(self, references: dict[str, Reference]) -> None:
        self._references, self._tolerances = references, {}
        self._referred = watched(self._machine, [(one.memory, one.nbytes) for one in references.values()])

    @property
    def inputs(self) -> dict[str, HostArray | None]:
        """What every `in` and `inout` array held before the call, each in its wide type; not to be written to.

        None for what the call leaves out.
        """
        if self._inputs is None:
            dtypes = {buffer.name: buffer.dtype for buffer in arrays(self.request.spec, self.request.problem)}
            self._inputs = {name: data.decoded(one, dtypes[name]) for name, one in self._stored.items()}
            for values in self._inputs.values():
                values.flags.writeable = False
        return {**self._inputs, **dict.fromkeys(absent(self.request.spec, self.request.problem))}

    def keep_outputs(self) -> None:
        """Make the reference of what the default has just written to set 0."""
        found = {}
        for name, region in self.workspace.sets[0].items():
            buffer = region.buffer
            if buffer.role not in {"out", "inout"}:
                continue
            dtype = DTYPES[buffer.dtype].wide
            memory = self._machine.allocate(max(1, buffer.size * DTYPES[dtype].size_bytes))
            if dtype == buffer.dtype:
                self._machine.copy(memory.address, region.address, buffer.nbytes)
            else:
                self._machine.widen(region.address, buffer.dtype, buffer.size, memory.address)
            memory.seal()
            found[name] = Reference(memory=memory, dtype=dtype, shape=buffer.shape)
        self._refer(found)

    def tolerance(self, name: str) -> tuple[float, float]:
        """Return (rtol, atol) of output `name`; where the default is the reference, it may be off as well."""
        references = self.references
        if name not in self._tolerances:
            request, share = self.request, 2 if self.by_default else 1
            given = tolerance(self._machine, request.spec, request.problem.specialisation, name, references[name])
            self._tolerances[name] = share * given[0], share * given[1]
        return self._tolerances[name]


def demand_room(machine: MachineMemory, buffers: Sequence[BoundBuffer]) -> None:
    """Refuse what cannot fit before the host spends seconds on it: one set, pristine inputs, wide outputs."""
    free = machine.free_bytes()
    needed = footprint(buffers)
    if needed > MEMORY_SHARE * free:
        held = machine.held_bytes()
        passing = needed <= MEMORY_SHARE * (free + held)
        remedy = f"; {held / 1e9:.1f} GB are taken: {FULL}" if passing else ""
        raise OutOfMemory(
            f"takes {needed / 1e9:.1f} GB of device memory; "
            f"{MEMORY_SHARE:.0%} of the free {free / 1e9:.1f} GB are allowed{remedy}",
            passing=passing,
        )


def footprint(buffers: Sequence[BoundBuffer]) -> int:
    """Return the fewest bytes that a problem takes: one set, pristine inputs, wide outputs."""
    inputs = sum(buffer.nbytes for buffer in buffers if buffer.role != "out")
    outputs = sum(8 * DTYPES[buffer.dtype].parts * buffer.size for buffer in buffers if buffer.role != "in")
    return sum(buffer.nbytes for buffer in buffers) + inputs + outputs
