"""Crews: what brings units to workers, and tells the workers apart as far as it can.

A `Crew` is the seam between the coordinator and whatever runs the workers: the devices of this machine
(`pretuned.fleet.machine`), Dask (`pretuned.fleet.dask`), or any `concurrent.futures.Executor` (`ExecutorCrew`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, Protocol

from pretuned.fleet.answers import UnitAnswer
from pretuned.fleet.units import Unit
from pretuned.tune.events import Listener

ANY: Final = 1 << 30  # units that may be out where nobody knows how many workers there are
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

    def dismiss(self, worker: str) -> None:
        """Give nothing more to a worker, where workers can be told apart."""


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
        return self._executor.submit(self._work, unit)

    def dismiss(self, worker: str) -> None:
        """Do nothing: an executor gives its work to whom it will."""
