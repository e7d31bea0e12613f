"""The side that holds the machine: one problem at a time; verifies and times candidates.

A `Bench` may be used in the process at hand, for tests and for trying a kernel; tuning runs it in a child (`server`),
since a candidate may hang, crash or poison the context.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from pretuned.measure import data
from pretuned.measure.arena import Arena, Region
from pretuned.measure.launch import Buffer, arrays, initialised, launches, scalars, scratch
from pretuned.measure.machine import (
    Array,
    Check,
    Finding,
    Kernel,
    Machine,
    Memory,
    Off,
    OutOfMemory,
    Poisoned,
    Refused,
    Unequal,
)
from pretuned.measure.requests import (
    Answer,
    Entry,
    Lost,
    Open,
    Opened,
    Prepare,
    Race,
    Raced,
    Ready,
    Request,
    Screen,
    Screened,
    TooLarge,
    Trouble,
    Verified,
    Verify,
)
from pretuned.outcome import Failure, LaunchError, Timed, WrongResult
from pretuned.spec.expressions import ExpressionError
from pretuned.spec.tolerance import tolerances
from pretuned.spec.types import DTYPES

SCREEN_SETS: Final = 4  # judged again after screening; finals judge all
PROTOCOL: Final = 1  # of measuring: raised when times of before are no longer comparable


Answerer = Callable[[Request], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What an output must be, in the machine's memory: float64 for floating outputs, else their own type."""

    memory: Memory
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


