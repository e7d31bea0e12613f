"""Sessions on the device at hand: tuning what a table lacks, and measuring again what it has.

A session has its own workers, cache and clock. What tunes or measures is imported late, since it imports NumPy: a build
that has to ask for NumPy first imports this module.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from filelock import BaseFileLock, FileLock, Timeout

from pretuned.collecting import collecting_seldom
from pretuned.device import host
from pretuned.errors import DeviceError
from pretuned.files import termination_interrupts
from pretuned.measure.runner import TuningError
from pretuned.measure.turns import Sharing
from pretuned.record.cache import Cache
from pretuned.record.rows import Row, Skipped, TunedDevice
from pretuned.record.selections import Selection
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Pairs
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.confirmation import ConfirmedRow
from pretuned.tune.course import CourseWatch
from pretuned.tune.drift import Drift
from pretuned.tune.events import Certified, Event, Listener, Waiting
from pretuned.tune.request import TuningDevice, TuningRequest
from pretuned.tune.sanitize import Sanitizer
from pretuned.tune.spending import Spending
from pretuned.tune.workbench import Clock, Demands, NoiseWatch, Workbench

ORDINARY: Final = Demands()
ENDED_S: Final = 0.5  # between two questions whether what waits for a device is over
SHARED: Final = Path("/tmp")  # noqa: S108 - where all users of a machine find the lock of a GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What a session found, and what it spent; `left` problems were not reached.

    `certified` has what was reported of certificates, in the order of the requests. `interrupted`: the user ended it.
    `trouble`: why the device was lost, or empty. `wrong`: which kernels cannot be tuned, and why, or empty. What was
    settled holds. Where several devices took part, `others` are those of other kinds than `device`, `confirmed` has the
    rows that were measured again on a second one, and `notes` are lines about how they took part.
    """

    device: TuningDevice
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...]
    left: int
    spending: Spending
    selections: tuple[Selection, ...] = ()
    certified: tuple[Certified, ...] = ()
    interrupted: bool = False
    trouble: str = ""
    wrong: str = ""
    others: tuple[TuningDevice, ...] = ()
    confirmed: tuple[ConfirmedRow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def devices(self) -> dict[str, TunedDevice]:
        """The kinds of devices that took part, by the names that rows have for them."""
        return {one.name: one.record for one in (self.device, *self.others)}


def tune(
    requests: Sequence[TuningRequest],
    device: TuningDevice,
    *,
    cache_folder: Path | None,
    budget_s: float | None = None,
    patience_s: float | None = None,
    demands: Demands = ORDINARY,
    listen: Listener = lambda _event: None,
) -> Tuned:
    """Tune every request on `device` within `budget_s` seconds (None: as long as it takes).

    One session at a time measures on a device. Another one compiles meanwhile, and waits for `patience_s` seconds at
    most (None: as long as it takes), which cost none of its budget. If everything is measured already, nothing waits.
    With `cache_folder` None nothing is kept or reused.

    Raises DeviceError if the backend lacks something, the device cannot be used, or patience ends. A kernel whose
    default or reference is wrong does not keep others from being tuned.
    """
    session = opened(
        device,
        cache_folder=cache_folder,
        budget_s=budget_s,
        patience_s=patience_s,
        demands=demands,
        spending=Spending(),
        listen=listen,
    )
    with session as workbench:
        return tune_at(workbench, requests)


def tune_at(workbench: Workbench, requests: Sequence[TuningRequest]) -> Tuned:
    """Tune every request at an open workbench; raises DeviceError if the device is lost before anything is found."""
    findings, course = _Findings(), CourseWatch(workbench.device.name)
    workbench = replace(workbench, listen=course.listener(findings.listener(workbench.listen)))
    with workbench.spending.whole(), collecting_seldom():
        from pretuned.tune.tuner import Tuner  # noqa: PLC0415 - it imports NumPy

        findings.take(Tuner(workbench).tune(requests))
        course.keep(workbench.cache, workbench.spending)
    return findings.tuned(requests, workbench.device, workbench.spending)


@dataclass(slots=True, kw_only=True)
class _Findings:
    """What a session has found so far, and what ended it."""

    entries: list[Row | Skipped | Selection] = field(default_factory=list)
    certified: dict[tuple[str, Pairs], Certified] = field(default_factory=dict)
    interrupted: bool = False
    trouble: str = ""
    wrong: str = ""

    def listener(self, listen: Listener) -> Listener:
        """Return a listener that passes events on, and keeps those about certificates."""

        def heard(event: Event) -> None:
            if isinstance(event, Certified):  # the last of a selection's counts
                self.certified[event.kernel, event.specialisation] = event
            listen(event)

        return heard

    def take(self, entries: Iterator[Row | Skipped | Selection]) -> None:
        """Take what a tuning yields; what was found before its end stays. A device lost before that is an error."""
        try:
            for entry in entries:
                self.entries.append(entry)
        except KeyboardInterrupt:
            self.interrupted = True
        except TuningError as error:
            self.wrong = str(error)
        except DeviceError as error:
            if not self.entries:
                raise
            self.trouble = str(error)

    def tuned(self, requests: Sequence[TuningRequest], device: TuningDevice, spending: Spending) -> Tuned:
        """Return it as the result of a session."""
        rows = tuple(entry for entry in self.entries if isinstance(entry, Row))
        skipped = tuple(entry for entry in self.entries if isinstance(entry, Skipped))
        return Tuned(
            device=device,
            rows=rows,
            skipped=skipped,
            left=sum(len(request.problems) for request in requests) - len(rows) - len(skipped),
            spending=spending,
            selections=tuple({entry.key: entry for entry in self.entries if isinstance(entry, Selection)}.values()),
            certified=tuple(self.certified.values()),
            interrupted=self.interrupted,
            trouble=self.trouble,
            wrong=self.wrong,
        )


def remeasure(
    rows: Sequence[Row],
    specs: Mapping[str, KernelSpec],
    device: TuningDevice,
    *,
    cache_folder: Path | None,
    listen: Listener,
) -> Iterator[Drift]:
    """Yield what became of each of `rows`, which are of the device and current by `specs`; raises what `tune` raises.

    Binaries come from the cache; times never do.
    """
    session = opened(device, cache_folder=cache_folder, spending=Spending(), listen=listen)
    with session as workbench:
        from pretuned.tune.remeasure import drifts  # noqa: PLC0415 - it imports NumPy

        yield from drifts(workbench, rows, specs)


@contextmanager
def opened(  # noqa: PLR0913 - each is a keyword
    device: TuningDevice,
    *,
    cache_folder: Path | None,
    spending: Spending,
    listen: Listener,
    budget_s: float | None = None,
    patience_s: float | None = None,
    demands: Demands = ORDINARY,
    sharing: Sharing | None = None,
) -> Iterator[Workbench]:
    """Yield the workbench of a session. Nothing has started yet; `take_device` waits for other sessions.

    With `sharing`, other sessions of the same tuning are on the device, whose lock is held for all of them.
    """
    backend, index = device.backend, device.place.index
    backend.require()
    clock = Clock(budget_s)
    with ExitStack() as stack:
        cache = stack.enter_context(Cache(cache_folder, anew=demands.anew))
        store = BinaryStore(cache, spending, toolchain=backend.toolchain, hurried=True, listen=listen)
        binaries = stack.enter_context(store)
        runner = stack.enter_context(backend.runner(index))
        if sharing is not None:
            runner.share(sharing)
        stack.enter_context(termination_interrupts())
        monitor = backend.monitor(index)
        if monitor is not None:
            stack.callback(monitor.close)

        def take_device(meanwhile: Callable[[], None]) -> None:
            if sharing is None:
                with clock.stopped():
                    stack.enter_context(device_lock(device, listen, meanwhile, patience_s))

        sanitizer = stack.enter_context(Sanitizer(binaries)) if backend.name == host.NAME else None
        yield Workbench(
            runner=runner,
            device=device,
            binaries=binaries,
            cache=cache,
            spending=spending,
            listen=listen,
            clock=clock,
            noise=NoiseWatch(monitor, None if sharing is None else sharing.others),
            demands=demands,
            sanitizer=sanitizer,
            take_device=take_device,
        )


@contextmanager
def device_lock(
    device: TuningDevice,
    listen: Listener = lambda _event: None,
    meanwhile: Callable[[], None] = lambda: None,
    patience_s: float | None = None,
    ended: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold the lock of a device among the builds of this machine; it ends with the process that holds it.

    If another process has the lock, `meanwhile` is called once before the wait. Raises DeviceError after `patience_s`
    seconds, and soon after `ended` says that nobody needs the device any more.
    """
    lock = _lock_of(device)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        listen(Waiting(device=device.name, patience_s=patience_s))
        meanwhile()
        until_s = math.inf if patience_s is None else time.monotonic() + patience_s
        while not _acquired(lock, min(ENDED_S, max(0.0, until_s - time.monotonic()))):
            if ended():
                raise DeviceError(f"{device.name} was waited for, and the tuning is over") from None
            if time.monotonic() > until_s:
                raise DeviceError(f"another tuning has used {device.name} for {patience_s:g} s") from None
    try:
        yield
    finally:
        lock.release()


def _acquired(lock: BaseFileLock, seconds: float) -> bool:
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        return False
    return True


def _lock_of(device: TuningDevice) -> BaseFileLock:
    """Return the lock of a GPU, one for all users of the machine: their TMPDIRs may differ.

    It is each user's own where the file cannot be had, and on the host device, whose times mean nothing.
    """
    name = device.backend.lock_name(device.place.index)
    shared = SHARED / f"pretuned-{name}.lock"
    usable = os.access(shared if shared.exists() else SHARED, os.R_OK | os.W_OK) and not shared.is_symlink()
    if device.record.is_gpu and usable:
        return FileLock(shared, mode=0o666, thread_local=False)  # others have to open it, whatever the umask
    return FileLock(Path(tempfile.gettempdir()) / f"pretuned-{name}-{os.getuid()}.lock", thread_local=False)
