"""Dask's workers as a crew: `pretuned tune --dask ADDRESS`.

Every worker is asked once which device it has, those that join later as well, and gets units for that kind alone. Dask
itself gives a unit to another worker where one has died; the coordinator sees only those that were lost each time.
Dask is imported here and nowhere else.

Workers without a device compile for those that have one. Which these are stands on a board: metadata of the scheduler,
under a name that is the tuning's own, which comes with each unit. A worker that settles a unit looks there now and
then, and has them compile by tasks of its own (`pretuned.fleet.lending`). So sources and binaries go from worker to
worker, and the coordinator has no part in it.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, Final

from pretuned.compile.outside import CompileJob
from pretuned.compile.result import Binary
from pretuned.errors import DeviceError
from pretuned.fleet import lending
from pretuned.fleet.answers import UnitAnswer, WorkerEvidence, kind_of
from pretuned.fleet.compiling import CompilerEvidence, compiled
from pretuned.fleet.crews import NoWorkerError, WorkerLostError
from pretuned.fleet.units import Unit
from pretuned.fleet.worker import survey_all, work
from pretuned.tune.events import AnswerRefused, Listener
from pretuned.version import __version__

INSTALL: Final = "pip install 'pretuned[dask]'"
AHEAD: Final = 2  # units a thread of a worker has at hand: one that is settled, and the next
LOOK_S: Final = 1.0  # between looks at who has come and gone
POLL_S: Final = 0.1  # between looks at who has answered, at the beginning
OTHERS_S: Final = 20.0  # for the others, once one has answered: the first to ask its driver takes longest
FIRST: Final = 100  # Dask's priority of the question what a worker has: before any unit
CONNECT_S: Final = 20.0

BOARDS: Final = "pretuned-compilers"  # the scheduler's metadata that has the boards

NamedWork = Callable[[Unit, str], UnitAnswer]  # the worker's own name last
Survey = Callable[[str, str], WorkerEvidence | CompilerEvidence]


def connected(address: str) -> Any:  # noqa: ANN401 - Dask may not be installed
    """Return a client of the scheduler at `address`; raises DeviceError that says what to do."""
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ImportError:
        raise DeviceError(f"--dask needs Dask: {INSTALL}") from None
    try:
        _reach(distributed.comm.addressing.get_address_host_port, address)
        client: Any = distributed.Client
        return client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise DeviceError(
            f"start a scheduler by `dask scheduler`, and name its address: there is none at '{address}' ({error})"
        ) from None


def _reach(parts_of: Callable[[str], tuple[str, int]], address: str) -> None:
    """Raise OSError or ValueError where nothing listens at an address: a client would wait for that once more later."""
    if address.startswith("inproc://"):  # of this process
        return
    host, port = parts_of(address)
    socket.create_connection((host, port), timeout=CONNECT_S).close()


class DaskCrew:
    """The workers of a Dask cluster that have a device of `backend`.

    `work` and `look` are what the workers call: to settle a unit, and to say which device they have.
    """

    streams = False

    def __init__(self, client: Any, backend: str, *, work: NamedWork = work, look: Survey = survey_all) -> None:  # noqa: ANN401
        self._client = client
        self._backend = backend
        self._work = work
        self._look = look
        self._dismissed: set[str] = set()
        self._threads: dict[str, int] = {}  # by worker that is there now
        self._found: dict[str, WorkerEvidence | None] = {}  # by worker, those that are gone included
        self._compilers: dict[str, CompilerEvidence] = {}  # by worker without a device, those that are gone included
        self._wanted: frozenset[str] = frozenset()  # versions of compilers whose binaries may be taken
        self._listen: Listener = lambda _event: None
        self._board = f"{uuid.uuid4()}"
        self._posted: dict[str, int] = {}
        self._asked: dict[str, Any] = {}  # what has not answered yet: Dask's futures, by worker
        self._executors: dict[tuple[str, ...], Any] = {}
        self._looked_s = -LOOK_S
        self._out: dict[Future[UnitAnswer], frozenset[str]] = {}
        self._keys: dict[Future[UnitAnswer], str] = {}  # by which Dask knows what was submitted

    def evidence(self, wait_s: float = 0.0) -> list[WorkerEvidence]:
        """Return what the workers have that are there now, waiting for the first one for so many seconds.

        The others get some seconds more to answer: they may be of a kind that the first one is not of.
        """
        ends = time.monotonic() + wait_s
        while True:
            self._refresh()
            found = [one for worker in self._threads if (one := self._found.get(worker)) is not None]
            if (found and not self._asked) or time.monotonic() > ends:
                return found
            if found:
                ends = min(ends, time.monotonic() + OTHERS_S)
            time.sleep(POLL_S)

    def workers(self, device: str) -> int | None:
        """Return how many threads of workers have a kind of device."""
        self._refresh()
        return sum(self._threads[worker] for worker in self._of_kind(device))

    def room(self, device: str) -> int:
        """Return how many units they may have at hand."""
        return AHEAD * (self.workers(device) or 0)

    def submit(self, unit: Unit, listen: Listener) -> Future[UnitAnswer]:  # noqa: ARG002 - nothing is heard before the end
        """Submit a unit to the workers that may settle it."""
        able = self._of_kind(unit.device.name)
        others = [worker for worker in able if self._gpu(worker) != unit.not_on]
        answer = Future[UnitAnswer]()
        answer.set_running_or_notify_cancel()
        if not others:
            answer.set_exception(NoWorkerError(f"no worker has {kind_of(unit.device.record)}"))
            return answer
        self._keys[answer] = f"pretuned-{uuid.uuid4()}"
        found = self._executor(others).submit(_Task(self._work, self._board), unit, key=self._keys[answer])
        self._out[answer] = frozenset(others)
        found.add_done_callback(lambda found: self._pass_on(found, answer))
        return answer

    def _pass_on(self, found: Future[UnitAnswer], answer: Future[UnitAnswer]) -> None:
        """Have a future end as Dask's has, unless its workers have all gone meanwhile; in a thread of Dask's."""
        self._keys.pop(answer, None)
        if self._out.pop(answer, None) is None:
            return
        error = CancelledError() if found.cancelled() else found.exception()
        if error is None:
            answer.set_result(found.result())
        else:
            answer.set_exception(error)

    def _lose_orphans(self) -> None:
        """End what only workers that are gone could settle: Dask would wait for just them to come again."""
        for answer, able in list(self._out.items()):
            if able.isdisjoint(self._threads) and self._out.pop(answer, None) is not None:
                answer.set_exception(WorkerLostError("every worker that it could run on is gone"))

    def recall(self, answer: Future[UnitAnswer]) -> None:
        """Give nothing more to the worker that has a late unit, while there is another one of its kind."""
        key = self._keys.get(answer)
        for worker, has in self._client.processing().items():
            evidence = self._found.get(worker)
            if key in has and evidence is not None and len(self._of_kind(evidence.device.name)) > 1:
                self.dismiss(worker)

    def dismiss(self, worker: str) -> None:
        """Give nothing more to a worker."""
        self._dismissed.add(worker)
        self._post()

    def lend(self, compilers: Collection[str], listen: Listener) -> None:
        """Have workers without a device compile from now on, where they have one of these versions of the compiler."""
        self._wanted, self._listen = frozenset(compilers), listen
        self._post()

    def withdraw(self) -> None:
        """Take the board down: the tuning is over."""
        self._wanted = frozenset()
        self._post()

    def _post(self) -> None:
        """Have the board say who may compile, and how many sources at once, where that has changed."""
        able: dict[str, int] = {}
        for worker, has in self._compilers.items():
            if self._wanted and (reason := self._unfit(has)) and worker not in self._dismissed:
                self._dismissed.add(worker)
                self._listen(AnswerRefused(worker=worker, kernel="", reason=reason))
            if self._wanted and worker in self._threads and worker not in self._dismissed:
                able[worker] = self._threads[worker]
        if able != self._posted:
            self._posted = able
            posted = [[worker, count, self._compilers[worker].compiler] for worker, count in able.items()]  # plain data
            self._client.set_metadata([BOARDS, self._board], posted)

    def _unfit(self, has: CompilerEvidence) -> str:
        """Return why a worker cannot compile for the others; empty if it can."""
        if has.version != __version__:
            return f"it runs pretuned {has.version}, not {__version__}"
        if has.compiler not in self._wanted:
            return f"it compiles with {has.compiler}, not {' or '.join(sorted(self._wanted))}"
        return ""

    def _executor(self, workers: list[str]) -> Any:  # noqa: ANN401 - Dask's
        chosen = tuple(sorted(workers))
        if chosen not in self._executors:
            self._executors[chosen] = self._client.get_executor(workers=list(chosen), pure=False, retries=0)
        return self._executors[chosen]

    def _gpu(self, worker: str) -> str:
        found = self._found.get(worker)
        return "" if found is None else found.gpu

    def _of_kind(self, device: str) -> list[str]:
        found = {worker: self._found.get(worker) for worker in self._threads if worker not in self._dismissed}
        return [worker for worker, has in found.items() if has is not None and has.device.name == device]

    def _refresh(self) -> None:
        """See who is there, and ask those that are new what they have: nobody waits for one that does not answer."""
        if time.monotonic() - self._looked_s > LOOK_S:
            self._looked_s = time.monotonic()
            self._threads = dict(self._client.nthreads())
            self._lose_orphans()
            for worker in self._threads.keys() - self._found.keys() - self._asked.keys():
                self._asked[worker] = self._client.submit(
                    _Look(self._look, self._backend), workers=[worker], pure=False, retries=0, priority=FIRST
                )
        for worker, asked in list(self._asked.items()):
            if asked.done():
                found = asked.result() if asked.status == "finished" else None
                self._found[worker] = found if isinstance(found, WorkerEvidence) else None
                if isinstance(found, CompilerEvidence):
                    self._compilers[worker] = found
            if asked.done() or worker not in self._threads:
                del self._asked[worker]
        self._post()


class _Task:
    """What a worker calls with a unit, with its own address."""

    def __init__(self, work: NamedWork, board: str) -> None:
        self._work = work
        self._board = board

    def __call__(self, unit: Unit) -> UnitAnswer:
        import distributed  # noqa: PLC0415 - an extra

        worker: Any = distributed.get_worker()
        if (lender := lending.lender()) is not None:
            board = _Board(distributed.get_client(), self._board, unit)
            lender.lend(board.offer, board.order)
        return self._work(unit, worker.address)


class _Board:
    """What a worker that settles a unit reads of a board, and how it has sources compiled."""

    def __init__(self, client: Any, board: str, unit: Unit) -> None:  # noqa: ANN401 - Dask's
        self._client = client
        self._board = board
        self._backend = unit.device.place.backend
        self._compiler = unit.compiler
        self._executors: dict[str, Any] = {}

    def offer(self) -> Mapping[str, int]:
        """Return who may compile for this unit, and how many sources at once."""
        posted: list[tuple[str, int, str]] = self._client.get_metadata([BOARDS, self._board], default=[])
        return {worker: count for worker, count, compiler in posted if self._compiler in {"", compiler}}

    def order(self, worker: str, job: CompileJob) -> Future[Binary | None]:
        """Have a worker compile a source: that worker, since it alone has the board's word."""
        if worker not in self._executors:
            self._executors[worker] = self._client.get_executor(workers=[worker], pure=False, retries=0)
        found: Future[Binary | None] = self._executors[worker].submit(compiled, self._backend, job)
        return found


class _Look:
    """What a worker calls to say what it has."""

    def __init__(self, look: Survey, backend: str) -> None:
        self._look = look
        self._backend = backend

    def __call__(self) -> WorkerEvidence | CompilerEvidence:
        import distributed  # noqa: PLC0415 - an extra

        worker: Any = distributed.get_worker()
        return self._look(self._backend, worker.address)
