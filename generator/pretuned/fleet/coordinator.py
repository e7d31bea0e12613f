"""The coordinator: hands units to a crew, judges what comes back, and goes on whatever becomes of workers.

Theory of operation. Units of each kind of device wait in a row, what is expected to take longest first, and are handed
out as there is room. All that happens arrives in one queue: answers, and events of units that are being settled. So one
thread judges, records and reports, one thing after the other, and what 10,000 units cost it does not grow with their
number.

A unit ends in one of three ways. It is *answered*: the answer was judged sound, and is handed on at once. It is *given
up*: it was given out `attempts` times, and lost or refused each time; the next tuning gets it again. Or the budget ends
first. A worker that ends, hangs or cancels costs the unit that it had, which is given again. So is the unit of a
refused answer, and the worker that gave that is dismissed. Where a unit has been out for too long, it is given to
another worker too, and the first sound answer counts; what comes later is compared with that and dropped. Nothing that
an answer holds depends on how often its unit was given.
"""

from __future__ import annotations

import asyncio
import math
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from typing import Final

from pretuned.fleet.answers import AnswerJudge, UnitAnswer, choices_digest
from pretuned.fleet.crews import Crew, NoWorkerError
from pretuned.fleet.units import Unit, longest_first
from pretuned.record.lock import Lock
from pretuned.tune.confirmation import ConfirmedRow, drawn
from pretuned.tune.events import (
    AnswerRefused,
    Decided,
    Event,
    GivenAgain,
    Listener,
    OnDevice,
    OutOfBudget,
    Passed,
    Shared,
)
from pretuned.tune.request import TuningRequest

GRACE_S: Final = 60.0  # beyond the budget, for units that are out: they end by budgets of their own
LATE_S: Final = 900.0
ABSENT_S: Final = 600.0
TICK_S: Final = 0.5  # between looks at what is late, and at who has come


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPolicy:
    """How a coordinator deals with workers: the `attempts` that a unit gets, and the seconds after which it is late.

    For `absent_s` seconds it waits where there is no worker at all. `confirms`: whether one row in ten is measured
    again on a second GPU.
    """

    attempts: int = 3
    late_s: float = LATE_S
    absent_s: float = ABSENT_S
    confirms: bool = True


USUAL: Final = FleetPolicy()


@dataclass(slots=True, kw_only=True, eq=False)
class _Given:
    """A unit: how often it was given out, how many may still answer, and the digest of its answer once it has one."""

    unit: Unit
    expected_s: float
    attempts: int = 0
    out: int = 0
    waits: bool = False  # to be given out
    since: float | None = None  # when a worker began, by time.monotonic()
    answered: str = ""


@dataclass(slots=True, kw_only=True)
class Harvest:
    """What a coordinator has brought in, beside the answers that it has handed on.

    `left` are units that the budget did not reach, `given_up` those that were lost each time, with the last reason.
    `duplicates` counts second answers, and `differing` those among them that chose otherwise; `refused` has the last
    reason by worker, and `given` the answers that each worker gave. `interrupted`: the user ended it.
    """

    left: list[Unit] = field(default_factory=list)
    given_up: list[tuple[Unit, str]] = field(default_factory=list)
    confirmed: list[ConfirmedRow] = field(default_factory=list)
    duplicates: int = 0
    differing: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    given: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False


Settle = Callable[[Unit, UnitAnswer, Lock], None]


