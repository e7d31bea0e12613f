"""The host as the bench sees it: kernels run at once, on the caller's thread, and a call ends when it returns.

It imitates a GPU of compute capability 9.0 with few SMs, so that grids that follow the device stay small. Times are the
host's own and mean nothing for a GPU.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Final

from pretuned.device.host import FACTS
from pretuned.measure.data import HostArray, decode, storage
from pretuned.measure.host.judge import answer, rms, view
from pretuned.measure.host.kernel import HostFault, HostKernel, Manner
from pretuned.measure.host.pages import HostEnclosure, SealablePages
from pretuned.measure.launch import BoundLaunch, BoundScalar, residency_by
from pretuned.measure.machine import (
    ByteCopy,
    ByteFill,
    Check,
    CheckResult,
    DeviceArrays,
    Refused,
    Sample,
    Sampler,
    restore,
    zero,
)
from pretuned.measure.regions import CallBuffers
from pretuned.measure.server import Answerer, server
from pretuned.outcome import Crashed, LaunchFailed
from pretuned.spec.library import LibraryCall

CHECK_BYTES: Final = 256 << 20  # that a process may take for the arrays of problems, where only results are checked
SETS: Final = 2  # one to verify, and one that shows what depends on the first


class HostMachine:
    """This process as a machine. With `limit_bytes`, buffers take no more than that."""

    facts: Final = FACTS
    gap_bytes: Final = 0  # where buffers lie says nothing of a GPU
    arrays: DeviceArrays | None = None  # NumPy computes here already

    def __init__(self, *, manner: Manner | None = None, limit_bytes: int | None = None) -> None:
        self._manner = manner or Manner()
        self._limit_bytes = limit_bytes

    def free_bytes(self) -> int:
        """Return the memory that the operating system has to give."""
        available = _available_bytes()
        return available if self._limit_bytes is None else min(available, self._limit_bytes)

    def held_bytes(self) -> int:
        """Return 0: what is available is what can be had."""
        return 0

    def allocate(self, nbytes: int) -> SealablePages:
        """Return memory for what candidates must not touch; raises OutOfMemory."""
        return SealablePages(nbytes)

    def enclose(self, sizes: Sequence[int]) -> HostEnclosure:
        """Return a room for each of `sizes` with holes on both sides; raises OutOfMemory."""
        return HostEnclosure(sizes)

    def trim(self) -> None:
        """Do nothing: memory goes back by itself."""

    def sets_wanted(self, _set_bytes: int) -> int:
        """Return 2: caches are not kept cold, since times mean nothing for a GPU."""
        return SETS

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set bytes."""
        ctypes.memset(address, value, nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes."""
        ctypes.memmove(target, source, nbytes)

    def copy_rows(self, target: int, source: int, *, pitches: tuple[int, int], row_bytes: int, rows: int) -> None:
        """Copy rows of bytes."""
        for row in range(rows):
            ctypes.memmove(target + row * pitches[0], source + row * pitches[1], row_bytes)

    def put(self, tasks: Sequence[ByteFill | ByteCopy]) -> None:
        """Fill and copy bytes."""
        for task in tasks:
            if isinstance(task, ByteFill):
                self.fill(task.address, task.value, task.nbytes)
            else:
                self.copy(task.address, task.source, task.nbytes)

    def write(self, address: int, array: HostArray) -> None:
        """Copy an array into memory."""
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def read(self, address: int, array: HostArray) -> None:
        """Fill an array from memory."""
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def held(self, _image: bytes, launch: BoundLaunch) -> int:
        """Return what its facts say; registers limit nothing here."""
        return residency_by(self.facts, {})(launch)

    def load(
        self,
        image: bytes,
        launches: Sequence[BoundLaunch],
        scalars: Sequence[BoundScalar],
        *,
        types: Mapping[str, str],
    ) -> HostKernel:
        """Load a shared library; raises Refused where its functions take other arguments than the launches pass."""
        return HostKernel(image, launches, scalars, types=types, manner=self._manner)

    def relaunched(
        self, kernel: HostKernel, launches: Sequence[BoundLaunch], scalars: Sequence[BoundScalar]
    ) -> HostKernel:
        """Return a loaded kernel with other extents and scalars."""
        return kernel.relaunched(launches, scalars)

    def load_call(self, call: LibraryCall, _buffers: CallBuffers, *, output: str) -> HostKernel:  # noqa: ARG002 - refused
        """Refuse: a library of arrays on a GPU has nothing to do here."""
        raise Refused(LaunchFailed(message=f"{call} runs on a GPU only"))

    def call(self, kernel: HostKernel, buffers: CallBuffers, index: int) -> None:
        """Call a kernel on set `index`; raises Refused for what CUDA does not allow."""
        with kernel.watching(buffers.sets[index].values()):
            self._called(kernel, buffers, index)

    def call_behind_writers(self, kernel: HostKernel, buffers: CallBuffers, index: int) -> None:
        """Call a kernel on set `index`: one launch ends here before the next begins."""
        self.call(kernel, buffers, index)

    def _called(self, kernel: HostKernel, buffers: CallBuffers, index: int) -> None:
        zero(self, buffers, index)
        try:
            kernel.launch(buffers.addresses[index])
        except HostFault as fault:
            raise Refused(Crashed(message=str(fault))) from None

    def synchronize(self) -> None:
        """Do nothing: a call is over when it returns."""

    def screen(self, kernel: HostKernel, buffers: CallBuffers, _best_us: float) -> tuple[list[float], list[int], float]:
        """Return one sample of a kernel in microseconds a call, the set it ran on, and its seconds."""
        time_us = self._timed(kernel, buffers, 0)
        return [time_us], [0], time_us / 1e6

    def canary_us(self) -> float:
        """Return 0: there is none."""
        return 0.0

    def samplers(
        self, calls: Sequence[tuple[HostKernel, CallBuffers]], _estimates_us: Sequence[float]
    ) -> Sequence[Sampler]:
        """Return what calls each kernel once, on one set after another, and is done with it at once."""

        def sampler(kernel: HostKernel, buffers: CallBuffers) -> Sampler:
            sets = cycle(range(buffers.count))

            def begin() -> Callable[[], Sample]:
                time_us = self._timed(kernel, buffers, next(sets))
                return lambda: Sample(time_us=time_us, device_us=time_us)

            return begin

        return [sampler(kernel, buffers) for kernel, buffers in calls]

    def _timed(self, kernel: HostKernel, buffers: CallBuffers, index: int) -> float:
        restore(self, buffers, index)
        with kernel.watching(buffers.sets[index].values()):
            started = time.perf_counter()
            self._called(kernel, buffers, index)
            return (time.perf_counter() - started) * 1e6

    def ask(self, checks: Sequence[Check]) -> list[CheckResult]:
        """Return the answers to `checks`."""
        return [answer(check) for check in checks]

    def rms(self, address: int, size: int) -> float:
        """Return the root of the mean of the squares of the finite ones of `size` float64; 0 if there are none."""
        return rms(address, size)

    def widen(self, address: int, dtype: str, size: int, target: int) -> None:
        """Write `size` elements of floating `dtype` to `target` in its wide type."""
        self.write(target, decode(view(address, storage(dtype), size), dtype))


def _available_bytes() -> int:
    """Return what Linux says is available (proc(5), MemAvailable)."""
    with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123 - a line at a time
        for line in file:
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return 1 << 32


def serve() -> Answerer:
    """Return the function that answers requests in a child (see `pretuned.child`)."""
    return server(lambda _index: HostMachine())


def serve_checks() -> Answerer:
    """Answer requests where only results count: within CHECK_BYTES, as those that follow."""
    return server(lambda _index: HostMachine(limit_bytes=CHECK_BYTES))


def serve_memory() -> Answerer:
    """Answer requests with modules compiled for AddressSanitizer, whose library has to be loaded first."""
    return server(lambda _index: HostMachine(manner=Manner(strict=True, kept=True), limit_bytes=CHECK_BYTES))


def serve_races() -> Answerer:
    """Answer requests with modules compiled for the detector of races."""
    return server(lambda _index: HostMachine(manner=Manner(strict=True), limit_bytes=CHECK_BYTES))
