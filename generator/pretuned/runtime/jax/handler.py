"""What XLA calls: a handler for each kernel, which launches through the same plans as any other call.

XLA calls from threads of its own, with or without a context. A plan is made once for each signature and device: when
XLA instantiates a program, which is before any of it is captured into a command buffer, for the devices that the
process uses; else at the first execution. What an execution does then can be captured: it sets memory to zero and
launches, and allocates nothing, since outputs and scratch are XLA's. A library's function is passed over for a
template, as in any captured call.

Nothing is raised into XLA: every exception becomes an error of XLA's.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager, suppress
from ctypes import byref, c_int, string_at

from ..adapters import ArrayView
from ..arrays import collapse
from ..calls import caller
from ..driver import DriverError, failed
from ..driver import driver as find_driver
from ..errors import ArgumentError, qualified
from ..overrides import on_change, process_overrides
from ..table import PretunedError
from .frame import (
    ARGUMENT_LIST,
    ARGUMENTS,
    DATA_AT,
    EXTENSION_START,
    FAILED_PRECONDITION,
    FRAME,
    RESULT_LIST,
    RESULTS,
    buffers_of,
    describe,
    ordinal_of,
    refuse,
    stream_of,
    text_of,
    word,
    words,
)
from .signature import nbytes, read
from .tracing import rooms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..driver import Driver
    from ..plans import LaunchPlan
    from ..table import Array, Kernel
    from .signature import Form, Signature

    Frame = tuple[int, ...]

_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
_UNCAPTURED = 2  # CU_STREAM_PER_THREAD, which XLA does not capture
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_lock = threading.RLock()


class FfiTarget:
    """A kernel as XLA calls it, with the calls that were seen so far, by device and text."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.known: dict[int, dict[bytes, Call]] = {}
        on_change.append(self.known.clear)

    def execute(self, address: int) -> int | None:
        """Launch a call; returns an error of XLA's, or None."""
        frame = FRAME.unpack(string_at(address, FRAME.size))
        try:
            if frame[EXTENSION_START]:
                describe(frame)
                return None
            self._execute(frame)
        except BaseException as error:  # noqa: BLE001 - nothing may be raised into XLA
            return refuse(frame, _said(self.kernel, error))
        return None

    def instantiate(self, address: int) -> int | None:
        """Prepare a call, for the devices that the process uses; what fails here, the execution reports."""
        frame = FRAME.unpack(string_at(address, FRAME.size))
        try:
            if frame[EXTENSION_START]:
                describe(frame)
                return None
            text = text_of(frame)
            driver = find_driver(qualified(self.kernel.name))
            for ordinal in filter(driver.in_use, range(driver.count)):
                with suppress(DriverError, PretunedError):
                    self._call(driver, ordinal, text).prepare()
        except BaseException:  # noqa: BLE001 - as above: a program may be compiled where there is no GPU
            return None
        return None

    def _execute(self, frame: Frame) -> None:
        driver = find_driver(qualified(self.kernel.name))
        ordinal = 0 if driver.count == 1 else self._ordinal(driver, frame)
        text = text_of(frame)
        call = self.known.get(ordinal, {}).get(text)
        if call is None:
            call = self._call(driver, ordinal, text)
        call.launch(self._stream(frame), frame)

    def _ordinal(self, driver: Driver, frame: Frame) -> int:
        found = ordinal_of(frame)
        return driver.current() if found is None else found

    def _stream(self, frame: Frame) -> int:
        return stream_of(frame)

    def _call(self, driver: Driver, ordinal: int, text: bytes) -> Call:
        """Return what is known of a call on a device."""
        made = Call(self.kernel, driver, ordinal, read(text))
        with _lock:
            return self.known.setdefault(ordinal, {}).setdefault(text, made)


class RefusedTarget(FfiTarget):
    """A kernel as XLA calls it for another platform than CUDA: every call is refused in words."""

    def instantiate(self, address: int) -> int | None:
        """Refuse a call when a program is compiled."""
        return self.execute(address)

    def execute(self, address: int) -> int | None:
        """Refuse a call."""
        frame = FRAME.unpack(string_at(address, FRAME.size))
        if frame[EXTENSION_START]:
            describe(frame)
            return None
        return refuse(frame, elsewhere(self.kernel), FAILED_PRECONDITION)


def elsewhere(kernel: Kernel) -> str:
    """Return what is said of a call that XLA was to run on another device than an NVIDIA GPU."""
    return (
        f"{qualified(kernel.name)}: runs on NVIDIA GPUs, and JAX was to run it on another device; install "
        "jax[cuda13] or jax[cuda12], or move its arrays there with jax.device_put(x, jax.devices('gpu')[0])"
    )


