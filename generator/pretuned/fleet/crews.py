"""Crews: what brings units to workers, and tells the workers apart as far as it can.

A `Crew` is the seam between the coordinator and whatever runs the workers: the devices of this machine
(`pretuned.fleet.machine`), Dask (`pretuned.fleet.dask`), or any `concurrent.futures.Executor` (`ExecutorCrew`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, Protocol

from pretuned.fleet.answers import UnitAnswer
from pretuned.fleet.units import Unit
from pretuned.tune.events import Listener

ANY: Final = 1 << 30  # units that may be out where nobody knows how many workers there are
ASK_S: Final = 1.0  # between two questions to the jobs of an executor that does not call back
Work = Callable[[Unit], UnitAnswer]


class NoWorkerError(Exception):
    """There is no worker that could settle a unit, and none will come."""


class WorkerLostError(Exception):
    """The worker ended before it answered."""


class Crew(Protocol):
    """The workers. `streams`: events arrive while a unit is settled, instead of with its answer."""

    streams: bool

    def workers(self, device: str) -> int | None:
        """Return how many workers have a kind of device now; None where nobody knows."""
        ...

    def room(self, device: str) -> int:
        """Return how many units for a kind of device may be out at once."""
        ...

    def submit(self, unit: Unit, listen: Listener) -> Future[UnitAnswer]:
        """Have a worker settle a unit, of a GPU that is not `unit.not_on`; `listen` may be called in any thread.

        The future's exception says what became of the worker; NoWorkerError if there is none.
        """
        ...

    def recall(self, answer: Future[UnitAnswer]) -> None:
        """End what settles a late unit, or give nothing more to it, where it can be told apart from other workers."""

    def dismiss(self, worker: str) -> None:
        """Give nothing more to a worker, where workers can be told apart."""


def as_future(found: Any) -> Future[Any]:  # noqa: ANN401 - what an executor returns
    """Return what an executor has returned as a future that calls back: jobs of submitit can only be asked.

    Such a job has `done` and `result`, and is asked once a second, by a thread of its own for all of them.
    """
    return found if hasattr(found, "add_done_callback") else _inquirer.ask(found)


class _Inquirer:
    """Asks jobs whether they are done, as long as there are any."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._asked: list[tuple[Any, Future[Any]]] = []

    def ask(self, job: Any) -> Future[Any]:  # noqa: ANN401 - an executor's own
        """Return a future that ends as a job does."""
        future: Future[Any] = Future()
        with self._turn:
            self._asked.append((job, future))
            if len(self._asked) == 1:
                threading.Thread(target=self._run, name="jobs", daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            time.sleep(ASK_S)
            with self._turn:
                asked = list(self._asked)
            ended = [one for one in asked if _has_ended(*one)]
            with self._turn:
                self._asked = [one for one in self._asked if one not in ended]
                if not self._asked:
                    return


def _has_ended(job: Any, future: Future[Any]) -> bool:  # noqa: ANN401 - an executor's own
    """Bring a future to where its job is; returns whether it is over."""
    if future.cancelled():
        job.cancel()
        return True
    try:
        if not job.done():
            if not future.running() and str(getattr(job, "state", "")).upper() == "RUNNING":
                future.set_running_or_notify_cancel()
            return False
        found = job.result()
    except Exception as error:  # noqa: BLE001 - whatever became of the job
        found = error
    if not future.running() and not future.set_running_or_notify_cancel():
        return True
    if isinstance(found, Exception):
        future.set_exception(found)
    else:
        future.set_result(found)
    return True


_inquirer: Final = _Inquirer()


class ExecutorCrew:
    """Any `concurrent.futures.Executor`, whose workers all have one kind of device.

    `work` is what it calls with a unit.
    """

    streams = False

    def __init__(self, executor: Executor, work: Work) -> None:
        self._executor = executor
        self._work = work

    def workers(self, device: str) -> int | None:  # noqa: ARG002 - they have one kind
        """Return how many workers the executor says that it has."""
        count: Any = getattr(self._executor, "_max_workers", None)  # of the standard library's, and most others
        return count if isinstance(count, int) and count > 0 else None

    def room(self, device: str) -> int:  # noqa: ARG002 - it queues whatever it is given
        """Return that there is no limit."""
        return ANY

    def submit(self, unit: Unit, listen: Listener) -> Future[UnitAnswer]:  # noqa: ARG002 - nothing is heard before the end
        """Submit the unit."""
        return as_future(self._executor.submit(self._work, unit))

    def recall(self, answer: Future[UnitAnswer]) -> None:
        """Do nothing: an executor cannot end what has begun."""

    def dismiss(self, worker: str) -> None:
        """Do nothing: an executor gives its work to whom it will."""
