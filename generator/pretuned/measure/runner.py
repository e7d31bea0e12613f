"""The side that tunes: a machine in a child process, which survives whatever a candidate does to it.

Every request has a deadline. A child that passes it, dies or loses its CUDA context is ended, and what the candidate
did is an outcome; the next request finds a fresh child that has prepared the same problem again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, NamedTuple, Self

from pretuned.child import Child, Died, Expired
from pretuned.errors import DeviceError, Error, ExitCode
from pretuned.measure.host.reports import crash_report
from pretuned.measure.requests import (
    PROBE_LAUNCHES,
    Answer,
    CompiledCandidate,
    Lost,
    Opened,
    OpenRequest,
    PrepareRequest,
    Raced,
    RaceRequest,
    Ready,
    Request,
    Screened,
    ScreenRequest,
    TooLarge,
    Trouble,
    Verified,
    VerifyRequest,
)
from pretuned.measure.rounds import Rule, RunAll
from pretuned.measure.turns import Sharing, Turns
from pretuned.outcome import Crashed, Failure, TimedOut
from pretuned.remedies import of_memory
from pretuned.spec.space import Configuration, DeviceFacts

GPU: Final = "pretuned.measure.cuda.machine:serve"
START_S: Final = 90.0  # imports, a context, and on a cold disk CuPy's own kernels
PREPARE_S: Final = 300.0  # references run on the host, in float64
BY_DEFAULT_S: Final = 120.0  # where the default makes the reference, which may never return
CANDIDATE_S: Final = 10.0  # the most that a candidate gets; verifying and screening take milliseconds
LIBRARY_S: Final = 120.0  # of a library call: at its first, a library is imported and loads its kernels
RACE_S: Final = 10.0  # a race, besides what its calls are expected to take; its kernels have all answered before
RACE_SLACK: Final = 4  # times that


class TuningError(Error):
    """The author's own code cannot be tuned: its reference fails, or its default is wrong."""

    exit_code = ExitCode.TUNING


class Run(NamedTuple):
    """A candidate that ran, and the problem that was prepared then."""

    prepared: PrepareRequest
    entry: CompiledCandidate