class Call:
    """All calls of one signature on one device: what to read of a frame, and plans by how the addresses are aligned."""

    __slots__ = ("_checked", "_direct", "driver", "kernel", "mask", "moduli", "ordinal", "places", "plans", "signature")

    def __init__(self, kernel: Kernel, driver: Driver, ordinal: int, signature: Signature) -> None:
        self.kernel, self.driver, self.ordinal, self.signature = kernel, driver, ordinal, signature
        self.places = signature.places(kernel)
        self.moduli = caller(kernel).moduli
        whole = math.lcm(*self.moduli)
        self.mask = whole - 1 if whole & (whole - 1) == 0 else -1  # what aligned addresses have in no bit
        self.plans: dict[tuple[int, ...], tuple[LaunchPlan, list[int]]] = {}
        self._direct = driver.count == 1 and not kernel.mapped  # tensor maps are made in a context
        self._checked = False  # whether the buffers of a frame were held against the text

    def _pairs(self) -> Iterator[tuple[Array, Form | None]]:
        return zip(self.kernel.arrays, self.signature.arrays, strict=True)

    def prepare(self) -> None:
        """Make the plan for aligned addresses, as XLA's are."""
        self._plan((0,) * len(self.places), (0,) * len(self.places))

    def launch(self, stream: int, frame: Frame) -> None:
        """Enqueue a call; raises what the driver reports."""
        if not self._checked:
            self._check(frame)
        given = (*words(frame[ARGUMENT_LIST], frame[ARGUMENTS]), *words(frame[RESULT_LIST], frame[RESULTS]))
        addresses = [0 if place is None else word(given[place] + DATA_AT) for place in self.places]
        joined = 0
        for address in addresses:
            joined |= address
        classes = tuple([a % m for a, m in zip(addresses, self.moduli, strict=True)]) if joined & self.mask else ()
        plan, offsets = self.plans.get(classes) or self._plan(addresses, classes)
        values = [*addresses, *self.signature.scalars]
        if offsets:
            block = word(given[-1] + DATA_AT)
            values += [block + offset for offset in offsets]
        status = plan.launch(self.driver, stream, values) if self._direct else _NO_CONTEXT
        if status == _NO_CONTEXT:  # which refuses the first of a call already
            with self.driver.on(self.ordinal):
                status = plan.launch(self.driver, stream, values)
        if status:
            raise failed(qualified(self.kernel.name), self.driver.named(status))
        if plan.counter is not None:
            next(plan.counter)

    def _check(self, frame: Frame) -> None:
        """Raise ArgumentError where the buffers of a call are not those that its text names."""
        wanted, found = self.signature.buffers(self.kernel), buffers_of(frame)
        if wanted != found:
            raise ArgumentError(f"{qualified(self.kernel.name)}: expected the buffers {wanted}, found {found}")
        self._checked = True

    def _plan(self, addresses: Sequence[int], classes: tuple[int, ...]) -> tuple[LaunchPlan, list[int]]:
        """Return the plan for addresses like these, and where its scratch buffers begin."""
        kernel = self.kernel
        views = [
            form and ArrayView(address, *form, self.ordinal, nbytes(form), None)
            for address, (_, form) in zip(addresses, self._pairs(), strict=True)
        ]
        _, flat = collapse(kernel, views)
        with _lock, self.driver.on(self.ordinal), _uncaptured(self.driver):
            planned = caller(kernel).planned
            keywords = self.signature.keywords
            plan = planned(process_overrides(), self.ordinal, _UNCAPTURED, keywords, flat, launches_only=True)
        *offsets, needed = rooms(plan.scratch)
        if needed > self.signature.scratch_bytes:
            raise ArgumentError(
                f"{qualified(kernel.name)}: needs {needed} bytes of scratch on this device and was traced with "
                f"{self.signature.scratch_bytes}; trace and lower it where this device is"
            )
        found = self.plans[classes if any(classes) else ()] = plan, offsets
        return found


@contextmanager
def _uncaptured(driver: Driver) -> Iterator[None]:
    """Let the thread load code though a stream of it may be captured: the mode is the thread's own, and goes back."""
    mode = c_int(_RELAXED)
    driver.ask("cuThreadExchangeStreamCaptureMode", byref(mode))
    try:
        yield
    finally:
        driver.ask("cuThreadExchangeStreamCaptureMode", byref(mode))


def _said(kernel: Kernel, error: BaseException) -> str:
    """Return what is reported of an exception: its text, which begins with the kernel where it is one of ours."""
    if isinstance(error, PretunedError):
        return str(error)
    return f"{qualified(kernel.name)}: {type(error).__name__}: {error}"
