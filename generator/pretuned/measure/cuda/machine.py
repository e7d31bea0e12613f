"""A GPU as the bench sees it: memory, launches and timing on one stream, through CuPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cupy

from pretuned.measure import bench
from pretuned.measure.arena import Arena
from pretuned.measure.cuda import timing
from pretuned.measure.cuda.judge import Judge
from pretuned.measure.cuda.kernel import Kernel, judged
from pretuned.measure.launch import Launch, Scalar
from pretuned.measure.machine import Array, Check, Finding, OutOfMemory
from pretuned.spec.space import DeviceFacts

_runtime: Final[Any] = cupy.cuda.runtime


@dataclass(frozen=True, slots=True)
class Memory:
    """Device memory of CuPy's pool."""

    pointer: Any

    @property
    def address(self) -> int:
        """Where it begins."""
        return int(self.pointer.ptr)


class CudaMachine:
    """The GPU with CUDA's ordinal `index`, and one stream on it."""

    errors: Final = (_runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)  # the context may be lost

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
        self._judge = Judge(self.facts, self.stream)

    def free_bytes(self) -> int:
        """Return the device memory that is free."""
        return int(_runtime.memGetInfo()[0])

    def allocate(self, nbytes: int) -> Memory:
        """Return memory of the pool; raises OutOfMemory."""
        try:
            return Memory(cupy.cuda.alloc(nbytes))
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise OutOfMemory(str(error)) from None

    def trim(self) -> None:
        """Give what the pool holds in vain back to the device."""
        cupy.get_default_memory_pool().free_all_blocks()

    def sets_wanted(self, set_bytes: int) -> int:
        """Return how many sets keep a launch from meeting its own data in L2."""
        return timing.sets_wanted(set_bytes, self.facts.l2_bytes)

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set bytes, in stream order."""
        _runtime.memsetAsync(address, value, nbytes, self.stream.ptr)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes on the device, in stream order."""
        _runtime.memcpyAsync(target, source, nbytes, _runtime.memcpyDeviceToDevice, self.stream.ptr)

    def write(self, address: int, array: Array) -> None:
        """Copy an array to the device, in stream order; it may be changed afterwards."""
        _runtime.memcpyAsync(address, array.ctypes.data, array.nbytes, _runtime.memcpyHostToDevice, self.stream.ptr)
        self.stream.synchronize()

    def read(self, address: int, array: Array) -> None:
        """Fill an array from the device, once all before is done."""
        _runtime.memcpyAsync(array.ctypes.data, address, array.nbytes, _runtime.memcpyDeviceToHost, self.stream.ptr)
        self.stream.synchronize()

    def load(
        self,
        image: bytes,
        launches: Sequence[Launch],
        scalars: Sequence[Scalar],
        *,
        types: Mapping[str, str],  # noqa: ARG002 - a cubin does not tell what it takes
        initialised: frozenset[str],
        scratch: Arena | None,
    ) -> Kernel:
        """Load a cubin; raises Refused or Poisoned."""
        return Kernel(image, launches, scalars, initialised=initialised, scratch=scratch)

    def call(self, kernel: Kernel, arena: Arena, index: int) -> None:
        """Enqueue one call on set `index`; raises Refused or Poisoned."""
        timing.enqueue(kernel, arena, index, self.stream)

    def synchronize(self) -> None:
        """Wait for the stream; raises Refused or Poisoned for what went wrong on it."""
        try:
            self.stream.synchronize()
        except _runtime.CUDARuntimeError as error:
            raise judged(error) from None

    def screen(self, kernel: Kernel, arena: Arena, samples: int) -> tuple[list[float], int]:
        """Return a few samples of one kernel, in microseconds a call, and on how many sets it ran."""
        return timing.screen(kernel, arena, self._judge, self.stream, samples)

    def race(self, kernels: Sequence[Kernel], arena: Arena, rounds: int) -> list[list[float]]:
        """Return interleaved samples in microseconds a call; one list a kernel, by round."""
        return timing.race(kernels, arena, self._judge, self.stream, rounds)

    def ask(self, checks: Sequence[Check]) -> list[Finding]:
        """Return the answers to `checks`, asked together; waits for the device."""
        return self._judge.ask(checks)

    def rms(self, address: int, size: int) -> float:
        """Return the root of the mean of the squares of the finite ones of `size` float64; 0 if there are none."""
        return self._judge.rms(address, size)

    def widen(self, address: int, dtype: str, size: int, target: int) -> None:
        """Write `size` elements of floating `dtype` to `target` as float64."""
        self._judge.widen(address, dtype, size, target)


def serve() -> bench.Answerer:
    """Return the function that answers requests in a child (see `pretuned.child`)."""
    return bench.server(CudaMachine, lost=CudaMachine.errors)