class Bench:
    """A machine with the problem that candidates are tried at."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.request: Prepare | None = None
        self.arena: Arena | None = None
        self.references: dict[str, Reference] = {}
        self.tolerances: dict[str, tuple[float, float]] = {}

    def prepare(self, request: Prepare) -> None:
        """Make inputs, reference and buffers; raises OutOfMemory or FunctionError."""
        self.arena, self.references = None, {}
        self.machine.trim()
        spec, problem = request.spec, request.problem
        buffers = arrays(spec, problem)
        self._demand_room(buffers)
        stored = data.inputs(spec, problem, request.seed)
        expected = None if request.trust_default else data.reference(spec, problem, stored)
        if expected is not None:
            self.references = {name: self._keep(array) for name, array in expected.items()}
        self.request = request
        wanted = self.machine.sets_wanted(sum(buffer.nbytes for buffer in buffers))
        self.arena = Arena(self.machine, buffers, stored, wanted)
        if expected is None:
            self.references = self._default_outputs(request.default)
        self.tolerances = {}
        for argument in spec.outputs:
            rtol, atol = tolerances(spec, argument, problem.specialisation)
            reference = self.references[argument.name]
            if atol is None:  # what an element near zero may be off by in a sum of its peers
                floating = reference.dtype == "float64"
                atol = rtol * self.machine.rms(reference.memory.address, reference.size) if floating else 0.0
            share = 2 if expected is None else 1  # the default may be off as well, the other way
            self.tolerances[argument.name] = (share * rtol, share * atol)

    def _keep(self, array: Array) -> Reference:
        """Put a reference into the machine's memory."""
        memory = self.machine.allocate(max(1, array.nbytes))
        if array.nbytes:
            self.machine.write(memory.address, array)
        return Reference(memory=memory, dtype=str(array.dtype), shape=array.shape)

    def _demand_room(self, buffers: tuple[Buffer, ...]) -> None:
        """Refuse what cannot fit before the host spends seconds on it: one set, pristine inputs, float64 outputs."""
        free = self.machine.free_bytes()
        inputs = sum(buffer.nbytes for buffer in buffers if buffer.role != "out")
        outputs = sum(8 * buffer.size for buffer in buffers if buffer.role != "in")
        needed = sum(buffer.nbytes for buffer in buffers) + inputs + outputs
        if needed > 0.8 * free:
            raise OutOfMemory(
                f"takes {needed / 1e9:.1f} GB of device memory; 80% of the free {free / 1e9:.1f} GB are allowed"
            )

    def _default_outputs(self, default: Entry) -> dict[str, Reference]:
        """Return what the default writes, as the reference of a spec that names none; raises Refused."""
        kernel, arena = self.load(default), self._arena()
        try:
            self._run(kernel, 0)
        finally:
            kernel.unload()
        outputs = {name: region for name, region in arena.sets[0].items() if region.buffer.role in {"out", "inout"}}
        return {name: self._kept_output(region) for name, region in outputs.items()}

    def _kept_output(self, region: Region) -> Reference:
        """Keep what set 0 holds as a reference."""
        buffer = region.buffer
        dtype = "float64" if DTYPES[buffer.dtype].floating else buffer.dtype
        memory = self.machine.allocate(max(1, buffer.size * DTYPES[dtype].size))
        if dtype == buffer.dtype:
            self.machine.copy(memory.address, region.address, buffer.nbytes)
        else:
            self.machine.widen(region.address, buffer.dtype, buffer.size, memory.address)
        return Reference(memory=memory, dtype=dtype, shape=buffer.shape)

    def load(self, entry: Entry) -> Kernel:
        """Load a candidate for the prepared problem; raises Refused or Poisoned."""
        spec, problem = self._prepared().spec, self._prepared().problem
        facts = self.machine.facts
        planned = launches(spec, problem, entry.configuration, facts)
        if isinstance(planned, LaunchError):
            raise Refused(planned)
        wanted = self._arena().count
        try:
            buffers = scratch(spec, problem, entry.configuration, facts)
            memory = Arena(self.machine, buffers, {}, wanted) if buffers else None
        except (ExpressionError, OutOfMemory) as error:
            raise Refused(LaunchError(message=f"scratch: {error}")) from None
        if memory is not None and memory.count < wanted:
            message = f"scratch: {memory.count} of the {wanted} sets to rotate through fit into the device's memory"
            raise Refused(LaunchError(message=message))
        zeroed = initialised(spec, entry.configuration)
        types = {buffer.name: buffer.dtype for buffer in (*self._arena().buffers, *buffers)}
        return self.machine.load(
            entry.image, planned, scalars(spec, problem), types=types, initialised=zeroed, scratch=memory
        )

    def verify(self, entry: Entry) -> Verified:
        """Run `entry` once on poisoned buffers and judge what it wrote."""
        kernel = self.load(entry)
        try:
            self._run(kernel, 0)
            failure, error = self._judge(kernel, 0)
            return Verified(failure=failure, error=error)
        finally:
            kernel.unload()

    def screen(self, request: Screen) -> Screened:
        """Verify, then time with a few samples, then judge what the timing left behind."""
        started = time.perf_counter()
        kernel = self.load(request.entry)
        try:
            self._run(kernel, 0)
            failure, _ = self._judge(kernel, 0)
            verified = time.perf_counter()
            if failure is not None:
                return Screened(outcome=failure, verify_s=verified - started, time_s=0.0)
            samples, launched = self.machine.screen(kernel, self._arena(), request.samples)
            timed = time.perf_counter()
            for index in range(1, min(SCREEN_SETS, self._arena().count, launched)):
                failure = failure or self._judge(kernel, index)[0]
            outcome = failure or summary(samples)
            return Screened(outcome=outcome, verify_s=verified - started, time_s=timed - verified)
        finally:
            kernel.unload()

    def race(self, request: Race) -> Raced:
        """Time the entries in interleaved rounds, then run each once more on every set and judge them all."""
        kernels = [self.load(entry) for entry in request.entries]
        try:
            times = self.machine.race(kernels, self._arena(), request.rounds)
            failures = tuple(self._settle(kernel) for kernel in kernels)
            return Raced(times_us=tuple(map(tuple, times)), failures=failures)
        finally:
            for kernel in kernels:
                kernel.unload()

    def _settle(self, kernel: Kernel) -> Failure | None:
        """Run a kernel back to back on every set, as the timing does, and judge every result: races show here."""
        arena = self._arena()
        for index in range(arena.count):
            self._reset(kernel, index)
        for index in range(arena.count):
            self.machine.call(kernel, arena, index)
        self.machine.synchronize()
        failures = (self._judge(kernel, index)[0] for index in range(arena.count))
        return next((failure for failure in failures if failure is not None), None)

    def _run(self, kernel: Kernel, index: int) -> None:
        self._reset(kernel, index)
        self.machine.call(kernel, self._arena(), index)
        self.machine.synchronize()

    def _reset(self, kernel: Kernel, index: int) -> None:
        self._arena().reset(index)
        if kernel.scratch is not None:
            kernel.scratch.reset(index)

    def _judge(self, kernel: Kernel, index: int) -> tuple[Failure | None, float]:
        """Return what is wrong with set `index` after a call, and the largest error as a share of the tolerance."""
        arena = self._arena()
        watches = arena.watches(index) + (kernel.scratch.watches(index) if kernel.scratch is not None else [])
        outputs = [region for region in arena.sets[index].values() if region.buffer.role != "in"]
        asked = [region for region in outputs if region.buffer.size]
        findings = self.machine.ask([*(watch.check for watch in watches), *map(self._check, asked)])
        for watch, finding in zip(watches, findings, strict=False):
            if finding.first is not None:
                return _wrong(watch.region.buffer.name, watch.message(finding.first)), 0.0
        judged_outputs = list(zip(asked, findings[len(watches) :], strict=True))
        for region, finding in judged_outputs:
            message = self._mismatch(index, region, finding)
            if message is not None:
                return _wrong(region.buffer.name, message), 0.0
        return None, max((finding.worst for _, finding in judged_outputs), default=0.0)

    def _check(self, region: Region) -> Check:
        buffer, reference = region.buffer, self.references[region.buffer.name].memory.address
        if not DTYPES[buffer.dtype].floating:
            return Unequal(address=region.address, other=reference, nbytes=buffer.nbytes)
        rtol, atol = self.tolerances[buffer.name]
        return Off(
            address=region.address, dtype=buffer.dtype, reference=reference, size=buffer.size, rtol=rtol, atol=atol
        )

    def _mismatch(self, index: int, region: Region, finding: Finding) -> str | None:
        """Return what is wrong with an output, or None; the spec's own comparison, if it has one, decides instead."""
        name, buffer = region.buffer.name, region.buffer
        prepared = self._prepared()
        if prepared.spec.verify.compare is None and finding.first is None:
            return None
        out = data.decode(self._arena().array(index, name), buffer.dtype)
        kept = self.references[name]
        reference = np.empty(kept.shape, kept.dtype)
        self.machine.read(kept.memory.address, reference)
        if prepared.spec.verify.compare is not None:
            return data.compare(prepared.spec, prepared.problem, name, out, reference)
        assert finding.first is not None  # told above
        floating = DTYPES[buffer.dtype].floating
        first = finding.first if floating else finding.first // out.itemsize
        count = f"{finding.count} of {out.size} elements are off" if floating else "elements are off"
        place = ", ".join(str(position) for position in np.unravel_index(first, buffer.shape))
        return f"{count}, first at [{place}]: {out.flat[first]:.8g} instead of {reference.flat[first]:.8g}"

    def _arena(self) -> Arena:
        assert self.arena is not None, "prepare() comes first"
        return self.arena

    def _prepared(self) -> Prepare:
        assert self.request is not None, "prepare() comes first"
        return self.request


