"""The devices of this machine as a crew: one process each, or several, which live as long as the crew.

Every process has a thread, which takes the oldest unit of its device's kind and waits for it. A process that dies
costs nothing but the unit at hand, which another one gets if there is one: the next unit gets a new process. One that
fails at several kernels in a row gets nothing more.

Several processes of a device take turns at it (`pretuned.measure.turns`). Its lock is this process's then: the first of
them that has a unit waits for it, and the others have none until it is held.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from pretuned.config import Place
from pretuned.errors import DeviceError
from pretuned.files import scratch
from pretuned.fleet.answers import UnitAnswer, WorkerEvidence, answer_of
from pretuned.fleet.crews import NoWorkerError
from pretuned.fleet.serving import Seat, evidence_of
from pretuned.fleet.units import Unit
from pretuned.fleet.worker import TARGET, Settler
from pretuned.measure.turns import Sharing
from pretuned.record.rows import TunedDevice
from pretuned.tune.events import Listener, OnDevice
from pretuned.tune.request import TuningDevice, find_device, label
from pretuned.tune.session import Tuned, device_lock
from pretuned.tune.spending import Spending

_FAILURES: Final = 2  # kernels in a row: such a device fails soon, and would use up the attempts of every unit
_FAILURES_ALONE: Final = 3  # where there is no other device of the kind
_FEW: Final = 2  # processes of a device that have all of its processors each
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


@dataclass(slots=True, kw_only=True, eq=False)
class _Shared:
    """A device that several processes share: its lock, once it is `held`, and who waits for that."""

    device: TuningDevice
    held: bool = False
    taker: _Bench | None = None
    lock: ExitStack = field(default_factory=ExitStack)


@dataclass(slots=True, kw_only=True, eq=False)
class _Bench:
    """A process of a device: its settler, what the device is, the kind that units name, and the GPU's own name.

    `shared` where the device has others. `answer` is what it works on. `lost` counts how often it has failed at a unit.
    `in_a_row` has the kernels at which it has failed since it settled one: a kernel may be to blame, several are not.
    `struck`: it was ended, and has not gone yet.
    """

    settler: Settler
    evidence: WorkerEvidence
    kind: str
    shared: _Shared | None = None
    dismissed: bool = False
    answer: Future[UnitAnswer] | None = None
    lost: Counter[str] = field(default_factory=Counter)
    in_a_row: set[str] = field(default_factory=set)
    struck: bool = False
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def gpu(self) -> str:
        """The GPU's own name."""
        return self.evidence.gpu


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
    """The crew of `devices`, which are of this machine, with so many `processes` each.

    Use it in a `with` statement, which ends its processes.
    """

    streams = True

    def __init__(self, devices: Sequence[TuningDevice], target: str = TARGET, *, processes: int = 1) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Order] = []
        self._left: dict[str, str] = {}  # why nobody of a kind is left
        self._ended = False
        self._benches = list(_benches(devices, target, processes))

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
        for shared in {bench.shared for bench in self._benches} - {None}:
            assert shared is not None
            shared.lock.close()

    def workers(self, device: str) -> int | None:
        """Return how many processes there are for a kind of device."""
        return len(self._of_kind(device))

    def room(self, device: str) -> int:
        """Return how many processes there are for a kind: one at least, so that `submit` can say that none is left."""
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
                found = self._held(bench, order) or bench.settler.ask(order.unit, _naming(bench, order.listen))
            except Exception as error:  # noqa: BLE001 - the coordinator's to judge
                self._note(bench, order, str(error) or type(error).__name__)
                order.answer.set_exception(error)
            else:
                assert isinstance(found, UnitAnswer)  # to a unit
                self._note(bench, order, found.trouble)
                order.answer.set_result(found)
        bench.settler.end()

    def _held(self, bench: _Bench, order: _Order) -> UnitAnswer | None:
        """Hold the lock of a device that processes share; return the answer to the unit where that cannot be had."""
        shared = bench.shared
        if shared is None or shared.held:
            return None
        patience_s, answer = order.unit.patience_s, None
        try:
            listen, ended = _naming(bench, order.listen), lambda: self._ended
            shared.lock.enter_context(device_lock(shared.device, listen, patience_s=patience_s, ended=ended))
        except DeviceError as error:
            nothing = Tuned(
                device=shared.device,
                rows=(),
                skipped=(),
                left=order.unit.rows,
                spending=Spending(),
                trouble=str(error),
            )
            answer = answer_of(order.unit, bench.evidence, nothing)
        with self._changed:
            shared.held, shared.taker = answer is None, None
            if self._ended:
                shared.lock.close()  # nobody will
            self._changed.notify_all()
        return answer

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
                    if bench.shared is not None and not bench.shared.held:
                        bench.shared.taker = bench
                    return order
            return None

    def _is_for(self, bench: _Bench, order: _Order, most: int) -> bool:
        """Whether a device is to settle a unit: if it has failed more often than `most` at it, where no other can."""
        if bench.shared is not None and bench.shared.taker is not None:
            return False  # its lock is waited for
        if bench.lost[order.key] <= most:
            return _may_settle(bench, order.unit)
        others = (one for one in self._benches if one is not bench and not one.struck and one.lost[order.key] <= most)
        return _may_settle(bench, order.unit) and not any(_may_settle(one, order.unit) for one in others)


def _naming(bench: _Bench, listen: Listener) -> Listener:
    """Return a listener that passes events on with the device's name."""
    return lambda event: listen(OnDevice(device=bench.settler.seat.worker, event=event))


def _may_settle(bench: _Bench, unit: Unit) -> bool:
    return not bench.dismissed and bench.kind == unit.device.name and bench.gpu != unit.not_on


def _benches(devices: Iterable[TuningDevice], target: str, processes: int) -> Iterator[_Bench]:
    """Yield the processes of each device, which have its share of the processors, or half of it where they are many."""
    listed = list(devices)
    parts = 2 if processes > _FEW else 1  # of a device's processors: that many compilers start for each process
    for number, device in enumerate(listed):
        shared, sharing = None, None
        if processes > 1:
            turns = scratch() / f"turns-{device.place.backend}-{device.place.index}"
            sharing = Sharing(turns=turns, processes=processes, others=_others(device))
            shared = _Shared(device=device)
        for process in range(processes):
            name = label(device.place) if processes == 1 else f"{label(device.place)}, process {process + 1}"
            share = (number * parts + process % parts, len(listed) * parts)
            seat = Seat(worker=name, place=device.place, share=share, sharing=sharing)
            evidence = evidence_of(seat, device.place.backend)
            yield _Bench(settler=Settler(seat, target), evidence=evidence, kind=device.name, shared=shared)


def _others(device: TuningDevice) -> frozenset[int]:
    """Return the ids of the processes that use a device now, as far as something reads them."""
    monitor = device.backend.monitor(device.place.index)
    if monitor is None:
        return frozenset()
    monitor.close()
    return monitor.others
