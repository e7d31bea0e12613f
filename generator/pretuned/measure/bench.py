"""The side that holds the GPU: one device, one problem at a time; verifies and times candidates. Uses CuPy.

A `Bench` may be used in the process at hand, for tests and for trying a kernel; tuning runs it in a child (`serve`),
since a candidate may hang, crash or poison the context.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import cupy
import numpy as np

from pretuned.measure import data, timing
from pretuned.measure.arena import Arena, OutOfMemory, Region
from pretuned.measure.judge import Check, Finding, Judge, off, unequal
from pretuned.measure.kernel import Kernel, Poisoned, Refused, judged
from pretuned.measure.launch import Buffer, arrays, initialised, launches, scalars, scratch
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
from pretuned.spec.space import DeviceFacts
from pretuned.spec.tolerance import tolerances
from pretuned.spec.types import DTYPES

SCREEN_SETS: Final = 4  # judged again after screening; finals judge all
PROTOCOL: Final = 1  # of measuring: raised when times of before are no longer comparable


class Bench:
    """A GPU with the problem that candidates are tried at.

    Args:
        index: CUDA's ordinal of the device.
    """

    def __init__(self, index: int) -> None:
        self.device = cupy.cuda.Device(index)
        self.device.use()
        attributes = self.device.attributes
        self.facts = DeviceFacts(
            sm_count=attributes["MultiProcessorCount"],
            compute_capability=int(self.device.compute_capability),
            shared_bytes=attributes["MaxSharedMemoryPerBlockOptin"],
            l2_bytes=attributes["L2CacheSize"],
        )
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.judge = Judge(self.facts, self.stream)
        self.request: Prepare | None = None
        self.arena: Arena | None = None
        self.references: dict[str, Any] = {}
        self.tolerances: dict[str, tuple[float, float]] = {}

    def prepare(self, request: Prepare) -> None:
        """Make inputs, reference and buffers; raises OutOfMemory or FunctionError."""
        self.arena, self.references = None, {}
        cupy.get_default_memory_pool().free_all_blocks()
        spec, problem = request.spec, request.problem
        buffers = arrays(spec, problem)
        self._demand_room(buffers)
        stored = data.inputs(spec, problem, request.seed)
        expected = None if request.trust_default else data.reference(spec, problem, stored)
        if expected is not None:
            self.references = {name: cupy.asarray(array) for name, array in expected.items()}
        self.request = request
        wanted = timing.sets_wanted(sum(buffer.nbytes for buffer in buffers), self.facts.l2_bytes)
        self.arena = Arena(buffers, stored, wanted, self.stream)
        if expected is None:
            self.references = self._default_outputs(request.default)
        self.tolerances = {}
        for argument in spec.outputs:
            rtol, atol = tolerances(spec, argument, problem.specialisation)
            reference = self.references[argument.name]
            if atol is None:  # what an element near zero may be off by in a sum of its peers
                atol = rtol * self.judge.rms(reference) if reference.dtype == cupy.float64 else 0.0
            share = 2 if expected is None else 1  # the default may be off as well, the other way
            self.tolerances[argument.name] = (share * rtol, share * atol)

    def _demand_room(self, buffers: tuple[Buffer, ...]) -> None:
        """Refuse what cannot fit before the host spends seconds on it: one set, pristine inputs, float64 outputs."""
        free = cupy.cuda.runtime.memGetInfo()[0]
        inputs = sum(buffer.nbytes for buffer in buffers if buffer.role != "out")
        outputs = sum(8 * buffer.size for buffer in buffers if buffer.role != "in")
        needed = sum(buffer.nbytes for buffer in buffers) + inputs + outputs
        if needed > 0.8 * free:
            raise OutOfMemory(
                f"takes {needed / 1e9:.1f} GB of device memory; 80% of the free {free / 1e9:.1f} GB are allowed"
            )

    def _default_outputs(self, default: Entry) -> dict[str, Any]:
        """Return what the default writes, as the reference of a spec that names none; raises Refused."""
        kernel, arena = self.load(default), self._arena()
        self._run(kernel, 0)
        found = {}
        for name, region in arena.sets[0].items():
            if region.buffer.role in {"out", "inout"}:
                floating = DTYPES[region.buffer.dtype].floating
                wide = (
                    self.judge.widened(region.address, region.buffer.dtype, region.buffer.shape) if floating else None
                )
                found[name] = wide if floating else cupy.asarray(arena.array(0, name))
        return found

    def load(self, entry: Entry) -> Kernel:
        """Load a candidate for the prepared problem; raises Refused or Poisoned."""
        spec, problem = self._prepared().spec, self._prepared().problem
        planned = launches(spec, problem, entry.configuration, self.facts)
        if isinstance(planned, LaunchError):
            raise Refused(planned)
        wanted = self._arena().count
        try:
            buffers = scratch(spec, problem, entry.configuration, self.facts)
            memory = Arena(buffers, {}, wanted, self.stream) if buffers else None
        except (ExpressionError, OutOfMemory, cupy.cuda.memory.OutOfMemoryError) as error:
            raise Refused(LaunchError(message=f"scratch: {error}")) from None
        if memory is not None and memory.count < wanted:
            message = f"scratch: {memory.count} of the {wanted} sets to rotate through fit into the device's memory"
            raise Refused(LaunchError(message=message))
        zeroed = initialised(spec, entry.configuration)
        return Kernel(entry.image, planned, scalars(spec, problem), initialised=zeroed, scratch=memory)

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
            samples, launched = timing.screen(kernel, self._arena(), self.judge, self.stream, request.samples)
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
            times = timing.race(kernels, self._arena(), self.judge, self.stream, request.rounds)
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
            timing.enqueue(kernel, arena, index, self.stream)
        self._synchronize()
        failures = (self._judge(kernel, index)[0] for index in range(arena.count))
        return next((failure for failure in failures if failure is not None), None)

    def _run(self, kernel: Kernel, index: int) -> None:
        self._reset(kernel, index)
        timing.enqueue(kernel, self._arena(), index, self.stream)
        self._synchronize()

    def _reset(self, kernel: Kernel, index: int) -> None:
        self._arena().reset(index)
        if kernel.scratch is not None:
            kernel.scratch.reset(index)

    def _synchronize(self) -> None:
        try:
            self.stream.synchronize()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise judged(error) from None

    def _judge(self, kernel: Kernel, index: int) -> tuple[Failure | None, float]:
        """Return what is wrong with set `index` after a call, and the largest error as a share of the tolerance."""
        arena = self._arena()
        watches = arena.watches(index) + (kernel.scratch.watches(index) if kernel.scratch is not None else [])
        outputs = [region for region in arena.sets[index].values() if region.buffer.role != "in"]
        asked = [region for region in outputs if region.buffer.size]
        findings = self.judge.ask([*(watch.check for watch in watches), *map(self._check, asked)])
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
        reference = self.references[region.buffer.name]
        if not DTYPES[region.buffer.dtype].floating:
            return unequal(region.address, reference.data.ptr, region.buffer.nbytes)
        return off(region.address, region.buffer.dtype, reference, *self.tolerances[region.buffer.name])

    def _mismatch(self, index: int, region: Region, finding: Finding) -> str | None:
        """Return what is wrong with an output, or None; the spec's own comparison, if it has one, decides instead."""
        name, buffer = region.buffer.name, region.buffer
        prepared = self._prepared()
        if prepared.spec.verify.compare is None and finding.first is None:
            return None
        out = data.decode(self._arena().array(index, name), buffer.dtype)
        reference = cupy.asnumpy(self.references[name])
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


def serve() -> Callable[[Request], Answer]:
    """Return the function that answers requests in a child (see `pretuned.child`)."""
    bench: Bench | None = None

    def answer(request: Request) -> Answer:
        nonlocal bench
        try:
            if isinstance(request, Open):
                bench = Bench(request.index)
                return Opened(facts=bench.facts)
            assert bench is not None, "Open comes first"
            return _answer(bench, request)
        except Refused as refused:
            return _refused(request, refused)
        except (Poisoned, cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
            return Lost(message=str(error))

    return answer


def _answer(bench: Bench, request: Request) -> Answer:
    match request:
        case Prepare():
            try:
                bench.prepare(request)
            except (OutOfMemory, cupy.cuda.memory.OutOfMemoryError) as error:
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
