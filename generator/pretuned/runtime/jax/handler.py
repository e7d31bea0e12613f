"""What XLA calls: a handler for each kernel, which launches through the same plans as any other call.

XLA calls from threads of its own, with or without a context. A plan is made once for each signature and device: when
XLA instantiates a program, which is before any of it is captured into a command buffer, for the devices that the
process uses; else at the first execution. What an execution does then can be captured: it sets memory to zero and
launches, and allocates nothing, since outputs and scratch are XLA's. A library's function is passed over for a
template, as in any captured call.

Nothing is raised into XLA: every exception becomes an error of XLA's.
"""

from __future__ import annotations

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
from ..plans import REMEMBERED, remember
from ..table import PretunedError
from .frame import (
    ARGUMENT_LIST,
    DATA_AT,
    EXTENSION_START,
    FAILED_PRECONDITION,
    FRAME,
    RESULT_LIST,
    buffers_of,
    describe,
    ordinal_of,
    refuse,
    stream_of,
    text_of,
    word,
    words_of,
)
from .signature import nbytes, read
from .tracing import rooms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..driver import Driver
    from ..plans import LaunchPlan
    from ..table import Array, Foreign, Kernel
    from .signature import Form, Signature

    Frame = tuple[int, ...]
    Packed = tuple[Callable[[], int | None], Foreign]

_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
_UNCAPTURED = 2  # CU_STREAM_PER_THREAD, which XLA does not capture
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_lock = threading.RLock()


class FfiTarget:
    """A kernel as XLA calls it, with the calls that were seen so far, by device and text."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.known: dict[tuple[int, bytes], Call] = {}
        self._driver: Driver | None = None
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
            driver = self._found()
            for ordinal in filter(driver.in_use, range(driver.count)):
                with suppress(DriverError, PretunedError):
                    self._call(driver, ordinal, text).prepare()
        except BaseException:  # noqa: BLE001 - as above: a program may be compiled where there is no GPU
            return None
        return None

    def _execute(self, frame: Frame) -> None:
        driver = self._driver or self._found()
        ordinal, text = 0 if driver.count == 1 else self._ordinal(driver, frame), text_of(frame)
        call = self.known.get((ordinal, text)) or self._call(driver, ordinal, text)
        call.launch(self._stream(frame), frame)

    def _found(self) -> Driver:
        self._driver = find_driver(qualified(self.kernel.name))
        return self._driver

    def _ordinal(self, driver: Driver, frame: Frame) -> int:
        found = ordinal_of(frame)
        return driver.current() if found is None else found

    def _stream(self, frame: Frame) -> int:
        return stream_of(frame)

    def _call(self, driver: Driver, ordinal: int, text: bytes) -> Call:
        """Return what is known of a call on a device."""
        made = Call(self.kernel, driver, ordinal, read(text))
        with _lock:
            found = self.known.get((ordinal, text), made)
            remember(self.known, (ordinal, text), found, REMEMBERED)
        return found


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
    """All calls of one signature on one device: plans by how addresses are aligned, what was packed by the addresses.

    XLA gives out the same memory again and again, so that a call is packed once, as a rule.
    """

    __slots__ = (
        "_checked",
        "_direct",
        "_operands",
        "_results",
        "driver",
        "kernel",
        "moduli",
        "ordinal",
        "packed",
        "places",
        "plans",
        "signature",
    )

    def __init__(self, kernel: Kernel, driver: Driver, ordinal: int, signature: Signature) -> None:
        self.kernel, self.driver, self.ordinal, self.signature = kernel, driver, ordinal, signature
        self.places = signature.places(kernel)
        self.moduli = caller(kernel).moduli
        self.plans: dict[tuple[int, ...], tuple[LaunchPlan, list[int]]] = {}
        self.packed: dict[tuple[int, ...], Packed] = {}
        self._direct = driver.count == 1
        count = sum(array.role != "out" for array, form in self._pairs() if form is not None)
        self._operands, self._results = words_of(count), words_of(len(signature.buffers(kernel)) - count)
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
        given = self._operands(frame[ARGUMENT_LIST]) + self._results(frame[RESULT_LIST])
        key = stream, *[word(buffer + DATA_AT) for buffer in given]
        enqueue, counter = self.packed.get(key) or self._packed(key)
        status = enqueue() if self._direct else _NO_CONTEXT
        if status == _NO_CONTEXT:  # which refuses the first of a call already
            with self.driver.on(self.ordinal):
                status = enqueue()
        if status:
            raise failed(qualified(self.kernel.name), self.driver.named(status))
        if counter is not None:
            next(counter)

    def _packed(self, key: tuple[int, ...]) -> Packed:
        """Return what enqueues a call for a stream and the addresses of buffers, and what counts it.

        It is only read when it runs, so that several threads may launch it at once.
        """
        stream, *buffers = key
        addresses = [0 if place is None else buffers[place] for place in self.places]
        classes = tuple([address % modulus for address, modulus in zip(addresses, self.moduli, strict=True)])
        plan, offsets = self.plans.get(classes) or self._plan(addresses, classes)
        values = [*addresses, *self.signature.scalars, *[buffers[-1] + offset for offset in offsets]]
        with self.driver.on(self.ordinal):  # where tensor maps are made
            found = plan.bound(self.driver, stream, values), plan.counter
        remember(self.packed, key, found, REMEMBERED)
        return found

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
        found = self.plans[classes] = plan, offsets
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