class Runner:
    """A machine behind a process boundary; use it in a `with` statement, which ends the child.

    `target` makes it; `index` is its number, of GPUs CUDA's ordinal, and `name` what messages call it. `candidate_s` is
    the most seconds that a candidate gets at one problem; `environment` goes to the child besides this process's own.
    So many `spares` stand by once the first child has answered, so that a lost one is replaced at once. Raises
    DeviceError if the machine cannot be opened at all, TuningError if a reference fails.
    """

    def __init__(
        self,
        target: str = GPU,
        index: int = 0,
        *,
        name: str = "",
        candidate_s: float = CANDIDATE_S,
        spares: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.index = index
        self.name = name or f"GPU {index}"
        self.candidate_s = candidate_s
        self.prepare_s = PREPARE_S  # the most that preparing a problem may take
        self.ends_s = math.inf  # by time.monotonic(): nothing is waited for after that moment
        self.replaced = 0  # children lost so far
        self._turns, self._processes = Turns(), 1
        self.notes: list[tuple[str, str]] = []  # a kernel, and why NumPy computes its references; taken out when read
        self.remarks: list[tuple[str, str]] = []  # a kernel, and what to know of its reference; taken out when read
        self._by_numpy: set[str] = set()  # kernels whose own reference on the machine may have ended a child
        self._noted: set[str] = set()
        self._remarked: set[str] = set()
        self._target = target
        self._environment = environment
        self._spares_wanted = spares
        self._child: Child | None = None
        self._spares: list[Child] = []
        self._is_spare = False  # the child stood by before
        self._facts: DeviceFacts | None = None
        self._ran: dict[tuple[str, Configuration], Run] = {}  # in this child, by digest and configuration
        self._prepared: PrepareRequest | None = None
        self._stale = False  # the child has not prepared the problem
        self._sent: set[str] = set()  # digests of the images that the child has

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        while self._spares:
            self._spares.pop().kill()

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
        self._child = None

    def start(self) -> None:
        """Start the child without waiting for it, so that its start overlaps with other work."""
        if self._child is None:
            self._is_spare = bool(self._spares)
            self._child = self._spares.pop(0) if self._spares else self._opening()
            self._facts, self._stale, self._sent = None, self._prepared is not None, set()
            self._ran = {}

    def _opening(self) -> Child:
        child = Child(self._target, self._environment)
        child.send(OpenRequest(index=self.index, processes=self._processes))
        return child

    def share(self, sharing: Sharing) -> None:
        """Take turns at the machine from now on; before the first child is started."""
        self._turns, self._processes = Turns(sharing.turns), sharing.processes

    @property
    def ran(self) -> tuple[Run, ...]:
        """The candidates that ran in the child at hand, in the order of their first runs."""
        return tuple(self._ran.values())

    @property
    def prepared(self) -> PrepareRequest | None:
        """The problem at hand."""
        return self._prepared

    @property
    def facts(self) -> DeviceFacts:
        """What expressions may ask of the device."""
        while self._child is None or self._facts is None:
            self.start()
            assert self._child is not None
            answer = self._child.answer(self._left_s(START_S))
            if isinstance(answer, Opened):
                self._facts = answer.facts
                break
            self.close()
            if not self._is_spare:  # a spare may have died while it stood by, or have found no room beside its elder
                raise DeviceError(f"{self.name} cannot be used: {_with_remedy(_reason(answer))}")
        return self._facts

    def prepare(self, request: PrepareRequest) -> TooLarge | None:
        """Make a problem the one that the requests that follow are about; `TooLarge` where it does not fit."""
        if request.spec.name in self._by_numpy:
            request = replace(request, by_numpy=True)
        answer = self._answer(request)
        if isinstance(answer, TooLarge):
            self._prepared = None
            return answer
        if not isinstance(answer, Ready):
            self._prepared = None
            reason = _reason(answer)
            if isinstance(answer, Expired):
                made = "the default's results, which are the reference here," if request.by_default else "references"
                reason = f"its inputs and {made} were not made within {answer.after_s:.0f} s at {request.problem}"
            raise TuningError(f"{request.spec.name}: {reason}")
        for note in answer.notes:
            self._note(request.spec.name, note)
        for kernel, text in answer.remarks:
            if kernel not in self._remarked:
                self._remarked.add(kernel)
                self.remarks.append((kernel, text))
        self._stale = False
        return None

    def _answer(self, request: PrepareRequest) -> Answer | Died | Expired:
        """Return the answer to a request, of a fresh child where the first one may have suffered from a candidate."""
        self._prepared, ran = request, bool(self._ran)
        limit_s = min(self.prepare_s, BY_DEFAULT_S) if request.by_default else self.prepare_s
        answer = self._ask(self._stripped(request), limit_s)
        if isinstance(answer, Trouble) and ran:
            self.close()
            self.replaced += 1
        if self._child is not None:
            return answer
        again = self._with_numpy(request, answer)
        if isinstance(answer, Expired) and not ran and again is request:
            return answer
        self._prepared = again
        return self._ask(self._stripped(again), limit_s)

    def _with_numpy(self, request: PrepareRequest, answer: Answer | Died | Expired) -> PrepareRequest:
        """Return a request that took the child with it without what may have done that, a reference of the author's."""
        name, asked = request.spec.name, request.reference != "none" and not request.trust_default
        if request.spec.verify.gpu_reference is None or not asked or not isinstance(answer, Died | Expired | Lost):
            return request
        self.leave_to_numpy(name, f"{_reason(answer)} at {request.problem}")
        return replace(request, by_numpy=True)

    def leave_to_numpy(self, kernel: str, reason: str) -> None:
        """Have NumPy compute all references of a kernel from now on, for a reason that is noted."""
        self._by_numpy.add(kernel)
        self._note(kernel, reason)

    def _note(self, kernel: str, reason: str) -> None:
        if kernel not in self._noted:
            self._noted.add(kernel)
            self.notes.append((kernel, reason))

    def verify(self, entry: CompiledCandidate) -> Verified:
        """Run `entry` once at the prepared problem and judge the result."""
        self._ready()
        request = VerifyRequest(entry=self._running(entry))
        answer = self._judged(request, self._limit_s(entry, self.candidate_s))
        return answer if isinstance(answer, Verified) else Verified(failure=self._failure(answer))

    def screen(
        self,
        entries: Sequence[CompiledCandidate],
        *,
        verify: bool = True,
        best_us: float = math.inf,
        limit_s: float | None = None,
    ) -> Iterator[Screened]:
        """Yield what becomes of each entry at the prepared problem, as `ScreenRequest` says.

        An entry that takes the child with it, or does not answer within `limit_s` (by default, and at most,
        `candidate_s`), is a failure. The others go on in a fresh child.
        """
        limit_s = min(limit_s or self.candidate_s, self.candidate_s)
        waiting = list(entries)
        while waiting:
            self._ready()
            with self._turns.taken():
                yield from self._screened(waiting, verify, best_us, limit_s)
        while len(self._spares) < self._spares_wanted:
            self._spares.append(self._opening())

    def _screened(
        self, waiting: list[CompiledCandidate], verify: bool, best_us: float, limit_s: float
    ) -> Iterator[Screened]:
        """Yield what becomes of the entries that wait, until one takes the child with it; takes them out."""
        assert self._child is not None
        request = ScreenRequest(entries=tuple(map(self._running, waiting)), verify=verify, best_us=best_us)
        lost = self._child.send(request)
        while waiting:
            answer: Answer | Died | Expired = lost or self._child.answer(
                self._left_s(self._limit_s(waiting[0], limit_s))
            )
            del waiting[0]
            if not isinstance(answer, Screened):
                self._lose(answer)
                yield Screened(outcome=self._failure(answer))
                return
            yield answer

    def race(
        self,
        entries: Sequence[CompiledCandidate],
        rounds: int,
        *,
        estimates_us: Sequence[float],
        rule: Rule | None = None,
        judge: bool = False,
        place: int = 0,
    ) -> Raced | Failure:
        """Time `entries` in interleaved rounds, as `RaceRequest` says; a Failure if all of it was lost.

        `estimates_us` is what a call of each is expected to take, in microseconds: slow kernels get more time.
        """
        self._ready()
        request = RaceRequest(
            entries=tuple(map(self._running, entries)),
            estimates_us=tuple(estimates_us),
            rounds=rounds,
            rule=rule or RunAll(),
            judge=judge,
            place=place,
        )
        limit_s = max(self._limit_s(entry, RACE_S) for entry in entries)
        answer = self._judged(request, limit_s + RACE_SLACK * (rounds + 3) * PROBE_LAUNCHES * sum(estimates_us) / 1e6)
        return answer if isinstance(answer, Raced) else self._failure(answer)

    def _left_s(self, limit_s: float) -> float:
        """Return the seconds to wait at most where `limit_s` are allowed."""
        return max(0.0, min(limit_s, self.ends_s - time.monotonic()))

    def _limit_s(self, entry: CompiledCandidate, limit_s: float) -> float:
        return LIBRARY_S if entry.is_call else limit_s

    def _ready(self) -> None:
        """Have a child that has the problem prepared."""
        assert self._prepared is not None, "prepare() comes first"
        if self._child is not None and not self._child.alive:
            self.close()  # it ended between requests, which is not this candidate's doing
        self.start()
        if self._stale:
            prepared = self._prepared
            if self.prepare(prepared) is not None:
                raise DeviceError(
                    f"{prepared.problem} no longer fits into the device's free memory; end what takes it, or tune later"
                )

    def _stripped(self, request: PrepareRequest) -> PrepareRequest:
        self.start()
        return replace(request, default=self._once(request.default))

    def _once(self, entry: CompiledCandidate) -> CompiledCandidate:
        """Return `entry`, without its image if the child has it."""
        if entry.is_call:
            return entry
        if entry.digest in self._sent:
            return replace(entry, image=b"")
        self._sent.add(entry.digest)
        return entry

    def _running(self, entry: CompiledCandidate) -> CompiledCandidate:
        """Return what `_once` does of an entry that is about to run, and note it."""
        assert self._prepared is not None, "prepare() comes first"
        self._ran.setdefault((entry.digest, entry.configuration), Run(self._prepared, entry))
        return self._once(entry)

    def _ask(self, request: Request, timeout_s: float) -> Answer | Died | Expired:
        _ = self.facts  # the child is open
        assert self._child is not None
        with self._turns.taken():
            answer: Answer | Died | Expired = self._child.ask(request, timeout_s=self._left_s(timeout_s))
        if isinstance(answer, Died | Expired | Lost):
            self._lose(answer)
        return answer

    def _judged(self, request: Request, timeout_s: float) -> Answer | Died | Expired:
        """Ask for what may run the author's own functions; raises TuningError where these fail."""
        answer = self._ask(request, timeout_s)
        if isinstance(answer, Trouble):
            raise TuningError(answer.message)
        return answer

    def _lose(self, answer: Answer | Died | Expired) -> None:
        """End a child that gave no answer, or none that it can go on from."""
        self.close()
        self.replaced += 1
        if isinstance(answer, Trouble):
            raise TuningError(answer.message)

    def _failure(self, answer: Answer | Died | Expired) -> Failure:
        if isinstance(answer, Expired):
            return TimedOut(limit_s=answer.after_s)
        if isinstance(answer, Died) and (report := crash_report(answer.output)) is not None:
            return Crashed(message=report)
        return Crashed(message=_reason(answer))


def _with_remedy(reason: str) -> str:
    remedy = of_memory(reason)
    return f"{reason}; {remedy}" if remedy else reason


def _reason(answer: Answer | Died | Expired) -> str:
    match answer:
        case Trouble(message=text) | Lost(message=text) | Died(reason=text) | TooLarge(reason=text):
            return text
        case Expired(after_s=limit_s):
            return f"no answer within {limit_s:g} s"
        case _:
            return f"unexpected answer {type(answer).__name__}"