class Coordinator:
    """Has a crew settle units. `settle` is called with each sound answer, in this thread, as soon as it is there."""

    def __init__(
        self,
        crew: Crew,
        settle: Settle,
        *,
        listen: Listener = lambda _event: None,
        policy: FleetPolicy = USUAL,
        compilers: Mapping[str, str] | None = None,
        budget_s: float | None = None,
    ) -> None:
        self._crew = crew
        self._settle = settle
        self._listen = listen
        self._policy = policy
        self._judge = AnswerJudge(compilers)
        self._ends = math.inf if budget_s is None else time.monotonic() + budget_s
        self._budget_s = budget_s
        self._waiting: dict[str, deque[_Given]] = {}
        self._expected: Counter[str] = Counter()  # seconds of what waits, by device; whole milliseconds
        self._out: Counter[str] = Counter()
        self._flying: dict[Future[UnitAnswer], _Given] = {}
        self._moot = 0  # those among them whose unit has been answered by another worker
        self._looked_s = time.monotonic()
        self._arrived: queue.SimpleQueue[Future[UnitAnswer] | Event] = queue.SimpleQueue()
        self._seen_s = time.monotonic()  # when anything was out, or could be given, last
        self._harvest = Harvest()

    def run(self, units: Iterable[Unit]) -> Harvest:
        """Return what became of `units` when all are answered or given up, or the budget is spent."""
        for unit in longest_first(units):
            self._append(unit)
        for device, waiting in self._waiting.items():
            workers = self._crew.workers(device)
            self._listen(Shared(device=device, units=len(waiting), workers=workers, budget_s=self._budget_s))
        try:
            while self._goes_on():
                self._hand_out()
                self._take_next()
        except KeyboardInterrupt:
            self._harvest.interrupted = True
        return self._ended()

    def _ended(self) -> Harvest:
        """Return the harvest, with what was not answered."""
        harvest = self._harvest
        waiting = [given for listed in self._waiting.values() for given in listed]
        for given in dict.fromkeys([*self._flying.values(), *waiting]):
            if not (given.answered or given.unit.confirms):
                harvest.left.append(given.unit)
        for future in self._flying:
            future.cancel()
        if self._over and harvest.left:
            self._listen(OutOfBudget(rows=sum(unit.rows for unit in harvest.left)))
        return harvest

    @property
    def _over(self) -> bool:
        return time.monotonic() > self._ends

    def _goes_on(self) -> bool:
        """Return whether there is anything to give out or to wait for."""
        awaited = len(self._flying) > self._moot  # a worker that hangs keeps nobody waiting once another has answered
        if not self._over:
            return awaited or any(not given.answered for listed in self._waiting.values() for given in listed)
        return awaited and time.monotonic() < self._ends + GRACE_S

    # Giving units out.

    def _append(self, unit: Unit) -> None:
        given = _Given(unit=unit, expected_s=unit.expected_s)
        self._waiting.setdefault(unit.device.name, deque()).append(given)
        self._expected[unit.device.name] += round(1000 * given.expected_s)

    def _hand_out(self) -> None:
        """Give out what there is room for."""
        for device, waiting in self._waiting.items():
            room = self._crew.room(device) if waiting and not self._over else 0
            while waiting and self._out[device] < room:
                given = waiting.popleft()
                if not given.answered:
                    self._give(given)
                self._expected[device] -= round(1000 * given.expected_s)
        absent_s = time.monotonic() - self._seen_s
        if self._flying:
            self._seen_s = time.monotonic()
        elif absent_s > self._policy.absent_s:
            self._give_up_waiting(f"no worker has come for {absent_s:.0f} s")

    def _give(self, given: _Given) -> None:
        device = given.unit.device.name
        given.attempts += 1
        given.waits = False
        unit = replace(given.unit, budget_s=self._share_s(given)) if self._budget_s is not None else given.unit
        try:
            future = self._crew.submit(unit, self._arrived.put)
        except Exception as error:  # noqa: BLE001 - any executor's: a broken pool, a closed client
            self._waiting[device].appendleft(given)
            self._expected[device] += round(1000 * given.expected_s)
            self._give_up_waiting(f"nothing more can be given out: {_said(error)}", device)
            return
        given.out += 1
        given.since = None
        self._out[device] += 1
        self._flying[future] = given
        future.add_done_callback(self._arrived.put)

    def _share_s(self, given: _Given) -> float:
        """Return a unit's part of the seconds that all workers have left."""
        device = given.unit.device.name
        left_s = max(0.0, self._ends - time.monotonic())
        share = given.expected_s / max(given.expected_s, self._expected[device] / 1000)
        return min(left_s, left_s * share * (self._crew.workers(device) or 1))

    def _again(self, given: _Given, reason: str) -> None:
        """Give a unit again, unless it has an answer, waits already, or had its attempts."""
        if given.answered or given.waits:
            return
        if given.attempts < self._policy.attempts:
            waiting = self._waiting[given.unit.device.name]
            given.waits = True
            if given.unit.confirms:
                waiting.append(given)  # behind what is still to be settled
            else:
                waiting.appendleft(given)
                self._listen(GivenAgain(kernel=given.unit.kernel, reason=reason, attempt=given.attempts + 1))
            self._expected[given.unit.device.name] += round(1000 * given.expected_s)
        elif not given.out:
            self._give_up(given, reason)

    def _give_up(self, given: _Given, reason: str) -> None:
        if not (given.answered or given.unit.confirms):
            self._harvest.given_up.append((given.unit, reason))

    def _give_up_waiting(self, reason: str, device: str | None = None) -> None:
        """Give up what waits for a kind of device, or for any."""
        for name, waiting in self._waiting.items():
            if device in {None, name}:
                for given in waiting:
                    self._give_up(given, reason)
                waiting.clear()
                self._expected[name] = 0

    # Taking in what comes back.

    def _take_next(self) -> None:
        """Take in what arrives next, if anything does within a moment; now and then, look at what is late."""
        if time.monotonic() - self._looked_s > TICK_S:
            self._looked_s = time.monotonic()
            self._look_at_late()
        try:
            arrived = self._arrived.get(timeout=TICK_S)
        except queue.Empty:
            return
        if isinstance(arrived, Future):
            self._take(arrived)
        else:
            self._listen(arrived)

    def _look_at_late(self) -> None:
        now = time.monotonic()
        for future, given in list(self._flying.items()):
            if given.since is None and future.running():
                given.since = now
            late = given.since is not None and now - given.since > self._policy.late_s
            if late and given.out == given.attempts < self._policy.attempts and not (given.answered or given.waits):
                given.since = None
                self._again(given, f"no answer for {self._policy.late_s:g} s")

    def _take(self, future: Future[UnitAnswer]) -> None:
        given = self._flying.pop(future)
        given.out -= 1
        self._moot -= bool(given.answered)
        self._out[given.unit.device.name] -= 1
        try:
            answer = future.result()
        except (CancelledError, asyncio.CancelledError):
            self._again(given, "it was cancelled")
        except NoWorkerError as error:
            if given.unit.confirms:  # others of its kind may still settle units
                return
            self._waiting[given.unit.device.name].append(given)
            self._give_up_waiting(str(error), given.unit.device.name)
        except Exception as error:  # noqa: BLE001 - whatever ended the worker
            self._again(given, _said(error))
        else:
            self._take_answer(given, answer)

    def _take_answer(self, given: _Given, answer: UnitAnswer) -> None:
        found = self._judge.judge(given.unit, answer)
        if isinstance(found, str):
            self._refuse(given, answer, found)
        elif given.unit.confirms:
            self._take_confirmation(given, answer)
        elif given.answered:
            self._harvest.duplicates += 1
            self._harvest.differing += given.answered != choices_digest(found)
        elif answer.trouble and given.attempts < self._policy.attempts:
            self._again(given, answer.trouble)
        else:
            given.answered = choices_digest(found)
            self._moot += given.out
            self._harvest.given[answer.evidence.worker] += 1
            self._settle(given.unit, answer, found)
            self._report(answer, found)
            self._confirm(given.unit, answer, found)

    def _refuse(self, given: _Given, answer: object, reason: str) -> None:
        worker = answer.evidence.worker if isinstance(answer, UnitAnswer) else ""
        self._harvest.refused[worker] = reason
        self._listen(AnswerRefused(worker=worker, kernel=given.unit.kernel, reason=reason))
        self._crew.dismiss(worker)
        self._again(given, f"the answer of {worker or 'a worker'} was refused")

    def _report(self, answer: UnitAnswer, found: Lock) -> None:
        """Report rows where nothing was heard while they were settled."""
        if self._crew.streams:
            return
        for row in found.rows:
            self._listen(OnDevice(device=answer.evidence.worker, event=Decided(row=row, cached=False)))
        for entry in found.skipped:
            self._listen(OnDevice(device=answer.evidence.worker, event=Passed(entry=entry)))

    # Confirming rows.

    def _confirm(self, unit: Unit, answer: UnitAnswer, found: Lock) -> None:
        """Have some of the rows that were found measured again on another GPU."""
        rows = tuple(row for row in found.rows if drawn(row))
        if not (rows and self._policy.confirms) or self._crew.workers(unit.device.name) == 1:
            return
        request = TuningRequest(spec=unit.request.spec, problems=())
        self._append(replace(unit, request=request, confirms=rows, not_on=answer.evidence.gpu, budget_s=None))

    def _take_confirmation(self, given: _Given, answer: UnitAnswer) -> None:
        unit = given.unit
        if not answer.drifts:  # by the same GPU, or in trouble
            self._again(given, answer.trouble)
            return
        given.answered = "confirmed"
        self._moot += given.out
        self._harvest.confirmed += [
            ConfirmedRow(drift=drift, first=unit.not_on, second=answer.evidence.gpu) for drift in answer.drifts
        ]


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
