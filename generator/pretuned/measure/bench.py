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

from pretuned.measure import compare, data, timing
from pretuned.measure.arena import Arena, OutOfMemory
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
from pretuned.spec.space import DeviceFacts
from pretuned.spec.tolerance import tolerances

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
        self.sweep = timing.Sweep(self.facts.l2_bytes)
        self.request: Prepare | None = None
        self.arena: Arena | None = None
        self.references: dict[str, Any] = {}
        self.tolerances: dict[str, tuple[float, float]] = {}
        self._warm_up()

    def _warm_up(self) -> None:
        """Have CuPy compile and load the kernels that judging uses, so that a limit measures the candidate alone."""
        names = ("float64", "float32", "float16", "bfloat16", "int32")
        for dtype in names:
            buffers = [Buffer(name=role, role=role, dtype=dtype, shape=(64,)) for role in ("in", "inout", "out")]
            stored = {role: data.encode(np.ones(64), dtype) for role in ("in", "inout")}
            arena = Arena(buffers, stored, 2)
            arena.restore(0)
            arena.damage(0)
            reference = compare.widened(arena.array(0, "in"), dtype) if "float" in dtype else arena.array(0, "in")
            for name in ("in", "out"):
                compare.mismatch(arena.array(0, name), dtype, reference, 0.0, 0.0)
                compare.worst_ratio(arena.array(0, name), dtype, reference, 0.0, 0.0)
            if "float" in dtype:
                compare.absolute_tolerance(reference, 0.0)
        self.sweep()
        self.stream.synchronize()

    def prepare(self, request: Prepare) -> None:
        """Make inputs, reference and buffers; raises OutOfMemory or FunctionError."""
        self.arena, self.references = None, {}
        cupy.get_default_memory_pool().free_all_blocks()
        spec, problem = request.spec, request.problem
        buffers = arrays(spec, problem)
        self._demand_room(buffers)
        stored = data.inputs(spec, problem, request.seed)
        expected = data.reference(spec, problem, stored)
        if expected is not None:
            self.references = {name: cupy.asarray(array) for name, array in expected.items()}
        self.request = request
        wanted = timing.sets_wanted(sum(buffer.nbytes for buffer in buffers), self.facts.l2_bytes)
        self.arena = Arena(buffers, stored, wanted)
        if expected is None:
            self.references = self._default_outputs(request.default)
        self.tolerances = {}
        for argument in spec.outputs:
            rtol, atol = tolerances(spec, argument, problem.specialisation)
            reference = self.references[argument.name]
            if atol is None:
                floating = reference.dtype == cupy.float64
                atol = compare.absolute_tolerance(reference, rtol) if floating else 0.0
            self.tolerances[argument.name] = (rtol, atol)

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
        dtypes = {buffer.name: buffer.dtype for buffer in arena.buffers}
        found = {}
        for name, array in (
            (argument.name, arena.array(0, argument.name)) for argument in self._prepared().spec.outputs
        ):
            floating = "float" in dtypes[name]
            found[name] = compare.widened(array, dtypes[name]) if floating else array.copy()
        return found

    def load(self, entry: Entry) -> Kernel:
        """Load a candidate for the prepared problem; raises Refused or Poisoned."""
        spec, problem = self._prepared().spec, self._prepared().problem
        planned = launches(spec, problem, entry.configuration, self.facts)
        if isinstance(planned, LaunchError):
            raise Refused(planned)
        buffers = scratch(spec, problem, entry.configuration, self.facts)
        memory = Arena(buffers, {}, self._arena().count) if buffers else None
        zeroed = initialised(spec, entry.configuration)
        return Kernel(entry.image, planned, scalars(spec, problem), initialised=zeroed, scratch=memory)

    def verify(self, entry: Entry) -> Verified:
        """Run `entry` once on poisoned buffers and judge what it wrote."""
        kernel = self.load(entry)
        try:
            self._run(kernel, 0)
            failure = self._judge(kernel, 0)
            return Verified(failure=failure, error=0.0 if failure else self._error())
        finally:
            kernel.unload()

    def screen(self, request: Screen) -> Screened:
        """Verify, then time with a few samples, then judge what the timing left behind."""
        started = time.perf_counter()
        kernel = self.load(request.entry)
        try:
            self._run(kernel, 0)
            failure = self._judge(kernel, 0)
            verified = time.perf_counter()
            if failure is not None:
                return Screened(outcome=failure, verify_s=verified - started, time_s=0.0)
            samples, launched = timing.screen(kernel, self._arena(), self.sweep, self.stream, request.samples)
            timed = time.perf_counter()
            for index in range(1, min(SCREEN_SETS, self._arena().count, launched)):
                failure = failure or self._judge(kernel, index)
            outcome = failure or summary(samples)
            return Screened(outcome=outcome, verify_s=verified - started, time_s=timed - verified)
        finally:
            kernel.unload()

    def race(self, request: Race) -> Raced:
        """Time the entries in interleaved rounds, then run each once more on every set and judge them all."""
        kernels = [self.load(entry) for entry in request.entries]
        try:
            times = timing.race(kernels, self._arena(), self.sweep, self.stream, request.rounds)
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
        failures = (self._judge(kernel, index) for index in range(arena.count))
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

    def _judge(self, kernel: Kernel, index: int) -> Failure | None:
        """Return what is wrong with set `index` after a call, or None."""
        arena = self._arena()
        for memory in (arena, kernel.scratch):
            damage = memory.damage(index) if memory is not None else None
            if damage is not None:
                return WrongResult(argument=damage[0], message=f"{damage[0]}: {damage[1]}")
        for argument in self._prepared().spec.outputs:
            buffer = arena.sets[index][argument.name].buffer
            stored, reference = arena.array(index, argument.name), self.references[argument.name]
            rtol, atol = self.tolerances[argument.name]
            message = self._compare(argument.name, stored, buffer, reference, rtol, atol)
            if message is not None:
                return WrongResult(argument=argument.name, message=f"{argument.name}: {message}")
        return None

    def _compare(self, name: str, stored: Any, buffer: Buffer, reference: Any, rtol: float, atol: float) -> str | None:  # noqa: ANN401
        spec, problem = self._prepared().spec, self._prepared().problem
        if spec.verify.compare is None:
            return compare.mismatch(stored, buffer.dtype, reference, rtol, atol)
        out = data.decode(cupy.asnumpy(stored), buffer.dtype)
        return data.compare(spec, problem, name, out, cupy.asnumpy(reference))

    def _error(self) -> float:
        """Return the largest error of set 0 as a share of the tolerance."""
        arena = self._arena()
        worst = 0.0
        for argument in self._prepared().spec.outputs:
            buffer = arena.sets[0][argument.name].buffer
            pair = arena.array(0, argument.name), self.references[argument.name]
            worst = max(worst, compare.worst_ratio(pair[0], buffer.dtype, pair[1], *self.tolerances[argument.name]))
        return worst

    def _arena(self) -> Arena:
        assert self.arena is not None, "prepare() comes first"
        return self.arena

    def _prepared(self) -> Prepare:
        assert self.request is not None, "prepare() comes first"
        return self.request


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
