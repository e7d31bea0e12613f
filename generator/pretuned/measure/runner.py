"""The side that tunes: a machine in a child process, which survives whatever a candidate does to it.

Every request has a deadline. A child that passes it, dies or loses its CUDA context is ended, and what the candidate
did is an outcome; the next request finds a fresh child that has prepared the same problem again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from pretuned.child import Child, Died, Expired
from pretuned.errors import DeviceError, Error
from pretuned.measure.host.reports import told
from pretuned.measure.requests import (
    PROBE_LAUNCHES,
    Answer,
    Entry,
    Lost,
    Open,
    Opened,
    Prepare,
    Race,
    Raced,
    Ready,
    Request,
    Screen,
    Screened,
    TooLarge,
    Trouble,
    Verified,
    Verify,
)
from pretuned.outcome import Crashed, Failure, TimedOut
from pretuned.spec.space import DeviceFacts

GPU: Final = "pretuned.measure.cuda.machine:serve"
HOST: Final = "pretuned.measure.host.machine:serve"
START_S: Final = 90.0  # imports, a context, and on a cold disk CuPy's own kernels
PREPARE_S: Final = 300.0  # references run on the host, in float64
CANDIDATE_S: Final = 10.0  # verifying and screening take milliseconds
HOST_CANDIDATE_S: Final = 60.0  # on the host, seconds
RACE_S: Final = 30.0  # a race, besides what its calls are expected to take; its kernels have all answered before
RACE_SLACK: Final = 4  # times that


class TuningError(Error):
    """The author's own code cannot be tuned: its reference fails, or its default is wrong."""

    exit_code = 7


class Runner:
    """A machine behind a process boundary; use it in a `with` statement, which ends the child.

    `target` makes it (GPU or HOST); `index` is CUDA's ordinal of a GPU. `candidate_s` is the limit, in seconds, for one
    candidate at one problem; `environment` goes to the child besides this process's own. Raises DeviceError if the
    machine cannot be opened at all, TuningError if a reference fails.
    """

    def __init__(
        self,
        target: str = GPU,
        index: int = 0,
        *,
        candidate_s: float = CANDIDATE_S,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.index = index
        self.candidate_s = candidate_s
        self.replaced = 0  # children lost so far
        self._target = target
        self._environment = environment
        self._child: Child | None = None
        self._facts: DeviceFacts | None = None
        self._prepared: Prepare | None = None
        self._stale = False  # the child has not prepared the problem

    @classmethod
    def host(cls) -> Self:
        """Return the host device."""
        return cls(HOST, candidate_s=HOST_CANDIDATE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
        self._child = None

    def start(self) -> None:
        """Start the child without waiting for it, so that its start overlaps with other work."""
        if self._child is None:
            self._child = Child(self._target, self._environment)
            self._child.send(Open(index=self.index))
            self._facts, self._stale = None, self._prepared is not None

    @property
    def facts(self) -> DeviceFacts:
        """What expressions may ask of the device."""
        if self._child is None or self._facts is None:
            self.start()
            assert self._child is not None
            answer = self._child.receive() if self._child.connection.poll(START_S) else Expired(after_s=START_S)
            if not isinstance(answer, Opened):
                self.close()
                name = "the host device" if self._target == HOST else f"GPU {self.index}"
                raise DeviceError(f"{name} cannot be used: {_reason(answer)}")
            self._facts = answer.facts
        return self._facts

    def prepare(self, request: Prepare) -> TooLarge | None:
        """Prepare a problem for the requests that follow; returns `TooLarge` where it does not fit."""
        self._prepared = request
        answer = self._ask(request, PREPARE_S)
        if isinstance(answer, Died | Lost):  # perhaps of what an earlier candidate left: once more, in a fresh child
            answer = self._ask(request, PREPARE_S)
        if isinstance(answer, TooLarge):
            self._prepared = None
            return answer
        if not isinstance(answer, Ready):
            self._prepared = None
            raise TuningError(f"{request.spec.name}: {_reason(answer)}")
        self._stale = False
        return None

    def verify(self, entry: Entry) -> Verified:
        """Run `entry` once at the prepared problem and judge the result."""
        answer = self._try(Verify(entry=entry), self.candidate_s)
        return answer if isinstance(answer, Verified) else Verified(failure=self._failure(answer))

    def screen(self, entry: Entry, samples: int = 3) -> Screened:
        """Verify and time `entry` at the prepared problem."""
        answer = self._try(Screen(entry=entry, samples=samples), self.candidate_s)
        if isinstance(answer, Screened):
            return answer
        return Screened(outcome=self._failure(answer), verify_s=0.0, time_s=0.0)

    def race(self, entries: tuple[Entry, ...], rounds: int, *, round_us: float = 0.0) -> Raced | Failure:
        """Time `entries` in interleaved rounds; a Failure if the whole race was lost, to whichever of them.

        `round_us` is what one call of each entry is expected to take, in microseconds: slow kernels get more time.
        """
        limit_s = RACE_S + RACE_SLACK * (rounds + 3) * PROBE_LAUNCHES * round_us / 1e6
        answer = self._try(Race(entries=entries, rounds=rounds), limit_s)
        return answer if isinstance(answer, Raced) else self._failure(answer)

    def _try(self, request: Request, timeout_s: float) -> Answer | Died | Expired:
        """Ask about a candidate, in a child that has the problem prepared."""
        assert self._prepared is not None, "prepare() comes first"
        if self._child is not None and not self._child.alive:
            self.close()  # it ended between requests, which is not this candidate's doing
        if self._child is None:
            self.start()
        if self._stale:
            prepared = self._prepared
            if self.prepare(prepared) is not None:
                raise DeviceError(f"{prepared.problem} no longer fits into the device's free memory")
        return self._ask(request, timeout_s)

    def _ask(self, request: Request, timeout_s: float) -> Answer | Died | Expired:
        _ = self.facts  # the child is open
        assert self._child is not None
        answer: Answer | Died | Expired = self._child.ask(request, timeout_s=timeout_s)
        if isinstance(answer, Died | Expired | Lost):
            self.close()
            self.replaced += 1
        return answer

    def _failure(self, answer: Answer | Died | Expired) -> Failure:
        if isinstance(answer, Expired):
            return TimedOut(limit_s=answer.after_s)
        if isinstance(answer, Died) and (report := told(answer.output)) is not None:
            return Crashed(message=report)
        return Crashed(message=_reason(answer))


def _reason(answer: Answer | Died | Expired) -> str:
    match answer:
        case Trouble(message=text) | Lost(message=text) | Died(reason=text) | TooLarge(reason=text):
            return text
        case Expired(after_s=limit_s):
            return f"no answer within {limit_s:g} s"
        case _:
            return f"unexpected answer {type(answer).__name__}"
