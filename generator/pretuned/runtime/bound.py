"""What is done ahead of a call: `bind` one call, `prepare` a device.

A bound call launches and does nothing else: its arrays, numbers and stream are fixed, checked and packed. It may be
called from any thread, and while a graph is captured; it keeps its arrays, and its scratch, alive. A graph keeps the
scratch as well, but the capturing program has to keep the arrays.
"""

from __future__ import annotations

from contextlib import nullcontext

from .adapters import launch_kernel, thread_context
from .binaries import prepare as load
from .devices import in_hand
from .driver import DriverError, failed
from .driver import driver as find_driver
from .errors import ArgumentError, qualified
from .plans import keep_captured
from .scalars import wrong_scalar
from .types import INVALID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .driver import Driver
    from .plans import PreparedCall
    from .table import Foreign, Kernel


class Binding:
    """What `bind` passes as a call's stream: the call is to be bound, on the stream that it holds."""

    __slots__ = ("stream",)

    def __init__(self, stream: Foreign) -> None:
        self.stream = stream


def prepare(kernel: Kernel, device: int | None = None) -> None:
    """Load all binaries of a kernel that a device can run, so that calls have nothing left to load.

    `device` is an ordinal; the calling thread's device if None. Raises ArgumentError for one that does not exist.
    """
    name = qualified(kernel.name)
    driver = find_driver(name)
    ordinal = driver.current() if device is None else device
    if type(ordinal) is not int or not 0 <= ordinal < driver.count:
        raise ArgumentError(f"{name}: prepare: expected a device from 0 to {driver.count - 1}, found {device!r}")
    try:
        with driver.on(ordinal):
            load(driver, kernel, in_hand(driver, ordinal))
    except DriverError as error:
        raise failed(name, error) from None


def bind(driver: Driver, kernel: Kernel, call: PreparedCall, answer: Foreign) -> Callable[[], Foreign]:
    """Return a function without arguments that launches a call and returns `answer`, its outputs.

    Raises what is wrong with a number.
    """
    cheaper = launch_kernel()
    try:
        with driver.on(call.ordinal) if kernel.mapped else nullcontext():  # where tensor maps are made
            checked = _watched(driver, call)
            enqueue = _watched(driver, call, cheaper[0]) if cheaper else checked
    except INVALID:
        raise wrong_scalar(kernel, call.plan.numbers, call.scalars) from None
    again = _again(driver, qualified(kernel.name), call, checked)
    refused: tuple[type[Exception], ...] = (*([cheaper[1]] if cheaper else []), DriverError)

    def bound() -> Foreign:
        try:
            if enqueue():
                again()
        except refused:
            again()
        return answer

    def bound_there() -> Foreign:  # the thread's context may be another device's
        try:
            if context() != wanted or enqueue():
                again()
        except refused:
            again()
        return answer

    if driver.count == 1:
        return bound
    context, wanted = thread_context() or driver.current_context, driver.context(call.ordinal)
    return bound_there


def _again(driver: Driver, name: str, call: PreparedCall, enqueue: Callable[[], int | None]) -> Callable[[], None]:
    """Return what enqueues on the call's own device, whatever the thread's is; it raises what the driver reports."""

    def again() -> None:
        try:
            with driver.on(call.ordinal):
                status = enqueue()
        except DriverError as error:
            raise failed(name, error) from None
        if status:
            raise failed(name, driver.named(status))

    return again


def _watched(driver: Driver, call: PreparedCall, launch_kernel: Foreign = None) -> Callable[[], int | None]:
    """Return what enqueues a call, counts it where calls are counted, and keeps scratch for a graph."""
    enqueue, counter = call.plan.bound(driver, call.handle, call.values, launch_kernel), call.plan.counter
    if counter is None and not call.scratch:
        return enqueue
    captured = not call.scratch

    def watched() -> int | None:
        nonlocal captured
        if status := enqueue():
            return status
        captured = captured or keep_captured(driver, call)
        if counter is not None:
            next(counter)
        return 0

    return watched
