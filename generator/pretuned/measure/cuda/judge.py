"""Judging on the device: what a call wrote against what it should have written, and what it must not have touched.

Pass: |out - ref| <= atol + rtol * |ref|, or both are the same infinity, or both NaN. Of complex numbers | | is the
magnitude. The difference of integers is exact; booleans must be equal bit for bit. The kernels stand in tasks.cu and
judge.cu; CuPy's own elementwise kernels would each take seconds to compile on a machine that has not run them before.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, Final

import cupy
import numpy as np

from pretuned.compile.nvrtc import compile_source
from pretuned.compile.result import Binary
from pretuned.errors import DeviceError
from pretuned.measure.cuda.launching import driver, enqueue
from pretuned.measure.machine import ByteCopy, ByteFill, Check, CheckResult, Digest, Off, Unequal, Unlike
from pretuned.outcome import detail
from pretuned.render import Source
from pretuned.runtime.types import DTYPES, DType
from pretuned.spec.space import DeviceFacts

BLOCK: Final = 256  # threads
BLOCKS_PER_SM: Final = 8
TASK: Final = struct.Struct("5Q2d2i")  # of tasks.cu, in its order
# Of a check: first index, count, bits of the worst share, the largest error or its bits.
SLOTS: Final = struct.Struct("4Q")
PIECE: Final = 1 << 14  # bytes of a task that a block takes at once, at least
ELEMENTS: Final = 1 << 12  # the same, of elements that are compared
PIECES: Final = 1024  # of a task, at most: a block for each fits the device, and each ends in atomic operations
UNIT: Final = 16  # what pieces are a multiple of
SWEEP_FACTOR: Final = 2  # times L2
CANARY_LENGTH: Final = 8192  # operations of four cycles each: some 20 us
LATE_NS: Final = 200_000  # for which a late writer waits: what begins early reads long before
HOLD_NS: Final = 5_000_000  # a host that was interrupted for longer has lost its sample
FLOATING: Final = tuple(dtype for dtype in DTYPES.values() if dtype.floating)
KERNELS: Final = (
    *("perform_all", "perform_late", "squares", "sweep", "hold", "canary"),
    *(f"widen_{dtype.name}" for dtype in FLOATING),
)
_FILL, _COPY, _UNLIKE, _UNEQUAL, _DIGEST, _INTEGERS, _FLOATING = range(7)  # `Kind` of tasks.cu
_KINDS: Final = {dtype.name: _FLOATING + place for place, dtype in enumerate(FLOATING)}
_NOWHERE: Final = 2**64 - 1
_UNTOUCHED: Final = SLOTS.pack(_NOWHERE, 0, 0, 0)
_RIGHT: Final = CheckResult(first=None, count=0, worst=0.0)


def source() -> str:
    """Return the text of all kernels: the headers of floating types before it, a kernel for each behind it."""
    headers = dict.fromkeys(f"#include <{dtype.header}>" for dtype in FLOATING if dtype.header)
    kernels = [f"WIDEN{_complex(dtype)}({dtype.name}, {dtype.cuda})" for dtype in FLOATING]
    return "\n".join((*headers, tasks_source(), _text("judge.cu"), *kernels, ""))


def tasks_source() -> str:
    """Return the text of tasks.cu, with the macro before it that has the floating types."""
    cases = (
        f"case FLOATING + {place}: return COMPARED{_complex(dtype)}({dtype.cuda});"
        for place, dtype in enumerate(FLOATING)
    )
    return f"#define FLOATING_CASES {' '.join(cases)}\n{_text('tasks.cu')}"


def _complex(dtype: DType) -> str:
    return "_COMPLEX" if dtype.parts > 1 else ""


def _text(name: str) -> str:
    return files("pretuned.measure.cuda").joinpath(name).read_text(encoding="utf-8")


def table(tasks: Sequence[Check | ByteFill | ByteCopy]) -> tuple[bytes, int]:
    """Return tasks as tasks.cu takes them, and the number of their pieces."""
    rows, pieces = [], 0
    for task in tasks:
        address, other, size, rtol, atol, kind, value = _packed(task)
        length = max(PIECE if kind < _INTEGERS else ELEMENTS, -(-size // (PIECES * UNIT)) * UNIT)
        rows.append(TASK.pack(address, other, size, length, pieces, rtol, atol, kind, value))
        pieces += -(-size // length)
    return b"".join(rows), pieces


def _packed(task: Check | ByteFill | ByteCopy) -> tuple[int, int, int, float, float, int, int]:
    match task:
        case ByteFill():
            return task.address, 0, task.nbytes, 0.0, 0.0, _FILL, task.value
        case ByteCopy():
            return task.address, task.source, task.nbytes, 0.0, 0.0, _COPY, 0
        case Unlike():
            return task.address, 0, task.nbytes, 0.0, 0.0, _UNLIKE, task.value
        case Unequal():
            return task.address, task.other, task.nbytes, 0.0, 0.0, _UNEQUAL, 0
        case Digest():
            return task.address, 0, task.nbytes, 0.0, 0.0, _DIGEST, 0
        case Off():
            dtype = DTYPES[task.dtype]
            signed_bytes = -dtype.size_bytes if dtype.kind == "int" else dtype.size_bytes
            kind = _KINDS[dtype.name] if dtype.floating else _INTEGERS
            return task.address, task.reference, task.size, task.rtol, task.atol, kind, signed_bytes


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
        held = self._performed(checks)[: len(checks) * SLOTS.size].get(stream=self._stream).tobytes()
        answers = (held[begin : begin + SLOTS.size] for begin in range(0, len(held), SLOTS.size))
        return [
            _RIGHT if answer == _UNTOUCHED else _result(check, *SLOTS.unpack(answer))
            for check, answer in zip(checks, answers, strict=True)
        ]

    def put(self, tasks: Sequence[ByteFill | ByteCopy]) -> None:
        """Fill and copy memory, in stream order but in any order among each other."""
        if tasks:
            self._performed(tasks)

    def late(self, tasks: Sequence[ByteFill | ByteCopy]) -> Callable[[], None]:
        """Return what enqueues tasks that are done late, behind the beginning of a launch that does not wait for them.

        It takes few of the device's multiprocessors, so that there is room for that launch.
        """
        held, arguments, pieces = self._listed(tasks)
        blocks = max(1, min(self._blocks // BLOCKS_PER_SM // 2, pieces))

        def enqueued(_memory: Any) -> None:  # noqa: ANN401 - CuPy ships no types
            self._enqueue_grid("perform_late", blocks, (*arguments, _size(LATE_NS)))

        return partial(enqueued, held)  # which has to live until then

    def _performed(self, tasks: Sequence[Check | ByteFill | ByteCopy]) -> Any:  # noqa: ANN401 - CuPy ships no types
        """Enqueue tasks, and return the memory that begins with the slots of each."""
        held, arguments, pieces = self._listed(tasks)
        self._enqueue_grid("perform_all", min(self._blocks, pieces), arguments)
        return held

    def _listed(self, tasks: Sequence[Check | ByteFill | ByteCopy]) -> tuple[Any, tuple[bytes, ...], int]:
        """Return memory with the slots of tasks and their table, the arguments of what performs them, their pieces."""
        rows, pieces = table(tasks)
        content = np.frombuffer(bytearray(_UNTOUCHED * len(tasks) + rows), np.uint8)
        held = cupy.empty(content.shape, cupy.uint8)
        held.set(content, stream=self._stream)
        listed = _pointer(held.data.ptr + len(tasks) * SLOTS.size)
        return held, (listed, struct.pack("i", len(tasks)), _size(pieces), _pointer(held.data.ptr)), pieces

    def rms(self, address: int, size: int) -> float:
        """Return the root of the mean of the squares of the finite ones of `size` float64; 0 if there are none."""
        sums = cupy.empty(2, cupy.float64)
        sums.set(np.zeros(2), stream=self._stream)
        self._enqueue("squares", size, (_pointer(address), _size(size), _pointer(sums.data.ptr)))
        total, count = (float(value) for value in sums.get(stream=self._stream))
        return math.sqrt(total / count) if count else 0.0

    def widen(self, address: int, dtype: str, size: int, target: int) -> None:
        """Write `size` elements of floating `dtype` to `target` in its wide type."""
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
        self._enqueue_grid("canary", self._blocks, (struct.pack("i", CANARY_LENGTH), _pointer(self._sink.data.ptr)))

    def _enqueue(self, kernel: str, size: int, arguments: Sequence[bytes]) -> None:
        self._enqueue_grid(kernel, min(self._blocks, -(-size // BLOCK)), arguments)

    def _enqueue_grid(self, kernel: str, blocks: int, arguments: Sequence[bytes]) -> None:
        if blocks:
            enqueue(self._functions[kernel], (blocks, 1, 1), (BLOCK, 1, 1), 0, self._stream.ptr, arguments)


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