def _wrong(name: str, message: str) -> WrongResult:
    return WrongResult(argument=name, message=f"{name}: {message}")


def summary(samples: list[float]) -> Timed:
    """Return the median of samples and their relative median absolute deviation."""
    median = statistics.median(samples)
    deviation = statistics.median(abs(sample - median) for sample in samples)
    return Timed(time_us=median, spread=deviation / median if median else 0.0, samples=len(samples))


def server(open_machine: Callable[[int], Machine], *, lost: tuple[type[Exception], ...] = ()) -> Answerer:
    """Return the function that answers requests in a child (see `pretuned.child`).

    `open_machine` takes the machine's index; exceptions of the types `lost`, like Poisoned, mean that it is lost.
    """
    bench: Bench | None = None

    def answer(request: Request) -> Answer:
        nonlocal bench
        try:
            if isinstance(request, Open):
                bench = Bench(open_machine(request.index))
                return Opened(facts=bench.machine.facts)
            assert bench is not None, "Open comes first"
            return _answer(bench, request)
        except Refused as refused:
            return _refused(request, refused)
        except (Poisoned, *lost) as error:  # type: ignore[misc]  # mypy does not follow the star
            return Lost(message=str(error))

    return answer


def _answer(bench: Bench, request: Request) -> Answer:
    match request:
        case Prepare():
            try:
                bench.prepare(request)
            except OutOfMemory as error:
                return TooLarge(reason=str(error))
            except (data.FunctionError, Refused) as error:
                return Trouble(message=f"{error} at {request.problem}")
            return Ready()
        case Verify(entry=entry):
            return bench.verify(entry)
        case Screen():
            return bench.screen(request)
        case Race():
            return bench.race(request)
        case Open():
            raise AssertionError("answered before")


def _refused(request: Request, refused: Refused) -> Answer:
    match request:
        case Verify():
            return Verified(failure=refused.outcome)
        case Screen():
            return Screened(outcome=refused.outcome, verify_s=0.0, time_s=0.0)
        case Race(entries=entries):
            return Raced(times_us=((),) * len(entries), failures=(refused.outcome,) * len(entries))
        case _:
            return Trouble(message=str(refused))
