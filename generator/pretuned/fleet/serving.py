"""What runs where the device is: a process that settles one unit after the other.

Theory of operation. A session (the device, compilers that are warm, an open cache) is kept from unit to unit, since to
start one takes seconds. It holds the device's lock while it is open. It ends with the process, and where a unit asks
for another device, another cache, or measurements anew. Every measurement goes into the cache of this machine as it is
made: if the process is killed, the next one that gets the unit goes on from there.

`serve` is the target of a `pretuned.child`. It answers a unit with the events of its tuning, and at last the answer.
All units are settled by one thread, since SQLite wants a connection used by the thread that made it; another one passes
the events on meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pretuned.config import Place, read_settings
from pretuned.errors import DeviceError, Error
from pretuned.fleet.answers import UnitAnswer, WorkerEvidence, answer_of, counts_of, difference
from pretuned.fleet.lending import LenderAddress
from pretuned.fleet.sources import moved
from pretuned.fleet.units import Unit
from pretuned.measure.turns import Sharing
from pretuned.record.cache import Subject
from pretuned.tune.drift import Drift
from pretuned.tune.events import Event, Listener
from pretuned.tune.request import TuningDevice, TuningRequest, find_device, label
from pretuned.tune.session import Tuned, opened, tune_at
from pretuned.tune.spending import Spending
from pretuned.tune.workbench import Clock, Workbench
from pretuned.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where a worker works: the device's place, and its share of the processors, such as (1, 4): the second quarter.

    `place` None leaves it to PRETUNED_TUNE_ON, where that names a device of the backend that a unit asks for.
    `lender` is where compilers of other workers can be had. With `sharing`, other workers of the tuning have the device
    too.
    """

    worker: str
    place: Place | None = None
    share: tuple[int, int] = (0, 1)
    lender: LenderAddress | None = None
    sharing: Sharing | None = None

    def place_for(self, backend: str) -> Place:
        """Return the device of a backend that the worker has."""
        if self.place is not None:
            return self.place
        told = read_settings().device
        return told if told.backend == backend else Place(backend=backend)


def serve() -> Callable[[tuple[Seat, Unit | str]], Iterator[Event | UnitAnswer | WorkerEvidence]]:
    """Return what settles units, and says what a seat has on a backend: events, and at last what was asked for."""
    hands, sessions = ThreadPoolExecutor(1), _Sessions()

    def settled(request: tuple[Seat, Unit | str]) -> Iterator[Event | UnitAnswer | WorkerEvidence]:
        seat, asked = request
        if isinstance(asked, str):
            yield evidence_of(seat, asked)
            return
        heard: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        found = hands.submit(sessions.settle, seat, asked, heard.put)
        found.add_done_callback(lambda _found: heard.put(None))
        while (event := heard.get()) is not None:
            yield event
        yield found.result()

    return settled


def evidence_of(seat: Seat, backend: str) -> WorkerEvidence:
    """Return what a seat has on a backend; raises DeviceError where it has nothing."""
    return _evidence(seat, _device(seat, backend))


def _device(seat: Seat, backend: str) -> TuningDevice:
    place = seat.place_for(backend)
    found = find_device(place, {})
    if found is None:
        raise DeviceError(f"{seat.worker} has no {label(place)}")
    return found


def _evidence(seat: Seat, device: TuningDevice, compiler: str = "") -> WorkerEvidence:
    return WorkerEvidence(
        worker=seat.worker,
        gpu=f"{device.backend.lock_name(device.place.index)} of {socket.gethostname()}",
        device=device.record,
        driver=device.driver,
        compiler=compiler or device.backend.toolchain.installed() or "",
        version=__version__,
    )


