"""What is done ahead of a call: `bind` one call, `prepare` a device.

A bound call launches and does nothing else: its arrays, numbers and stream are fixed, checked and packed. It may be
called from any thread, and while a graph is captured; it keeps its arrays, and its scratch, alive. A graph keeps the
scratch as well, but whoever captures it has to keep the arrays.
"""

from __future__ import annotations

from .devices import in_hand
from .driver import DriverError, direct, failed
from .driver import driver as find_driver
from .errors import ArgumentError, qualified
from .made import keep_captured
from .modules import prepare as load
from .plans import INVALID, wrong_scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from . import Foreign, Kernel
    from .calls import Caller
    from .driver import Driver
    from .made import Made


def prepare(kernel: Kernel, device: int | None = None) -> None:
    """Load all binaries of a kernel that a device can run, so that calls have nothing left to load.

    `device` is an ordinal; the calling thread's device if None. Raises ArgumentError for one that is not there.
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


def bind(one: Caller, call: tuple[Foreign, Foreign, Foreign, Foreign]) -> Callable[[], Foreign]:
    """Return a function without arguments that launches a call and returns its outputs.

    `call` is arrays, numbers, keywords, the stream, of which None means the one that is current now. Raises what the
    call itself would raise.
    """
    made = one.made(*call, launches_only=True)
    cheaper = direct()
    try:
        checked = _watched(one.driver, made)
        enqueue = _watched(one.driver, made, cheaper[0]) if cheaper else checked
    except INVALID:
        raise wrong_scalar(one.kernel, made.scalars) from None
    results = [made.arrays[index] for index in one.results]
    answer = results[0] if len(results) == 1 else tuple(results)
    again = _again(one.driver, qualified(one.kernel.name), made, checked)
    refused: type[Exception] | tuple[()] = cheaper[1] if cheaper else ()

    def bound() -> Foreign:
        try:
            if enqueue():
                again()
        except refused:
            again()
        return answer

    def bound_there() -> Foreign:  # the thread's context may be another device's
        again()
        return answer

    return bound if one.driver.count == 1 else bound_there


def _again(driver: Driver, name: str, made: Made, enqueue: Callable[[], int | None]) -> Callable[[], None]:
    """Return what enqueues on the call's own device, whatever the thread's is; it raises what the driver says."""

    def again() -> None:
        try:
            with driver.on(made.ordinal):
                status = enqueue()
        except DriverError as error:
            raise failed(name, error) from None
        if status:
            raise failed(name, driver.named(status))

    return again


def _watched(driver: Driver, made: Made, launch_kernel: Foreign = None) -> Callable[[], int | None]:
    """Return what enqueues a call, counts it where calls are counted, and keeps scratch for a graph."""
    enqueue, counter = made.plan.bound(driver, made.handle, made.values, launch_kernel), made.plan.counter
    if counter is None and not made.scratch:
        return enqueue
    captured = not made.scratch

    def watched() -> int | None:
        nonlocal captured
        if status := enqueue():
            return status
        captured = captured or keep_captured(driver, made)
        if counter is not None:
            next(counter)
        return 0

    return watched
