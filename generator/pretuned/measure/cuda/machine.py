"""A GPU as the bench sees it: memory, launches and timing on one stream, through CuPy."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import cupy

from pretuned.measure.cuda.arrays import CupyArrays
from pretuned.measure.cuda.enclosure import CudaEnclosure, Fences
from pretuned.measure.cuda.judge import CudaJudge
from pretuned.measure.cuda.kernel import CudaKernel, LoadedBinary, judged
from pretuned.measure.cuda.launching import ERRORS
from pretuned.measure.cuda.library import LibraryKernel
from pretuned.measure.cuda.timing import Loaded, Timer
from pretuned.measure.data import HostArray
from pretuned.measure.launch import BoundLaunch, BoundScalar
from pretuned.measure.machine import (
    ByteCopy,
    ByteFill,
    Check,
    CheckResult,
    Machine,
    OutOfMemory,
    Refused,
    Sampler,
    zero,
)
from pretuned.measure.regions import ALIGNMENT, CallBuffers, Region
from pretuned.measure.sampling import sets_wanted
from pretuned.measure.server import Answerer, server
from pretuned.outcome import LaunchFailed
from pretuned.runtime.driver import DriverError
from pretuned.runtime.types import DTYPES
from pretuned.spec.library import LibraryCall
from pretuned.spec.space import DeviceFacts

_runtime: Final[Any] = cupy.cuda.runtime
GAP_BYTES: Final = 1 << 20
GAP_SHARE: Final = 1 << 16  # of the free memory: hundreds of buffers have a gap each
SWITCH_S: Final = 2e-4  # a reference in another thread may keep the launches waiting for so long
MOST_PITCH: Final = 2**31 - 1  # bytes from row to row that cudaMemcpy2D takes (cudaDeviceProp::memPitch)
MODULES: Final = 1024  # that stay loaded: one takes 0.1 ms to load and some 100 KB


@dataclass(frozen=True, slots=True)
class CudaMemory:
    """Device memory of CuPy's pool, which lies beyond the holes around what candidates may touch."""

    pointer: Any
    sealed: ClassVar[bool] = False

    @property
    def address(self) -> int:
        """Where it begins."""
        return int(self.pointer.ptr)

    def seal(self) -> None:
        """Do nothing: digests watch it."""


