"""What every output must be, in the machine's memory, and how far off it may be; by NumPy, or by the machine itself.

Theory of operation. A spec's `reference` says what is right, in NumPy on the host. Where that takes long, an author
names a `gpu_reference`: a function that is called with arrays of a library over the machine's memory. It is code like
any other and may add in float32 or use a library that is wrong, so it has to agree first: for each specialisation, at
one small problem, NumPy computes as well, and the two may differ by no more than a part of what a candidate may be off
by. Where they do, and where the function raises or lacks memory, NumPy's reference is used and a note says so.

It runs while no candidate does. Its results lie where those of NumPy are copied to, out of the candidates' reach and
under the same digests, and what the library holds besides is given back. A function that takes the process with it is
not asked again: the next process gets `by_numpy` with the problem.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.measure import data
from pretuned.measure.data import FunctionError, HostArray
from pretuned.measure.launch import BoundBuffer, Elements, arrays
from pretuned.measure.machine import Check, MachineMemory, Memory, Off, OutOfMemory, Unequal
from pretuned.measure.pristine import Pools, Watched
from pretuned.measure.requests import PrepareRequest
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.expressions import ExpressionError
from pretuned.spec.lists import held
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import fits_arguments
from pretuned.spec.space import Pairs, Problem
from pretuned.spec.tolerance import tolerances

SMALL: Final = 1 << 14  # elements of all arrays, up to which NumPy's reference is used, and a GPU's compared with it
MARGIN: Final = 8  # the two may differ by this part of a tolerance
TEXT: Final = 300  # characters of an error that are passed on
AGREEMENT_SEED: Final = 4  # of the inputs where they are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference(Elements):
    """What an output must be, in the machine's memory and its wide type: float64, complex128, else its own."""

    memory: Memory


def kept(machine: MachineMemory, array: HostArray) -> Reference:
    """Return a host's array as a reference; raises OutOfMemory."""
    memory = machine.allocate(max(1, array.nbytes))
    if array.nbytes:
        machine.write(memory.address, array)
    memory.seal()
    return Reference(memory=memory, dtype=str(array.dtype), shape=array.shape)


def tolerance(
    machine: MachineMemory, spec: KernelSpec, specialisation: Pairs, name: str, reference: Reference
) -> tuple[float, float]:
    """Return (rtol, atol) of output `name`: what an element near zero may be off by follows from its peers' size."""
    argument = next(output for output in spec.outputs if output.name == name)
    rtol, atol = tolerances(spec, argument, specialisation)
    if atol is None:  # what an element near zero may be off by in a sum of its peers, and is by rounding
        dtype = space.dtype_of(spec, argument.dtype, specialisation)
        atol = max(rtol * _rms(machine, reference), _smallest(dtype) / 2) if DTYPES[reference.dtype].floating else 0.0
    return rtol, atol


def _rms(machine: MachineMemory, reference: Reference) -> float:
    """Return the root mean square of the magnitudes of a floating reference."""
    parts = DTYPES[reference.dtype].parts
    return math.sqrt(parts) * machine.rms(reference.memory.address, parts * reference.size)


def _smallest(dtype: str) -> float:
    """Return the smallest number above 0 of a floating type, a subnormal one."""
    kind = DTYPES[dtype]
    bias: int = 2 ** (kind.exponent_bits - 1) - 1
    return math.ldexp(1.0, 1 - bias - kind.fraction_bits)


