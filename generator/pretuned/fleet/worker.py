"""What an executor calls on a worker's machine: a unit in, an answer out.

The unit is settled by a child process, so that a candidate that takes its process down does not take the worker with
it. The child is kept for the next unit, and ends when none has come for a while.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Final

from pretuned.child import Child, Died
from pretuned.errors import DeviceError
from pretuned.fleet import lending
from pretuned.fleet.answers import UnitAnswer, WorkerEvidence
from pretuned.fleet.compiling import CompilerEvidence
from pretuned.fleet.crews import WorkerLostError
from pretuned.fleet.serving import Seat, evidence_of
from pretuned.fleet.units import Unit
from pretuned.tune.events import Listener

TARGET: Final = "pretuned.fleet.serving:serve"
IDLE_S: Final = 60.0  # that a GPU is held for the next unit


class Settler:
    """A child process that settles units at a seat; a new one is started where it has died."""

    def __init__(self, seat: Seat, target: str = TARGET) -> None:
        self.seat = seat
        self._target = target
        self._child: Child | None = None
        self._turn = threading.Lock()
        self._struck: str | None = None  # why the process at hand was ended
        self._closed = False

    def ask(self, asked: Unit | str, listen: Listener) -> UnitAnswer | WorkerEvidence:
        """Return the answer to a unit, or the evidence for a backend's name; raises WorkerLostError."""
        child = self._ready()
        died = child.send((self.seat, asked))
        while died is None:
            heard = child.receive()
            if isinstance(heard, UnitAnswer | WorkerEvidence):
                return heard
            if isinstance(heard, Died):
                died = heard
            else:
                listen(heard)
        self.end()
        raise WorkerLostError(f"{self.seat.worker}: {self._struck or died.reason}")

    def _ready(self) -> Child:
        """Return the child, a new one where it has died; raises WorkerLostError where there is to be none any more."""
        with self._turn:
            if self._closed:
                raise WorkerLostError(f"{self.seat.worker}: the tuning is over")
            if self._child is not None and not self._child.alive:
                self._child.kill()
                self._child = None
            if self._child is None:
                self._child, self._struck = Child(self._target), None
            return self._child

    def strike(self, reason: str) -> None:
        """End the process that is asked for a `reason`, from another thread."""
        with self._turn:
            self._strike(reason)

    def close(self) -> None:
        """End the process from another thread, and start no other."""
        with self._turn:
            self._closed = True
            self._strike("the tuning is over")

    def _strike(self, reason: str) -> None:
        if self._child is not None:
            self._struck = reason
            self._child.strike()

    def end(self) -> None:
        """End the child; not while it is asked."""
        with self._turn:
            if self._child is not None:
                self._child.kill()
                self._child = None


class _Desk:
    """The settler of this process, if an executor has called it lately."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._settler: Settler | None = None
        self._timer: threading.Timer | None = None

    def settle(self, unit: Unit, worker: str) -> UnitAnswer:
        """Settle a unit, one after the other."""
        with self._turn:
            if self._timer is not None:
                self._timer.cancel()
            seat = Seat(worker=worker, lender=lending.address())
            if self._settler is None or self._settler.seat != seat:
                self._end()
                self._settler = Settler(seat)
            try:
                found = self._settler.ask(unit, lambda _event: None)
            finally:
                self._timer = threading.Timer(IDLE_S, self._idle)
                self._timer.daemon = True
                self._timer.start()
            assert isinstance(found, UnitAnswer)  # to a unit
            return found

    def _idle(self) -> None:
        with self._turn:
            self._end()

    def _end(self) -> None:
        if self._settler is not None:
            self._settler.end()
            self._settler = None


_desk: Final = _Desk()


def work(unit: Unit, worker: str = "") -> UnitAnswer:
    """Return the answer to a unit; raises WorkerLostError. A process settles one unit after the other."""
    return _desk.settle(unit, worker or own_name())


def survey(backend: str, worker: str = "") -> WorkerEvidence:
    """Return what this process has on a backend; raises DeviceError where it has nothing."""
    return evidence_of(Seat(worker=worker or own_name()), backend)


def survey_all(backend: str, worker: str = "") -> WorkerEvidence | CompilerEvidence:
    """Return what this process has on a backend: a device, or else a compiler; raises DeviceError without either."""
    try:
        return survey(backend, worker)
    except DeviceError:
        return CompilerEvidence.here(backend, worker or own_name())


def own_name() -> str:
    """Return what tells this process apart from the other workers."""
    return f"{socket.gethostname()}:{os.getpid()}"
