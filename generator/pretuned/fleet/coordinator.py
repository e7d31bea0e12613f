"""The coordinator: hands units to a crew, judges what comes back, and goes on whatever becomes of workers.

Theory of operation. Units of each kind of device wait in a row, what is expected to take longest first, and are handed
out as there is room. All that happens arrives in one queue: answers, and events of units that are being settled. So one
thread judges, records and reports, one thing after the other, and what 10,000 units cost it does not grow with their
number.

A unit ends in one of three ways. It is *answered*: the answer was judged sound, and is handed on at once. It is *given
up*: it was given out `attempts` times, and lost, late or refused each time; the next tuning gets it again. Or the
budget ends first. A worker that ends or cancels costs the unit that it had, which is given again. So is the unit of a
refused answer, and the worker that gave that is dismissed. Where a unit is stuck (`pretuned.fleet.flights`), it is
given to another worker too, and the first sound answer counts; what comes later is compared with that and dropped.
Nothing that an answer holds depends on how often its unit was given.

The budget is seconds of the clock on the wall. It stands still while every worker waits for its device.
"""

from __future__ import annotations

import asyncio
import math
import queue
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Final

from pretuned.fleet.answers import AnswerJudge, UnitAnswer, choices_digest
from pretuned.fleet.crews import Crew, NoWorkerError, WorkerLostError
from pretuned.fleet.flights import LEAST_LATE_S, LEAST_SILENT_S, Flight, Given, Paces
from pretuned.fleet.harvest import USUAL, FleetPolicy, Harvest
from pretuned.fleet.queues import UnitQueues
from pretuned.fleet.recording import AnswerRecorder, Settle
from pretuned.fleet.units import Unit, longest_first
from pretuned.record.lock import Lock
from pretuned.tune.confirmation import drawn
from pretuned.tune.events import (
    Event,
    GivenAgain,
    Listener,
    OnDevice,
    OutOfBudget,
    Shared,
    Waiting,
    innermost,
)

