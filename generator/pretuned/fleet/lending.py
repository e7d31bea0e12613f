"""How the process that settles units reaches the compilers of other workers.

Theory of operation. That process knows nothing of the executor that its worker belongs to. It connects to a socket of
the worker's process instead, where the `Lender` listens: that says who may compile, passes sources on to them, and
passes binaries back (the messages of `pretuned.compile.outside`). Whatever fails on the way is an answer without a
binary: the source is then compiled where the device is.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Final

from pretuned.compile.outside import CompileJob, Lent, Ordered, Outside, Returned
from pretuned.compile.result import Binary

LOOK_S: Final = 1.0  # between looks at who may compile

Offer = Callable[[], Mapping[str, int]]  # who may compile now, and how many sources at once
Order = Callable[[str, CompileJob], Future[Binary | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LenderAddress:
    """Where a lender listens, and the key to it."""

    path: str
    key: bytes = field(repr=False)

    def outside(self) -> Outside | None:
        """Return the compilers that are lent; None where nobody listens any more."""
        try:
            connection = Client(self.path, authkey=self.key)
        except (OSError, EOFError, AuthenticationError):
            return None
        return Outside(connection)


class Lender:
    """Lends compilers to the processes of this machine that know its address."""

    def __init__(self) -> None:
        key = secrets.token_bytes(32)
        self._listener = Listener(family="AF_UNIX", authkey=key)
        self.address = LenderAddress(path=str(self._listener.address), key=key)
        self._terms: tuple[Offer, Order] | None = None
        threading.Thread(target=self._listen, name="lending", daemon=True).start()

    def lend(self, offer: Offer, order: Order) -> None:
        """Lend what `offer` says from now on; `order` has a worker compile a source. Both are called in any thread."""
        self._terms = offer, order

    def _listen(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except AuthenticationError:
                continue
            except OSError:
                return
            threading.Thread(target=_Loan(self, connection).run, name="loan", daemon=True).start()

    def offered(self) -> Mapping[str, int]:
        """Return who may compile now: nobody where that cannot be found out."""
        try:
            return {} if self._terms is None else self._terms[0]()
        except Exception:  # noqa: BLE001 - any executor's: a scheduler that is gone
            return {}

    def order(self, worker: str, job: CompileJob) -> Future[Binary | None]:
        """Have a worker compile a source."""
        nothing: Future[Binary | None] = Future()
        nothing.set_result(None)
        try:
            return nothing if self._terms is None else self._terms[1](worker, job)
        except Exception:  # noqa: BLE001 - as above
            return nothing


class _Loan:
    """What is lent to one process, until that hangs up."""

    def __init__(self, lender: Lender, connection: Connection) -> None:
        self._lender = lender
        self._connection = connection
        self._turn = threading.Lock()  # of who sends: answers come in other threads
        self._out: dict[int, Future[Binary | None]] = {}

    def run(self) -> None:
        """Serve the process."""
        over = threading.Event()
        threading.Thread(target=self._offer, args=(over,), name="offers", daemon=True).start()
        try:
            while True:
                ordered = self._connection.recv()
                if isinstance(ordered, Ordered):
                    self._pass_on(ordered)
        except (EOFError, OSError):
            pass
        finally:
            over.set()
            for future in list(self._out.values()):
                future.cancel()
            self._connection.close()

    def _offer(self, over: threading.Event) -> None:
        """Say who may compile, whenever that changes."""
        said: Mapping[str, int] = {}
        while not over.is_set():
            if (offered := self._lender.offered()) != said:
                self._send(Lent(workers=dict(offered)))
                said = offered
            over.wait(LOOK_S)

    def _pass_on(self, ordered: Ordered) -> None:
        number = ordered.number
        self._out[number] = future = self._lender.order(ordered.worker, ordered.job)
        future.add_done_callback(lambda found: self._pass_back(number, found))

    def _pass_back(self, number: int, found: Future[Binary | None]) -> None:
        self._out.pop(number, None)
        lost = found.cancelled() or found.exception() is not None
        self._send(Returned(number=number, binary=None if lost else found.result()))

    def _send(self, what: Lent | Returned) -> None:
        with self._turn, contextlib.suppress(OSError):
            self._connection.send(what)


_opened: list[Lender] = []
_opening: Final = threading.Lock()


def lender() -> Lender | None:
    """Return the lender of this process, which is made when it is asked for; None where no socket can be had."""
    with _opening:
        if not _opened:
            try:
                _opened.append(Lender())
            except OSError:
                return None
        return _opened[0]


def address() -> LenderAddress | None:
    """Return where the lender of this process listens, if there is one."""
    return _opened[0].address if _opened else None