class _Sessions:
    """The session that is open, if any; all of it belongs to one thread."""

    def __init__(self) -> None:
        self._open: tuple[object, Workbench] | None = None
        self._stack = ExitStack()
        self._listen: Listener = lambda _event: None

    def settle(self, seat: Seat, unit: Unit, listen: Listener) -> UnitAnswer:
        """Return the answer to a unit; an error of the device is an answer too."""
        self._listen = listen
        if seat.share != (0, 1):
            _keep_to_share(*seat.share)
        began, started, clock = time.time(), time.perf_counter(), Clock(unit.budget_s)
        device = _same_kind(_device(seat, unit.device.place.backend), unit.device)
        evidence = _evidence(seat, device)
        nothing = Tuned(device=device, rows=(), skipped=(), left=unit.rows, spending=Spending())
        if unit.not_on == evidence.gpu or not device.record.is_same_as(unit.device.record):
            return answer_of(unit, evidence, nothing)  # which the coordinator gives to another worker
        try:
            workbench = self._workbench(seat, unit, device, clock)
            before = counts_of(workbench.spending)
            if unit.confirms:
                drifts = _drifts(workbench, unit)
                return replace(answer_of(unit, evidence, nothing), drifts=drifts, seconds=time.perf_counter() - started)
            tuned = tune_at(workbench, [_here(unit)])
        except Error as error:
            self._end()
            return answer_of(unit, evidence, replace(nothing, trouble=str(error)))
        if tuned.trouble:
            self._end()
        return answer_of(
            unit,
            _evidence(seat, device, workbench.binaries.compiler),
            tuned,
            cache=workbench.cache.entries(Subject(kernel=unit.kernel, device=device.name), since=began),
            spending=difference(counts_of(workbench.spending), before),
            seconds=time.perf_counter() - started,
            compilers_refused=tuple(workbench.binaries.refused.items()),
        )

    def _workbench(self, seat: Seat, unit: Unit, device: TuningDevice, clock: Clock) -> Workbench:
        """Return the workbench of a unit: that of the session, with a clock and demands of its own.

        What a session takes to begin is part of the unit's budget; to wait for the device is not.
        """
        folder = read_settings().cache if unit.files else unit.cache_folder
        kind = device, folder, unit.demands.anew
        if self._open is None or self._open[0] != kind:
            self._end()
            session = opened(
                device,
                cache_folder=folder,
                patience_s=unit.patience_s,
                demands=unit.demands,
                spending=Spending(),
                listen=self._hear,
                sharing=seat.sharing,
            )
            workbench = self._stack.enter_context(session)
            if seat.lender is not None and (outside := seat.lender.outside()) is not None:
                workbench.binaries.borrow(outside)
            workbench.binaries.start()
            with clock.stopped():
                workbench.take_device(lambda: None)
            self._open = kind, replace(workbench, take_device=lambda _meanwhile: None)
        return replace(self._open[1], listen=self._hear, clock=clock, demands=unit.demands)

    def _hear(self, event: Event) -> None:
        self._listen(event)  # the unit's at hand

    def _end(self) -> None:
        self._open = None
        with contextlib.suppress(Error):
            self._stack.close()


def _drifts(workbench: Workbench, unit: Unit) -> tuple[Drift, ...]:
    from pretuned.tune.remeasure import drifts  # noqa: PLC0415 - it imports NumPy

    return tuple(drifts(workbench, unit.confirms, {unit.kernel: _here(unit).spec}))


def _here(unit: Unit) -> TuningRequest:
    """Return a unit's request with the kernel's folder as it is on this machine."""
    request = unit.request
    return replace(request, spec=moved(request.spec, unit.files.placed())) if unit.files else request


def _same_kind(found: TuningDevice, wanted: TuningDevice) -> TuningDevice:
    """Return the device here by the name that the coordinator's rows have for its kind, which may have the SM count."""
    name = wanted.name if wanted.name in {found.name, found.record.qualified_name} else found.name
    return replace(found, record=replace(found.record, name=name), effort=wanted.effort)


_all = os.sched_getaffinity(0) if sys.platform == "linux" else set[int]()


def _keep_to_share(index: int, count: int) -> None:
    """Use this part of the processors: as many compilers start as there are, for every device of the machine."""
    everything = sorted(_all)
    if sys.platform == "linux" and len(everything) >= count:
        os.sched_setaffinity(0, everything[index::count])