GRACE_S: Final = 60.0  # beyond the budget, for units that are out: they end by budgets of their own
TICK_S: Final = 0.5  # between looks at what is late, and at who has come


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
        self._listen = listen
        self._policy = policy
        self._judge = AnswerJudge(compilers)
        self._ends = math.inf if budget_s is None else time.monotonic() + budget_s
        self._budget_s = budget_s
        self._units: list[Given] = []  # without confirmations
        self._out: Counter[str] = Counter()  # by device, without confirmations, which wait for one certain worker
        self._flying: dict[Future[UnitAnswer], Flight] = {}
        self._moot = 0  # those among them of units that are over
        self._confirming = 0  # and those that confirm rows, of units that are not
        self._paces = Paces()
        self._queues = UnitQueues(self._paces)
        self._looked_s = self._seen_s = time.monotonic()
        self._stood_s = 0.0  # for so long every worker has waited for its device
        self._arrived: queue.SimpleQueue[Future[UnitAnswer] | tuple[Flight, Event]] = queue.SimpleQueue()
        self._recorder = AnswerRecorder(crew, settle, listen)

    def run(self, units: Iterable[Unit]) -> Harvest:
        """Return what became of `units` when all are answered or given up, or the budget is spent."""
        for unit in longest_first(units):
            self._units.append(Given(unit=unit, expected_s=unit.expected_s))
            self._queues.add(self._units[-1])
        for device in self._queues.devices:
            self._report_shared(device)
        try:
            while self._goes_on():
                self._hand_out()
                self._take_next()
        except KeyboardInterrupt:
            self._recorder.harvest.interrupted = True
        finally:
            for future in self._flying:
                future.cancel()
        return self._ended()

    def _report_shared(self, device: str) -> None:
        listed = [given for given in self._units if given.unit.device.name == device]
        self._listen(
            Shared(
                device=device,
                units=len(listed),
                rows=sum(given.unit.rows for given in listed),
                workers=self._crew.workers(device),
                seconds=sum(given.expected_s for given in listed),
                budget_s=self._budget_s,
            )
        )

    def _ended(self) -> Harvest:
        """Return the harvest, with what was not answered."""
        harvest = self._recorder.harvest
        harvest.given_up = [(given.unit, given.lost) for given in self._units if given.lost and not given.answered]
        harvest.left = [given.unit for given in self._units if not given.over]
        if self._over and harvest.left:
            self._listen(OutOfBudget(rows=sum(unit.rows for unit in harvest.left)))
        return harvest

    @property
    def _over(self) -> bool:
        return time.monotonic() > self._ends

    def _goes_on(self) -> bool:
        """Return whether there is anything to give out or to wait for."""
        awaited = len(self._flying) - self._moot  # a worker that hangs keeps nobody waiting once another has answered
        if self._over:
            return awaited > self._confirming and time.monotonic() < self._ends + GRACE_S
        if awaited > self._confirming or self._queues.any_open(confirming=False):
            return True
        confirms = self._confirming > 0 or self._queues.any_open(confirming=True)
        return confirms and not any(flight.standing for flight in self._flying.values())  # another tuning may last

    # Giving units out.

    def _hand_out(self) -> None:
        """Give out what there is room for."""
        for device in self._queues.devices:
            room = self._crew.room(device) if self._queues.any_of(device) and not self._over else 0
            while room and (given := self._queues.take(device, full=self._out[device] >= room)) is not None:
                self._give(given)

    def _look_for_workers(self) -> None:
        """Give up what waits where there has been no worker for long, or none that shows a sign of life."""
        for device in self._queues.devices:
            self._crew.workers(device)  # which sees who has come and gone, though nothing is given out any more
        now, flights = time.monotonic(), self._flying.values()
        late = any(flight.late for flight in flights)
        if any(flight.since is not None and not flight.late for flight in flights) or (flights and not late):
            self._seen_s = now
        elif (absent_s := now - self._seen_s) > self._policy.absent_s:
            what = "shown a sign of life" if flights else "come"
            reason = f"no worker has {what} for {absent_s:.0f} s"
            self._give_up_waiting(reason)
            for flight in flights:
                self._give_up(flight.given, reason)

    def _give(self, given: Given) -> None:
        device = given.unit.device.name
        given.attempts += 1
        unit = replace(given.unit, budget_s=self._share_s(given)) if self._budget_s is not None else given.unit
        flight = Flight(given=given)
        if given.attempts > 1 and not unit.confirms:
            self._report_again(given)
        try:
            future = self._crew.submit(unit, lambda event: self._arrived.put((flight, event)))
        except Exception as error:  # noqa: BLE001 - any executor's: a broken pool, a closed client
            reason = f"nothing more can be given out: {_said(error)}"
            self._give_up(given, reason)
            self._give_up_waiting(reason, device)
            return
        given.flights.append(flight)
        self._out[device] += not unit.confirms
        self._confirming += bool(unit.confirms)
        self._flying[future] = flight
        future.add_done_callback(self._arrived.put)

    def _report_again(self, given: Given) -> None:
        chosen = next(iter(given.unit.specialisations), ())
        event = GivenAgain(kernel=given.unit.kernel, specialisation=chosen, reason=given.reason, attempt=given.attempts)
        self._listen(event)

    def _share_s(self, given: Given) -> float:
        """Return a unit's part of the seconds that all workers have left."""
        device = given.unit.device.name
        left_s = max(0.0, self._ends - time.monotonic())
        expected_s = given.expected_s * self._paces.relative(given)
        share = expected_s / (expected_s + self._queues.expected_s(device))
        return min(left_s, left_s * share * (self._crew.workers(device) or 1))

    def _again(self, given: Given, reason: str) -> None:
        """Give a unit again, unless it is over, waits already, is in hand, or had its attempts."""
        if given.over or given.waits or given.in_hand:
            return
        if given.attempts < self._policy.attempts:
            given.reason, given.spare = reason, False
            self._queues.add(given)
        else:
            self._give_up(given, reason)

    def _give_up(self, given: Given, reason: str) -> None:
        if not given.over:
            given.lost = reason
            self._close(given)

    def _close(self, given: Given) -> None:
        """Await nothing more of a unit that is over now."""
        self._moot += len(given.flights)
        self._confirming -= len(given.flights) * bool(given.unit.confirms)

    def _give_up_waiting(self, reason: str, device: str | None = None) -> None:
        """Give up what waits for a kind of device, or for any."""
        for given in self._queues.emptied(device):
            if not given.in_hand:
                self._give_up(given, reason)

    # Taking in what comes back.

    def _take_next(self) -> None:
        """Take in what arrives next, if anything does within a moment; now and then, look at what is late."""
        if time.monotonic() - self._looked_s > TICK_S:
            self._look_at_flights()
        try:
            arrived = self._arrived.get(timeout=TICK_S)
        except queue.Empty:
            return
        if isinstance(arrived, tuple):
            self._hear(*arrived)
        else:
            self._take(arrived)

    def _hear(self, flight: Flight, event: Event) -> None:
        """Take an event in as a sign of life, and pass it on unless the same was reported before."""
        given, inner = flight.given, innermost(event)
        waits = isinstance(inner, Waiting)
        self._out[given.unit.device.name] += flight.takes_room(late=False) - flight.takes_room()
        flight.show_life(time.monotonic(), standing=waits)
        if waits and not (given.over or given.waits or given.in_hand) and given.attempts < self._policy.attempts:
            worker = event.device if isinstance(event, OnDevice) else "a worker"
            given.reason, given.spare = f"{worker} waits for another tuning to end", True
            self._queues.add(given)
        if not given.repeats(inner):
            self._listen(event)

    def _look_at_flights(self) -> None:
        """See which flights have begun and which are late, and have the budget stand still where every worker waits."""
        now, before = time.monotonic(), self._looked_s
        self._looked_s = now
        awaited = [flight for flight in self._flying.values() if not flight.given.over]
        if awaited and all(flight.standing for flight in awaited):
            self._ends += now - before
            self._stood_s += now - before
        for future, flight in self._flying.items():
            if flight.since is None and future.running():
                flight.since = now
        what, least_s = ("sign of life", LEAST_SILENT_S) if self._crew.streams else ("answer", LEAST_LATE_S)
        for future, limit_s in self._paces.late(self._flying, self._policy.late_s, least_s, now):
            given = self._flying[future].given
            self._out[given.unit.device.name] -= not given.unit.confirms  # nobody knows whether its worker will go on
            if given.attempts < self._policy.attempts:  # else it may still answer
                self._again(given, f"no {what} for {limit_s:.3g} s")
            self._crew.recall(future)
        self._look_for_workers()

    def _take(self, future: Future[UnitAnswer]) -> None:
        flight = self._flying.pop(future)
        given = flight.given
        given.flights.remove(flight)
        self._moot -= given.over
        self._out[given.unit.device.name] -= flight.takes_room()
        self._confirming -= bool(given.unit.confirms and not given.over)
        try:
            answer = future.result()
        except (CancelledError, asyncio.CancelledError):
            self._again(given, "it was cancelled")
        except NoWorkerError as error:
            if given.unit.confirms:  # others of its kind may still settle units
                return
            if not given.in_hand:
                self._give_up(given, str(error))
            self._give_up_waiting(str(error), given.unit.device.name)
        except Exception as error:  # noqa: BLE001 - whatever ended the worker
            self._again(given, _said(error))
        else:
            self._take_answer(given, answer)

    def _take_answer(self, given: Given, answer: UnitAnswer) -> None:
        found = self._judge.judge(given.unit, answer)
        if isinstance(found, str):
            self._refuse(given, answer, found)
        elif given.unit.confirms:
            self._take_confirmation(given, answer)
        elif given.answered:
            self._recorder.record_again(same=given.answered == choices_digest(found))
        elif answer.trouble and self._is_out_of_patience(given.unit):
            self._give_up(given, answer.trouble)
            self._give_up_waiting(answer.trouble, given.unit.device.name)
        elif answer.trouble and (given.in_hand or given.attempts < self._policy.attempts):
            self._again(given, answer.trouble)
        else:
            self._take_sound(given, answer, found)

    def _is_out_of_patience(self, unit: Unit) -> bool:
        return unit.patience_s is not None and self._stood_s > 0.9 * unit.patience_s

    def _take_sound(self, given: Given, answer: UnitAnswer, found: Lock) -> None:
        if not given.lost:
            self._close(given)
        given.answered = choices_digest(found)
        if answer.seconds and not (answer.left or answer.trouble):
            self._paces.learn(given, answer.seconds)
            self._queues.learned.add(given.unit.device.name)
        self._recorder.record(given, answer, found)
        self._confirm(given.unit, answer, found)

    def _refuse(self, given: Given, answer: object, reason: str) -> None:
        worker = answer.evidence.worker if isinstance(answer, UnitAnswer) else ""
        self._recorder.dismiss(worker, given.unit.kernel, reason)
        self._again(given, f"the answer of {worker or 'a worker'} was refused")

    # Confirming rows.

    def _confirm(self, unit: Unit, answer: UnitAnswer, found: Lock) -> None:
        """Have some of the rows that were found measured again on another GPU."""
        rows = tuple(row for row in found.rows if drawn(row))
        if rows and self._policy.confirms and self._crew.workers(unit.device.name) != 1:
            again = unit.confirming(rows, not_on=answer.evidence.gpu)
            self._queues.add(Given(unit=again, expected_s=again.expected_s))

    def _take_confirmation(self, given: Given, answer: UnitAnswer) -> None:
        unit = given.unit
        if not answer.drifts:  # by the same GPU, or in trouble
            self._again(given, answer.trouble)
            return
        if not given.over:
            self._close(given)
        given.answered = "confirmed"
        self._recorder.record_confirmed(unit, answer)


def _said(error: BaseException) -> str:
    if isinstance(error, WorkerLostError):
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")