class DeviceReferences:
    """References that the machine computes, of specs that name a `gpu_reference`, and what came in the way of others.

    `notes` has one line for each kernel whose references NumPy computes all the same, `remarks` what to know of those
    that NumPy computes, once a kernel, by its name; who reads them takes them out.
    """

    def __init__(self, machine: MachineMemory, pools: Pools) -> None:
        self.notes: list[str] = []
        self.remarks: list[tuple[str, str]] = []
        self._remarked: set[str] = set()
        self._machine = machine
        self._pools = pools
        self._agreeing: dict[tuple[str, Pairs], tuple[KernelSpec, bool]] = {}
        self._noted: set[str] = set()

    def find(self, request: PrepareRequest, inputs: Mapping[str, Watched]) -> dict[str, Reference] | None:
        """Return what every output must be, given the machine's own `inputs`, or None where NumPy has to compute it."""
        spec, problem = request.spec, request.problem
        if spec.verify.gpu_reference is None or request.by_numpy or self._machine.arrays is None:
            return None
        if _elements(arrays(spec, problem)) <= SMALL:
            return None
        try:
            if self._agrees(spec, problem):
                return self._computed(spec, problem, inputs)
        except Exception as error:  # noqa: BLE001 - the author's function and its library raise what they like
            self._note(spec, problem, _described(error))
        finally:
            self._machine.arrays.release()
        self._machine.ask([one.check for one in inputs.values()])  # raises where the context went with it
        return None

    def remark(self, kernel: str, text: str) -> None:
        """Note what to know of a kernel's reference in NumPy; called in the thread that computes it."""
        if kernel not in self._remarked:
            self._remarked.add(kernel)
            self.remarks.append((kernel, text))

    def _agrees(self, spec: KernelSpec, problem: Problem) -> bool:
        """Whether both references say the same at a small problem of a specialisation; tried once."""
        key = spec.name, problem.specialisation
        known, agrees = self._agreeing.get(key, (None, False))
        if known != spec:
            small = small_problem(spec, problem)
            try:
                trouble = self._difference(spec, small)
            except Exception as error:  # noqa: BLE001 - as above
                trouble = _described(error)
            agrees = not trouble
            self._agreeing[key] = spec, agrees
            if trouble:
                self._note(spec, small, trouble)
        return agrees

    def _difference(self, spec: KernelSpec, problem: Problem) -> str:
        """Return by what the machine's references differ from NumPy's at a problem, beyond a part of the tolerances."""
        stored = data.inputs(spec, problem, AGREEMENT_SEED)
        wanted = data.reference(spec, problem, stored)
        assert wanted is not None  # the check of a spec with `gpu_reference` demands it
        found = self._computed(spec, problem, self._pools.lay_out(stored).inputs)
        for name, array in wanted.items():
            if not array.size:
                continue
            right = kept(self._machine, array)
            rtol, atol = tolerance(self._machine, spec, problem.specialisation, name, right)
            (finding,) = self._machine.ask([_compared(found[name], right, rtol / MARGIN, atol / MARGIN)])
            if finding.first is not None:
                by = f" by up to {finding.largest:.3g}" if finding.largest else ""
                return (
                    f"{finding.count:,} of {array.size:,} elements of '{name}' are not those of `reference`{by}; they "
                    f"may differ by 1/{MARGIN} of the tolerance"
                )
        return ""

    def _computed(self, spec: KernelSpec, problem: Problem, inputs: Mapping[str, Watched]) -> dict[str, Reference]:
        """Return what the spec's function makes of `inputs`; raises FunctionError or OutOfMemory."""
        library, target = self._machine.arrays, spec.verify.gpu_reference
        assert library is not None
        assert target is not None
        buffers = {buffer.name: buffer for buffer in arrays(spec, problem)}
        given = {
            name: library.widened(one.memory.address, buffers[name].dtype, buffers[name].shape)
            for name, one in inputs.items()
        }
        found = {}
        for name, array in data.computed(spec, target, problem, given, library.namespace).items():
            memory = self._machine.allocate(max(1, int(array.nbytes)))
            library.put(array, memory.address)
            memory.seal()
            found[name] = Reference(memory=memory, dtype=str(array.dtype), shape=tuple(array.shape))
        return found

    def _note(self, spec: KernelSpec, problem: Problem, trouble: str) -> None:
        """Note what came in the way, once a kernel: what stops one of its problems stops others."""
        if spec.name not in self._noted:
            self._noted.add(spec.name)
            self.notes.append(f"{trouble} at {problem}")


def _described(error: Exception) -> str:
    """Return in one line what was raised; the text of an error of pretuned's own says all."""
    text = " ".join(str(error).split())[:TEXT]
    return text if isinstance(error, FunctionError | OutOfMemory) else f"{type(error).__name__}: {text}"


def _compared(found: Reference, right: Reference, rtol: float, atol: float) -> Check:
    """Return the question whether two references agree."""
    if DTYPES[found.dtype].kind == "bool":
        return Unequal(address=found.memory.address, other=right.memory.address, nbytes=found.nbytes)
    ours, theirs = found.memory.address, right.memory.address
    return Off(address=ours, dtype=found.dtype, reference=theirs, size=found.size, rtol=rtol, atol=atol)


def small_problem(spec: KernelSpec, problem: Problem) -> Problem:
    """Return the largest problem of few elements that the kernel admits, of the same specialisation as `problem`.

    No dim is larger than there. All others are as large as each other, and odd before they are a power of two. Where
    none is admitted, it is the smallest of the spec's, or `problem` itself.
    """
    tried = (size for power in range(SMALL.bit_length() - 1, -1, -1) for size in (2**power - 1, 2**power))
    for size in tried:
        dims = tuple((name, held(spec, name, min(int(own), size))) for name, own in problem.dims)
        small = Problem(specialisation=problem.specialisation, dims=dims)
        if fits_arguments(spec, small) and space.admitted(spec, small) and _known_elements(spec, small) <= SMALL:
            return small
    listed = {one: _known_elements(spec, one) for one in (problem, *space.problems(spec, problem.specialisation))}
    return min(listed, key=listed.__getitem__)


def _known_elements(spec: KernelSpec, problem: Problem) -> float:
    """Return the elements of all arrays; infinity where a shape has no value."""
    try:
        return _elements(arrays(spec, problem))
    except ExpressionError:
        return math.inf


def _elements(buffers: Sequence[BoundBuffer]) -> int:
    return sum(buffer.size for buffer in buffers)
