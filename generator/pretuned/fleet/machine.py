"""The devices of this machine as a crew: one process each, which lives as long as the crew.

Every device has a thread, which takes the oldest unit of its kind and waits for its process. A process that dies costs
its device nothing but the unit at hand: the next unit gets a new one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from pretuned.config import Place
from pretuned.fleet.answers import UnitAnswer
from pretuned.fleet.crews import NoWorkerError
from pretuned.fleet.serving import Seat, evidence_of
from pretuned.fleet.units import Unit
from pretuned.fleet.worker import TARGET, Settler
from pretuned.record.rows import TunedDevice
from pretuned.tune.events import Listener, OnDevice
from pretuned.tune.request import TuningDevice, find_device, label

_FAILURES: Final = 2  # in a row; fewer than the attempts of a unit, so that another device gets one of those
_END_S: Final = 10.0  # for a thread whose process was killed


def devices_here(backend: str, known: Mapping[str, TunedDevice]) -> Iterator[TuningDevice]:
    """Yield the devices of a backend, by number; `known` are those of the lock, by which they are named."""
    named = dict(known)
    for index in itertools.count():
        found = find_device(Place(backend=backend, index=index), named)
        if found is None:
            return
        named.setdefault(found.name, found.record)
        yield found


@dataclass(slots=True, kw_only=True)
class _Bench:
    """One device: its settler, the kind that units name, and the GPU's own name."""

    settler: Settler
    kind: str
    gpu: str
    dismissed: bool = False
    threads: list[threading.Thread] = field(default_factory=list)


class MachineCrew:
    """The crew of `devices`, which are of this machine. Use it in a `with` statement, which ends its processes."""

    streams = True

    def __init__(self, devices: Sequence[TuningDevice], target: str = TARGET) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[Unit, Listener, Future[UnitAnswer]]] = []
        self._ended = False
        self._benches = list(_benches(devices, target))

    def __enter__(self) -> Self:
        for bench in self._benches:
            thread = threading.Thread(target=self._run, args=(bench,), name=bench.settler.seat.worker, daemon=True)
            bench.threads.append(thread)
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for bench in self._benches:
            if (pid := bench.settler.pid) is not None:
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)  # its own thread takes note of that
        for thread in (thread for bench in self._benches for thread in bench.threads):
            thread.join(_END_S)

    def workers(self, device: str) -> int | None:
        """Return how many devices of a kind there are."""
        return len(self._of_kind(device))

    def room(self, device: str) -> int:
        """Return how many devices of a kind there are."""
        return len(self._of_kind(device))

    def submit(self, unit: Unit, listen: Listener) -> Future[UnitAnswer]:
        """Have the next free device settle a unit."""
        answer: Future[UnitAnswer] = Future()
        with self._changed:
            if any(_may_settle(bench, unit) for bench in self._benches):
                self._waiting.append((unit, listen, answer))
                self._changed.notify_all()
            else:
                answer.set_exception(NoWorkerError(f"no {unit.device.name} is left"))
        return answer

    def dismiss(self, worker: str) -> None:
        """Give nothing more to a device."""
        with self._changed:
            for bench in self._benches:
                bench.dismissed |= bench.settler.seat.worker == worker
            for entry in [one for one in self._waiting if not any(_may_settle(b, one[0]) for b in self._benches)]:
                self._waiting.remove(entry)
                entry[2].set_exception(NoWorkerError(f"no {entry[0].device.name} is left"))

    def _of_kind(self, device: str) -> list[_Bench]:
        return [bench for bench in self._benches if bench.kind == device and not bench.dismissed]

    def _run(self, bench: _Bench) -> None:
        failures = 0  # since its last answer
        while (taken := self._next(bench)) is not None:
            unit, listen, answer = taken
            try:
                found = bench.settler.ask(unit, _naming(bench, listen))
            except Exception as error:  # noqa: BLE001 - the coordinator's to judge
                failures += 1
                self._leave_to_others(bench, failures)
                answer.set_exception(error)
            else:
                assert isinstance(found, UnitAnswer)  # to a unit
                failures = failures + 1 if found.trouble else 0
                self._leave_to_others(bench, failures)
                answer.set_result(found)
        bench.settler.end()

    def _leave_to_others(self, bench: _Bench, failures: int) -> None:
        """Dismiss a device that fails again and again: it fails soon, and would use up the attempts of every unit."""
        with self._changed:
            if failures >= _FAILURES and len(self._of_kind(bench.kind)) > 1:
                self.dismiss(bench.settler.seat.worker)

    def _next(self, bench: _Bench) -> tuple[Unit, Listener, Future[UnitAnswer]] | None:
        """Return the oldest unit that a device may settle, waiting for one; None where nothing more will come."""
        with self._changed:
            while not (self._ended or bench.dismissed):
                for entry in self._waiting:
                    if _may_settle(bench, entry[0]):
                        self._waiting.remove(entry)
                        if entry[2].set_running_or_notify_cancel():
                            return entry
                        break
                else:
                    self._changed.wait()
            return None


def _naming(bench: _Bench, listen: Listener) -> Listener:
    """Return a listener that passes events on with the device's name."""
    return lambda event: listen(OnDevice(device=bench.settler.seat.worker, event=event))


def _may_settle(bench: _Bench, unit: Unit) -> bool:
    return not bench.dismissed and bench.kind == unit.device.name and bench.gpu != unit.not_on


def _benches(devices: Iterable[TuningDevice], target: str) -> Iterator[_Bench]:
    listed = list(devices)
    for number, device in enumerate(listed):
        seat = Seat(worker=label(device.place), place=device.place, share=(number, len(listed)))
        evidence = evidence_of(seat, device.place.backend)
        yield _Bench(settler=Settler(seat, target), kind=device.name, gpu=evidence.gpu)
