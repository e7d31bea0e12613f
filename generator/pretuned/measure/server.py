"""The bench in a child process: requests in, answers out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic

from pretuned.measure.bench import Bench
from pretuned.measure.data import FunctionError
from pretuned.measure.machine import K, Machine, OutOfMemory, Poisoned, Refused
from pretuned.measure.requests import (
    Answer,
    Lost,
    Opened,
    OpenRequest,
    PrepareRequest,
    Raced,
    RaceRequest,
    Ready,
    Request,
    ScreenRequest,
    TooLarge,
    Trouble,
    Verified,
    VerifyRequest,
)

Answerer = Callable[[Request], Answer | Iterator[Answer]]


class Server(Generic[K]):
    """Answers requests; exceptions of the types `lost`, like Poisoned, mean that the machine is lost."""

    def __init__(self, open_machine: Callable[[int], Machine[K]], lost: tuple[type[Exception], ...]) -> None:
        self._open_machine = open_machine
        self._lost: tuple[type[Exception], ...] = (Poisoned, *lost)
        self._bench: Bench[K] | None = None

    def __call__(self, request: Request) -> Answer | Iterator[Answer]:
        """Return the answer, or for `ScreenRequest` the iterator of its answers."""
        return self._each(request) if isinstance(request, ScreenRequest) else self._one(request)

    def _one(self, request: Request) -> Answer:
        try:
            if isinstance(request, OpenRequest):
                self._bench = Bench(self._open_machine(request.index), request.processes)
                return Opened(facts=self._bench.machine.facts)
            return _answer(self._opened, request)
        except FunctionError as error:
            problem = request.problem if isinstance(request, PrepareRequest) else self._opened.stage.request.problem
            return Trouble(message=f"{error} at {problem}")
        except Refused as refused:
            return _refused(request, refused)
        except OutOfMemory as error:  # of what fitted before: others have taken it
            return Lost(message=f"out of memory: {error}")
        except self._lost as error:
            return Lost(message=str(error))

    def _each(self, request: ScreenRequest) -> Iterator[Answer]:
        try:
            yield from self._opened.screen(request)
        except FunctionError as error:
            yield Trouble(message=f"{error} at {self._opened.stage.request.problem}")
        except OutOfMemory as error:
            yield Lost(message=f"out of memory: {error}")
        except self._lost as error:
            yield Lost(message=str(error))

    @property
    def _opened(self) -> Bench[K]:
        assert self._bench is not None, "Open comes first"
        return self._bench


def server(open_machine: Callable[[int], Machine[K]], *, lost: tuple[type[Exception], ...] = ()) -> Answerer:
    """Return the function that answers requests in a child (see `pretuned.child`); `open_machine` takes the index."""
    return Server(open_machine, lost)


def _answer(bench: Bench[K], request: Request) -> Answer:
    match request:
        case PrepareRequest():
            try:
                bench.prepare(request)
            except OutOfMemory as error:
                return TooLarge(reason=str(error), passing=error.passing)
            found = bench.references
            notes, found.notes = found.notes, []
            remarks, found.remarks = found.remarks, []
            return Ready(notes=tuple(notes), remarks=tuple(remarks))
        case VerifyRequest(entry=entry):
            return bench.verify(entry)
        case RaceRequest():
            return bench.race(request)
        case OpenRequest() | ScreenRequest():
            raise AssertionError("answered before")


def _refused(request: Request, refused: Refused) -> Answer:
    match request:
        case VerifyRequest():
            return Verified(failure=refused.outcome)
        case RaceRequest(entries=entries):
            return Raced(times_us=((),) * len(entries), failures=(refused.outcome,) * len(entries))
        case PrepareRequest(trust_default=True):  # at a size that nobody listed
            return TooLarge(reason=str(refused))
        case PrepareRequest(problem=problem):
            return Trouble(message=f"{refused} at {problem}")
        case _:
            return Trouble(message=str(refused))