class CudaMachine:
    """The GPU with CUDA's ordinal `index`, and one stream on it."""

    errors: Final = (*ERRORS, DriverError)  # the context may be lost

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
        self._fences = Fences(index, self.stream.synchronize)
        self.gap_bytes = min(GAP_BYTES, self.free_bytes() // GAP_SHARE // ALIGNMENT * ALIGNMENT)
        self.arrays = CupyArrays(self)
        self._judge = CudaJudge(self.facts, self.stream)
        self._timer = Timer(self, self._judge, self.stream)
        self._modules: OrderedDict[bytes, LoadedBinary] = OrderedDict()  # the least recently used first

    def free_bytes(self) -> int:
        """Return the device memory that is free."""
        return int(_runtime.memGetInfo()[0]) + self._fences.kept_bytes

    def held_bytes(self) -> int:
        """Return the device memory that programs hold, this one included."""
        free, total = _runtime.memGetInfo()
        return int(total) - int(free)

    def allocate(self, nbytes: int) -> CudaMemory:
        """Return memory of the pool; raises OutOfMemory."""
        try:
            try:
                return CudaMemory(cupy.cuda.alloc(nbytes))
            except cupy.cuda.memory.OutOfMemoryError:
                self.trim()
                return CudaMemory(cupy.cuda.alloc(nbytes))
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise OutOfMemory(str(error)) from None

    def enclose(self, sizes: Sequence[int]) -> CudaEnclosure:
        """Return rooms with holes before and behind all of them; of the pool where the driver has no such memory."""
        enclosure = self._fences.enclose(sizes)
        if enclosure is not None:
            return enclosure
        memory = self.allocate(max(1, sum(sizes)))
        return CudaEnclosure(memory.address, sum(sizes), sizes, owner=memory)

    def trim(self) -> None:
        """Give what is held in vain back to the device."""
        cupy.get_default_memory_pool().free_all_blocks()
        self._fences.trim()

    def sets_wanted(self, set_bytes: int) -> int:
        """Return how many sets keep a launch from meeting its own data in L2."""
        return sets_wanted(set_bytes, self.facts.l2_bytes)

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set bytes, in stream order."""
        _runtime.memsetAsync(address, value, nbytes, self.stream.ptr)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes on the device, in stream order."""
        _runtime.memcpyAsync(target, source, nbytes, _runtime.memcpyDeviceToDevice, self.stream.ptr)

    def copy_rows(self, target: int, source: int, *, pitches: tuple[int, int], row_bytes: int, rows: int) -> None:
        """Copy rows of bytes on the device, in stream order."""
        if max(pitches) > MOST_PITCH:
            for row in range(rows):
                self.copy(target + row * pitches[0], source + row * pitches[1], row_bytes)
            return
        kind = _runtime.memcpyDeviceToDevice
        _runtime.memcpy2DAsync(target, pitches[0], source, pitches[1], row_bytes, rows, kind, self.stream.ptr)

    def put(self, tasks: Sequence[ByteFill | ByteCopy]) -> None:
        """Fill and copy memory in one launch, in stream order."""
        self._judge.put(tasks)

    def write(self, address: int, array: HostArray) -> None:
        """Copy an array to the device, in stream order; it may be changed afterwards."""
        _runtime.memcpyAsync(address, array.ctypes.data, array.nbytes, _runtime.memcpyHostToDevice, self.stream.ptr)
        self.stream.synchronize()

    def read(self, address: int, array: HostArray) -> None:
        """Fill an array from the device, once all before is done."""
        _runtime.memcpyAsync(array.ctypes.data, address, array.nbytes, _runtime.memcpyDeviceToHost, self.stream.ptr)
        self.stream.synchronize()

    def load(
        self,
        image: bytes,
        launches: Sequence[BoundLaunch],
        scalars: Sequence[BoundScalar],
        *,
        types: Mapping[str, str],  # noqa: ARG002 - a cubin does not say what it takes
    ) -> CudaKernel:
        """Load a cubin, if it is not; raises Refused or Poisoned."""
        return CudaKernel(self._module(image), launches, scalars)

    def held(self, image: bytes, launch: BoundLaunch) -> int:
        """Ask the driver how many blocks of a launch the device holds at once; raises Refused or Poisoned."""
        return self._module(image).held(launch, self.facts.sm_count)

    def _module(self, image: bytes) -> LoadedBinary:
        module = self._modules.get(image)
        if module is None:
            module = self._modules[image] = LoadedBinary(image)
            if len(self._modules) > MODULES:
                self._modules.popitem(last=False)[1].unload()
        self._modules.move_to_end(image)
        return module

    def relaunched(self, kernel: Loaded, launches: Sequence[BoundLaunch], scalars: Sequence[BoundScalar]) -> Loaded:
        """Return a loaded kernel with other extents and scalars; raises Refused or Poisoned."""
        return kernel if isinstance(kernel, LibraryKernel) else CudaKernel(kernel.module, launches, scalars)

    def load_call(self, call: LibraryCall, buffers: CallBuffers, *, output: str) -> LibraryKernel:
        """Load a library function and try it at set 0; raises Refused or Poisoned.

        Libraries load kernels, choose algorithms and take memory at their first call, which no sample may hold. What
        waits for the device inside a call is refused: its time cannot be separated from the host's.
        """
        kernel = LibraryKernel(call, self.stream, output=output)
        self.call(kernel, buffers, 0)
        self.synchronize()
        if not self._timer.prepare_call(kernel, buffers):
            raise Refused(LaunchFailed(message=f"{call} waits for the device in its call, so it cannot be timed"))
        return kernel

    def call(self, kernel: Loaded, buffers: CallBuffers, index: int) -> None:
        """Enqueue one call on set `index`; raises Refused or Poisoned."""
        zero(self, buffers, index)
        kernel.launch(buffers, index, self.stream.ptr)

    def call_behind_writers(self, kernel: Loaded, buffers: CallBuffers, index: int) -> None:
        """Call a kernel on set `index`, each launch that may overlap behind one that writes its arrays late.

        Before that they hold NaN, or zeros of integers. A launch behind zeroed memory cannot begin early: fills of
        memory are no kernels. Inputs may be read early by one that is `settled`. Raises Refused or Poisoned.
        """
        if isinstance(kernel, LibraryKernel):
            self.call(kernel, buffers, index)
            return
        zero(self, buffers, index)
        for place in range(kernel.count):
            regions = [buffers.sets[index][name] for name in kernel.overlapping(place)]
            early = {"in"} if kernel.settled(place) else set()
            regions = [region for region in regions if region.buffer.nbytes and region.buffer.role not in early]
            if not regions or (place == 0 and buffers.zeroed[index]):
                kernel.launch_one(place, buffers, index, self.stream.ptr)
                continue
            late = self._rewritten(regions)
            self._judge.hold()
            try:
                late()
                kernel.launch_one(place, buffers, index, self.stream.ptr)
            finally:
                self._judge.release()

    def _rewritten(self, regions: Sequence[Region]) -> Callable[[], None]:
        """Spoil regions, and return what enqueues that they are written again, late."""
        copies = [(region, self.allocate(region.buffer.nbytes)) for region in regions]
        self._judge.put([ByteCopy(copy.address, region.address, region.buffer.nbytes) for region, copy in copies])
        spoilt = [(region, 0xFF if DTYPES[region.buffer.dtype].floating else 0) for region in regions]
        self._judge.put([ByteFill(region.address, region.buffer.nbytes, value) for region, value in spoilt])
        late = self._judge.late(
            [ByteCopy(region.address, copy.address, region.buffer.nbytes) for region, copy in copies]
        )
        return partial(_behind, late, copies)

    def synchronize(self) -> None:
        """Wait for the stream; raises Refused or Poisoned for what went wrong on it."""
        try:
            self.stream.synchronize()
        except _runtime.CUDARuntimeError as error:
            raise judged(error) from None

    def screen(self, kernel: Loaded, buffers: CallBuffers, best_us: float) -> tuple[list[float], list[int], float]:
        """Return samples of a kernel in microseconds a call, the sets it ran on last, and the device's seconds."""
        return self._timer.screen(kernel, buffers, best_us)

    def canary_us(self) -> float:
        """Return the time of a kernel that takes a fixed number of cycles; 0 if it could not be taken."""
        return self._timer.canary_us()

    def samplers(self, calls: Sequence[tuple[Loaded, CallBuffers]], estimates_us: Sequence[float]) -> Sequence[Sampler]:
        """Return what takes samples of each kernel in a race, of as many launches for all."""
        return self._timer.samplers(calls, estimates_us)

    def ask(self, checks: Sequence[Check]) -> list[CheckResult]:
        """Return the answers to `checks`, asked together; waits for the device."""
        return self._judge.ask(checks)

    def rms(self, address: int, size: int) -> float:
        """Return the root of the mean of the squares of the finite ones of `size` float64; 0 if there are none."""
        return self._judge.rms(address, size)

    def widen(self, address: int, dtype: str, size: int, target: int) -> None:
        """Write `size` elements of floating `dtype` to `target` in its wide type."""
        self._judge.widen(address, dtype, size, target)


def _behind(enqueue: Callable[[], None], _copies: Sequence[tuple[Region, CudaMemory]]) -> None:
    """Enqueue what reads copies, which live until then: their pool gives memory away in the order of the stream."""
    enqueue()


def serve() -> Answerer:
    """Return the function that answers requests in a child (see `pretuned.child`)."""
    # Functions are loaded with their module: loading one may wait for the device, which may be held for the host.
    os.environ["CUDA_MODULE_LOADING"] = "EAGER"
    sys.setswitchinterval(SWITCH_S)
    opened: Callable[[int], Machine[Loaded]] = CudaMachine
    return server(opened, lost=CudaMachine.errors)
