"""What becomes of answers once they are judged: handed on, counted and reported."""

from __future__ import annotations

from collections.abc import Callable

from pretuned.fleet.answers import UnitAnswer
from pretuned.fleet.crews import Crew
from pretuned.fleet.flights import Given
from pretuned.fleet.harvest import Harvest
from pretuned.fleet.units import Unit
from pretuned.record.lock import Lock
from pretuned.tune.confirmation import ConfirmedRow
from pretuned.tune.events import AnswerRefused, Decided, Listener, OnDevice, Passed, UnitSettled

Settle = Callable[[Unit, UnitAnswer, Lock], None]


class AnswerRecorder:
    """Hands sound answers to `settle`, reports them to `listen`, and fills the `harvest`."""

    def __init__(self, crew: Crew, settle: Settle, listen: Listener) -> None:
        self.harvest = Harvest()
        self._crew = crew
        self._settle = settle
        self._listen = listen

    def record(self, given: Given, answer: UnitAnswer, found: Lock) -> None:
        """Take in the first sound answer to a unit, which has the rows and selections `found`."""
        worker = answer.evidence.worker
        self.harvest.given[worker] += 1
        self.harvest.spent_s[worker] = self.harvest.spent_s.get(worker, 0.0) + answer.seconds
        self._settle(given.unit, answer, found)
        for compiler, reason in answer.compilers_refused:
            if compiler not in self.harvest.refused:
                self.dismiss(compiler, "", reason)
        if not self._crew.streams:  # nothing was heard while they were settled
            for row in found.rows:
                self._listen(OnDevice(device=worker, event=Decided(row=row, cached=False)))
            for entry in found.skipped:
                self._listen(OnDevice(device=worker, event=Passed(entry=entry)))
        self._listen(UnitSettled(device=given.unit.device.name, worker=worker, seconds=given.expected_s))

    def record_again(self, *, same: bool) -> None:
        """Count a further sound answer to a unit, which chose the `same` as the first, or otherwise."""
        self.harvest.duplicates += 1
        self.harvest.differing += not same

    def record_confirmed(self, unit: Unit, answer: UnitAnswer) -> None:
        """Take in how far rows were apart on another GPU."""
        self._listen(UnitSettled(device=unit.device.name, worker=answer.evidence.worker))
        self.harvest.confirmed += [
            ConfirmedRow(drift=drift, first=unit.not_on, second=answer.evidence.gpu) for drift in answer.drifts
        ]

    def dismiss(self, worker: str, kernel: str, reason: str) -> None:
        """Have a worker do nothing more, as its answer about a kernel, or a binary that it compiled, was refused."""
        self.harvest.refused[worker] = reason
        self._listen(AnswerRefused(worker=worker, kernel=kernel, reason=reason))
        self._crew.dismiss(worker)
