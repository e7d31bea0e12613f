"""Tuning what a table lacks, on the device at hand: one session of workers, cache and budget for all kernels."""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from filelock import FileLock, Timeout

from pretuned.compile.host import INSTALL as CPP_INSTALL
from pretuned.compile.nvrtc import INSTALL
from pretuned.compile.toolchain import CPP, NVRTC
from pretuned.config import HOST, Where
from pretuned.device import probe
from pretuned.device.monitor import DeviceMonitor, monitor_of
from pretuned.errors import DeviceError
from pretuned.measure.runner import Runner
from pretuned.record.cache import Cache
from pretuned.record.rows import Row, Skipped
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.events import Effort, Listener, Waiting
from pretuned.tune.request import TuningDevice, TuningRequest

if TYPE_CHECKING:
    from pretuned.tune.tuner import Tuner

SPARES: Final = 2  # processes with the GPU ready: one takes 1.5 s to start, and losses may come in a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What a session found: rows and skipped problems, how many problems were not reached, and the effort.

    `interrupted` tells whether the user ended it, `trouble` why the device was lost on the way (empty: it was not);
    what was settled until then holds.
    """

    target: TuningDevice
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...]
    left: int
    effort: Effort
    interrupted: bool = False
    trouble: str = ""


def tune(
    demands: Sequence[TuningRequest],
    target: TuningDevice,
    *,
    index: Where = 0,
    cache_folder: Path | None,
    budget_s: float | None = None,
    patience_s: float | None = None,
    listen: Listener = lambda _event: None,
) -> Tuned:
    """Tune every demand on GPU `index`, or on the host, within `budget_s` seconds (None: as long as it takes).

    One session at a time measures on a device: another one compiles meanwhile, and waits for its turn for `patience_s`
    seconds at most (None: as long as it takes); this costs none of its budget. Who finds everything measured needs no
    turn. With `cache_folder` None nothing is kept or reused. Raises DeviceError without CuPy or a usable GPU, where the
    turn does not come, and on the host without NumPy or a C++ compiler; TuningError for a kernel whose default or
    reference is wrong.
    """
    effort = Effort()
    found: list[Row | Skipped] = []
    interrupted, trouble = False, ""
    with (
        opened(
            target,
            index=index,
            cache_folder=cache_folder,
            budget_s=budget_s,
            patience_s=patience_s,
            effort=effort,
            listen=listen,
        ) as tuner,
        effort.whole(),
    ):
        try:
            for entry in tuner.tune(demands):
                found.append(entry)  # noqa: PERF402 - what was found before an interruption stays
        except KeyboardInterrupt:
            interrupted = True
        except DeviceError as error:
            if not found:
                raise
            trouble = str(error)
    return Tuned(
        target=target,
        rows=tuple(entry for entry in found if isinstance(entry, Row)),
        skipped=tuple(entry for entry in found if isinstance(entry, Skipped)),
        left=sum(len(demand.problems) for demand in demands) - len(found),
        effort=effort,
        interrupted=interrupted,
        trouble=trouble,
    )


@contextmanager
def opened(
    target: TuningDevice,
    *,
    index: Where,
    cache_folder: Path | None,
    effort: Effort,
    listen: Listener,
    budget_s: float | None = None,
    patience_s: float | None = None,
) -> Iterator[Tuner]:
    """Yield a tuner for GPU `index` or the host; as for `tune`, but for what its own work raises.

    Nothing has started yet: the device is taken when the tuner asks for its turn, which costs none of the budget.
    """
    _demand_packages(index)
    from pretuned.tune.tuner import Tuner  # noqa: PLC0415 - it imports NumPy, which a build may have to ask for first
    from pretuned.tune.workbench import Watch  # noqa: PLC0415 - the same

    with ExitStack() as stack:
        cache = stack.enter_context(Cache(cache_folder))
        library = stack.enter_context(BinaryStore(cache, effort, toolchain=CPP if index == HOST else NVRTC))
        runner = stack.enter_context(Runner.host() if index == HOST else Runner(index=index, spares=SPARES))
        stack.enter_context(_termination_interrupts())
        monitor = _monitor(index)
        if monitor is not None:
            stack.callback(monitor.close)
        watch = Watch(monitor)
        tuner = Tuner(
            runner=runner, target=target, library=library, cache=cache, effort=effort, listen=listen, watch=watch
        )

        begun_s = time.monotonic()

        def turn(meanwhile: Callable[[], None]) -> None:
            asked_s = time.monotonic()
            stack.enter_context(_turn(index, listen, meanwhile, patience_s))
            waited_s = time.monotonic() - asked_s
            tuner.deadline = None if budget_s is None else begun_s + waited_s + budget_s

        tuner.turn = turn
        yield tuner


def _monitor(index: Where) -> DeviceMonitor | None:
    gpu = next((gpu for gpu in probe.gpus() if gpu.index == index), None)
    return None if gpu is None else monitor_of(gpu.uuid)


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Have SIGTERM end the tuning as Ctrl-C does: with everything kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _demand_packages(index: Where) -> None:
    if index == HOST:
        if importlib.util.find_spec("numpy") is None:
            raise DeviceError("the host device needs NumPy: pip install numpy")
        if CPP.installed() is None:
            raise DeviceError(f"there is no C++ compiler: {CPP_INSTALL}")
    elif (driver := probe.driver()) is not None and (reason := probe.too_old(driver)):
        raise DeviceError(reason)
    elif importlib.util.find_spec("cupy") is None:
        raise DeviceError(f"tuning needs CuPy: {INSTALL}")


@contextmanager
def _turn(
    index: Where, listen: Listener, meanwhile: Callable[[], None] = lambda: None, patience_s: float | None = None
) -> Iterator[None]:
    """Take the lock of a device among builds on this machine; it ends with the process that holds it.

    The device goes by its UUID: processes may number their GPUs differently. Where another process has it, `meanwhile`
    is called once before the wait, of `patience_s` seconds at most. Raises DeviceError when these are over.
    """
    uuid = next((gpu.uuid for gpu in probe.gpus() if gpu.index == index), "")
    lock = FileLock(Path(tempfile.gettempdir()) / f"pretuned-gpu-{uuid or index}-{os.getuid()}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        listen(Waiting(device=str(index), patience_s=patience_s))
        meanwhile()
        try:
            lock.acquire(timeout=-1 if patience_s is None else patience_s)
        except Timeout:
            raise DeviceError(f"another tuning has had it for {patience_s:g} s") from None
    try:
        yield
    finally:
        lock.release()
