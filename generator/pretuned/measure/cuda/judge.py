"""Judging on the device: what a call wrote against what it should have written, and what it must not have touched.

Pass: |out - ref| <= atol + rtol * |ref|, or both are the same infinity, or both NaN. The difference of integers is
exact; booleans must be equal bit for bit. The kernels stand in judge.cu; CuPy's own elementwise kernels would each
take seconds to compile on a machine that has not run them before.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

import cupy
import numpy as np

from pretuned.compile.nvrtc import compile_source
from pretuned.compile.result import Binary
from pretuned.errors import DeviceError
from pretuned.measure.cuda.launching import driver, enqueue
from pretuned.measure.machine import Check, CheckResult, Digest, Off, Unequal, Unlike
from pretuned.outcome import detail
from pretuned.render import Source
from pretuned.runtime.types import DTYPES
from pretuned.spec.space import DeviceFacts

BLOCK: Final = 256  # threads
BLOCKS_PER_SM: Final = 8
SLOTS: Final = 4  # of a check: first index, count, bits of the worst share, the largest error or its bits
SWEEP_FACTOR: Final = 2  # times L2
CANARY_LENGTH: Final = 8192  # operations of four cycles each: some 20 us
HOLD_NS: Final = 5_000_000  # a host that was interrupted for longer has lost its sample
FLOATING: Final = tuple(dtype for dtype in DTYPES.values() if dtype.floating)
KERNELS: Final = (
    *("unlike", "unequal", "digest", "squares", "sweep", "hold", "canary", "compare_integers"),
    *(f"{kernel}_{dtype.name}" for kernel in ("compare", "widen") for dtype in FLOATING),
)
_NOWHERE: Final = 2**64 - 1


def source() -> str:
    """Return the text of judge.cu for all floating types: their headers before it, their kernels behind."""
    text = files("pretuned.measure.cuda").joinpath("judge.cu").read_text(encoding="utf-8")
    headers = dict.fromkeys(f"#include <{dtype.header}>" for dtype in FLOATING if dtype.header)
    kernels = [f"FLOATING({dtype.name}, {dtype.cuda})" for dtype in FLOATING]
    return "\n".join((*headers, text, *kernels, ""))


class CudaJudge:
    """The kernels of judge.cu, loaded on the current device; all work goes to `stream`."""

    def __init__(self, facts: DeviceFacts, stream: Any) -> None:  # noqa: ANN401 - CuPy ships no types
        binary = compile_source(Source(text=source(), options=(), functions=()), f"sm_{facts.compute_capability}")
        if not isinstance(binary, Binary):
            raise DeviceError(f"the kernels that judge results do not compile: {detail(binary)}")
        self._module = driver.moduleLoadData(binary.image)
        self._blocks = BLOCKS_PER_SM * facts.sm_count
        self._stream = stream
        self._functions = {name: driver.moduleGetFunction(self._module, name) for name in KERNELS}
        self._swept = cupy.empty(SWEEP_FACTOR * max(facts.l2_bytes, 1 << 20), cupy.uint8)
        self._swept.data.memset_async(0, self._swept.nbytes, stream)
        self._sink = cupy.empty(1, cupy.float32)
        self._pinned = cupy.cuda.alloc_pinned_memory(4)  # the device sees it at the same address
        self._gate = np.frombuffer(self._pinned, np.int32, 1)
        self._gate[0] = 0

    def ask(self, checks: Sequence[Check]) -> list[CheckResult]:
        """Return the answers to `checks`, asked together; waits for the device."""
        if not checks:
            return []
        slots = np.tile(np.array([_NOWHERE, 0, 0, 0], np.uint64), (len(checks), 1))
        found = cupy.empty(slots.shape, cupy.uint64)
        found.set(slots, stream=self._stream)
        for index, check in enumerate(checks):
            kernel, size, before, after = _packed(check)
            address = _pointer(found.data.ptr + index * SLOTS * slots.itemsize)
            self._enqueue(kernel, size, (*before, _size(size), *after, address))
        answers = found.get(stream=self._stream)
        return [_result(check, *map(int, answer)) for check, answer in zip(checks, answers, strict=True)]

    def rms(self, address: int, size: int) -> float:
        """Return the root of the mean of the squares of the finite ones of `size` float64; 0 if there are none."""
        sums = cupy.empty(2, cupy.float64)
        sums.set(np.zeros(2), stream=self._stream)
        self._enqueue("squares", size, (_pointer(address), _size(size), _pointer(sums.data.ptr)))
        total, count = (float(value) for value in sums.get(stream=self._stream))
        return math.sqrt(total / count) if count else 0.0

    def widen(self, address: int, dtype: str, size: int, target: int) -> None:
        """Write `size` elements of floating `dtype` to `target` as float64."""
        self._enqueue(f"widen_{dtype}", size, (_pointer(address), _pointer(target), _size(size)))

    def sweep(self) -> None:
        """Evict what L2 holds by reading other memory."""
        size = self._swept.nbytes // 16
        self._enqueue("sweep", size, (_pointer(self._swept.data.ptr), _size(size), _pointer(self._sink.data.ptr)))

    def hold(self) -> None:
        """Keep what is enqueued from now on from running until `release`, so that the host's pace does not show."""
        gate = (_pointer(self._gate.ctypes.data), struct.pack("i", int(self._gate[0]) + 1), _size(HOLD_NS))
        enqueue(self._functions["hold"], (1, 1, 1), (1, 1, 1), 0, self._stream.ptr, gate)

    def release(self) -> None:
        """Let what was held back run."""
        self._gate[0] += 1

    def canary(self) -> None:
        """Enqueue the kernel that takes a fixed number of cycles."""
        self._enqueue_blocks("canary", (struct.pack("i", CANARY_LENGTH), _pointer(self._sink.data.ptr)))

    def _enqueue_blocks(self, kernel: str, arguments: Sequence[bytes]) -> None:
        enqueue(self._functions[kernel], (self._blocks, 1, 1), (BLOCK, 1, 1), 0, self._stream.ptr, arguments)

    def _enqueue(self, kernel: str, size: int, arguments: Sequence[bytes]) -> None:
        blocks = min(self._blocks, -(-size // BLOCK))
        if blocks:
            enqueue(self._functions[kernel], (blocks, 1, 1), (BLOCK, 1, 1), 0, self._stream.ptr, arguments)


def _packed(check: Check) -> tuple[str, int, tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the kernel of judge.cu that answers, its size, and its arguments before and behind the size."""
    match check:
        case Unlike():
            return "unlike", check.nbytes, (_pointer(check.address),), (struct.pack("i", check.value),)
        case Unequal():
            return "unequal", check.nbytes, (_pointer(check.address), _pointer(check.other)), ()
        case Digest():
            return "digest", check.nbytes, (_pointer(check.address),), ()
        case Off():
            before, dtype = (_pointer(check.address), _pointer(check.reference)), DTYPES[check.dtype]
            behind = (_double(check.rtol), _double(check.atol))
            if dtype.floating:
                return f"compare_{dtype.name}", check.size, before, behind
            signed_bytes = -dtype.size_bytes if dtype.kind == "int" else dtype.size_bytes
            return "compare_integers", check.size, before, (*behind, struct.pack("i", signed_bytes))


def _result(check: Check, first: int, count: int, worst: int, largest: int) -> CheckResult:
    exact = isinstance(check, Off) and not DTYPES[check.dtype].floating
    return CheckResult(
        first=None if first == _NOWHERE else first,
        count=count,
        worst=_of_bits(worst),
        largest=largest if exact else _of_bits(largest),
    )


def _of_bits(bits: int) -> float:
    value: float = struct.unpack("d", struct.pack("Q", bits))[0]
    return value


def _pointer(address: int) -> bytes:
    return struct.pack("Q", address)


def _size(count: int) -> bytes:
    return struct.pack("Q", count)


def _double(value: float) -> bytes:
    return struct.pack("d", value)
