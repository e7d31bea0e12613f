"""One problem on the machine: inputs, buffers to rotate through, and what every output must be.

References run on the host, in a thread of their own, while other candidates or problems are timed: they are waited for
only where something is judged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Final

from pretuned.measure import data
from pretuned.measure.data import HostArray
from pretuned.measure.launch import BoundBuffer, absent, arrays
from pretuned.measure.layouts import Elsewhere
from pretuned.measure.machine import CheckResult, Digest, MachineMemory, Memory, OutOfMemory
from pretuned.measure.pristine import Pools, Watched, watched
from pretuned.measure.regions import MEMORY_SHARE
from pretuned.measure.requests import PrepareRequest
from pretuned.measure.workspace import Workspace
from pretuned.remedies import FULL
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.tolerance import tolerances

PLACES: Final = 1 << 16  # seeds of places, which those of inputs are below


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What an output must be, in the machine's memory and its wide type: float64, complex128, else its own."""

    memory: Memory
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * DTYPES[self.dtype].size_bytes


class Stage:
    """A prepared problem; raises OutOfMemory where it does not fit, FunctionError where making inputs fails."""

    def __init__(self, machine: MachineMemory, request: PrepareRequest, pools: Pools) -> None:
        spec, problem = request.spec, request.problem
        self.request = request
        self._machine = machine
        buffers = arrays(spec, problem)
        demand_room(machine, buffers)
        self._stored = data.inputs(spec, problem, request.seed)
        self.by_default = request.trust_default or spec.verify.reference is None
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

    def begin_reference(self, host: Executor) -> None:
        """Have `host` make the reference, if nothing does yet."""
        if self._references is None and self._expected is None:
            request = self.request
            self._expected = host.submit(data.reference, request.spec, request.problem, self._stored)

    @property
    def references(self) -> Mapping[str, Reference]:
        """What every output must be, by name; waits for the host, and raises FunctionError where its function fails."""
        if self._references is None:
            assert self._expected is not None, "begin_reference() comes first"
            expected = self._expected.result()
            assert expected is not None  # the spec names a reference
            self._expected = None
            self._refer({name: self._keep(array) for name, array in expected.items()})
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

    def _keep(self, array: HostArray) -> Reference:
        memory = self._machine.allocate(max(1, array.nbytes))
        if array.nbytes:
            self._machine.write(memory.address, array)
        memory.seal()
        return Reference(memory=memory, dtype=str(array.dtype), shape=array.shape)

    def tolerance(self, name: str) -> tuple[float, float]:
        """Return (rtol, atol) of output `name`; where the default is the reference, it may be off as well."""
        references = self.references
        if name not in self._tolerances:
            self._tolerances[name] = self._tolerance(name, references[name])
        return self._tolerances[name]

    def _tolerance(self, name: str, reference: Reference) -> tuple[float, float]:
        spec = self.request.spec
        argument = next(output for output in spec.outputs if output.name == name)
        rtol, atol = tolerances(spec, argument, self.request.problem.specialisation)
        if atol is None:  # what an element near zero may be off by in a sum of its peers, and is by rounding
            dtype = space.dtype_of(spec, argument.dtype, self.request.problem.specialisation)
            floating = DTYPES[reference.dtype].floating
            atol = max(rtol * self._rms(reference), _smallest(dtype) / 2) if floating else 0.0
        share = 2 if self.by_default else 1
        return share * rtol, share * atol

    def _rms(self, reference: Reference) -> float:
        """Return the root mean square of the magnitudes of a floating reference."""
        parts = DTYPES[reference.dtype].parts
        return math.sqrt(parts) * self._machine.rms(reference.memory.address, parts * reference.size)


def _smallest(dtype: str) -> float:
    """Return the smallest number above 0 of a floating type, a subnormal one."""
    kind = DTYPES[dtype]
    bias: int = 2 ** (kind.exponent_bits - 1) - 1
    return math.ldexp(1.0, 1 - bias - kind.fraction_bits)


def demand_room(machine: MachineMemory, buffers: Sequence[BoundBuffer]) -> None:
    """Refuse what cannot fit before the host spends seconds on it: one set, pristine inputs, wide outputs."""
    free = machine.free_bytes()
    needed = footprint(buffers)
    if needed > MEMORY_SHARE * free:
        held = machine.held_bytes()
        remedy = f"; {held / 1e9:.1f} GB are taken: {FULL}" if needed <= MEMORY_SHARE * (free + held) else ""
        raise OutOfMemory(
            f"takes {needed / 1e9:.1f} GB of device memory; "
            f"{MEMORY_SHARE:.0%} of the free {free / 1e9:.1f} GB are allowed{remedy}"
        )


def footprint(buffers: Sequence[BoundBuffer]) -> int:
    """Return the fewest bytes that a problem takes: one set, pristine inputs, wide outputs."""
    inputs = sum(buffer.nbytes for buffer in buffers if buffer.role != "out")
    outputs = sum(8 * DTYPES[buffer.dtype].parts * buffer.size for buffer in buffers if buffer.role != "in")
    return sum(buffer.nbytes for buffer in buffers) + inputs + outputs
