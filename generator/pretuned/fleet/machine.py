"""The devices of this machine as a crew: one process each, which lives as long as the crew.

Every device has a thread, which takes the oldest unit of its kind and waits for its process. A process that dies costs
its device nothing but the unit at hand, which another device gets if there is one: the next unit gets a new process. A
device that fails at several kernels in a row gets nothing more.
"""

from __future__ import annotations

import threading
from collections import Counter
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

_FAILURES: Final = 2  # kernels in a row: such a device fails soon, and would use up the attempts of every unit
_FAILURES_ALONE: Final = 3  # where there is no other device of the kind
_END_S: Final = 10.0  # for a thread whose process was killed


def devices_here(
    backend: str, known: Mapping[str, TunedDevice], first: TuningDevice | None = None
) -> Iterator[TuningDevice]:
    """Yield the devices of a backend that answer, by number; `known` are those of the lock, by which they are named.

    `first` is the first of them if that was found before: to find a GPU takes its driver a moment.
    """
    named = dict(known)
    found = first or find_device(Place(backend=backend, every=True), named)
    while found is not None:
        named.setdefault(found.name, found.record)
        yield found
        found = find_device(Place(backend=backend, index=found.place.index + 1, every=True), named)


@dataclass(slots=True, kw_only=True)
class _Bench:
    """One device: its settler, the kind that units name, and the GPU's own name.

    `answer` is what it works on. `lost` counts how often it has failed at a unit. `in_a_row` has the kernels at which
    it has failed since it settled one: a kernel may be to blame, several are not. `struck`: its process was ended, and
    has not gone yet.
    """

    settler: Settler
    kind: str
    gpu: str
    dismissed: bool = False
    answer: Future[UnitAnswer] | None = None
    lost: Counter[str] = field(default_factory=Counter)
    in_a_row: set[str] = field(default_factory=set)
    struck: bool = False
    threads: list[threading.Thread] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Order:
    """A unit that waits for a device; `key` is the unit's own."""

    unit: Unit
    key: str
    listen: Listener
    answer: Future[UnitAnswer]

    def fail(self, error: Exception) -> None:
        """End it before a device has it."""
        if self.answer.set_running_or_notify_cancel():
            self.answer.set_exception(error)


class MachineCrew:
    """The crew of `devices`, which are of this machine. Use it in a `with` statement, which ends its processes."""

    streams = True

    def __init__(self, devices: Sequence[TuningDevice], target: str = TARGET) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Order] = []
        self._left: dict[str, str] = {}  # why nobody of a kind is left
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
            bench.settler.close()  # its own thread takes note of that
        for thread in (thread for bench in self._benches for thread in bench.threads):
            thread.join(_END_S)

    def workers(self, device: str) -> int | None:
        """Return how many devices of a kind there are."""
        return len(self._of_kind(device))

    def room(self, device: str) -> int:
        """Return how many devices of a kind there are: one at least, so that `submit` can say that none is left."""
        return max(1, len(self._of_kind(device)))

    def submit(self, unit: Unit, listen: Listener) -> Future[UnitAnswer]:
        """Have the next free device settle a unit."""
        order = _Order(unit=unit, key=unit.key, listen=listen, answer=Future())
        with self._changed:
            self._waiting.append(order)
            self._end_hopeless()
            self._changed.notify_all()
        return order.answer

    def recall(self, answer: Future[UnitAnswer]) -> None:
        """End the process that settles a late unit; the device goes on with a new one."""
        with self._changed:
            for bench in self._benches:
                if bench.answer is answer:
                    bench.struck = True
                    bench.settler.strike("its process was silent for too long and was ended")
            self._changed.notify_all()

    def dismiss(self, worker: str) -> None:
        """Give nothing more to a device."""
        with self._changed:
            for bench in self._benches:
                bench.dismissed |= bench.settler.seat.worker == worker
            self._end_hopeless()
            self._changed.notify_all()

    def _end_hopeless(self) -> None:
        """End what no device may settle."""
        for order in [one for one in self._waiting if not any(_may_settle(b, one.unit) for b in self._benches)]:
            self._waiting.remove(order)
            kind = order.unit.device.name
            reason = f": {self._left[kind]}" if kind in self._left else ""
            order.fail(NoWorkerError(f"no {kind} is left{reason}"))

    def _of_kind(self, device: str) -> list[_Bench]:
        return [bench for bench in self._benches if bench.kind == device and not bench.dismissed]

    def _run(self, bench: _Bench) -> None:
        while (order := self._next(bench)) is not None:
            try:
                found = bench.settler.ask(order.unit, _naming(bench, order.listen))
            except Exception as error:  # noqa: BLE001 - the coordinator's to judge
                self._note(bench, order, str(error) or type(error).__name__)
                order.answer.set_exception(error)
            else:
                assert isinstance(found, UnitAnswer)  # to a unit
                self._note(bench, order, found.trouble)
                order.answer.set_result(found)
        bench.settler.end()

    def _note(self, bench: _Bench, order: _Order, trouble: str) -> None:
        """Note how a device got on with a unit, and dismiss one that fails at one kernel after another."""
        with self._changed:
            bench.answer, bench.struck = None, False
            if not trouble:
                bench.in_a_row.clear()
                return
            bench.lost[order.key] += 1
            bench.in_a_row.add(order.unit.kernel)
            if len(bench.in_a_row) >= (_FAILURES if len(self._of_kind(bench.kind)) > 1 else _FAILURES_ALONE):
                self._left[bench.kind] = trouble
                self.dismiss(bench.settler.seat.worker)
            self._changed.notify_all()

    def _next(self, bench: _Bench) -> _Order | None:
        """Return the oldest unit that a device is to settle, waiting for one; None where nothing more will come."""
        with self._changed:
            while not (self._ended or bench.dismissed):
                order = next((one for most in (0, 1) for one in self._waiting if self._is_for(bench, one, most)), None)
                if order is None:
                    self._changed.wait()
                    continue
                self._waiting.remove(order)
                if order.answer.set_running_or_notify_cancel():
                    bench.answer = order.answer
                    return order
            return None

    def _is_for(self, bench: _Bench, order: _Order, most: int) -> bool:
        """Whether a device is to settle a unit: if it has failed more often than `most` at it, where no other can."""
        if bench.lost[order.key] <= most:
            return _may_settle(bench, order.unit)
        others = (one for one in self._benches if one is not bench and not one.struck and one.lost[order.key] <= most)
        return _may_settle(bench, order.unit) and not any(_may_settle(one, order.unit) for one in others)


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
