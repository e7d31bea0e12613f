"""Compilers of other machines that a pool has beside its own, over a connection.

Theory of operation. Whoever is at the other end says which workers may compile, and how many sources at once (`Lent`).
It is sent sources for one worker each (`Ordered`), and sends back what became of them (`Returned`).

What comes back has to be what the compilers here would have made. So the first source that a worker gets is compiled
here too, and the two binaries are compared, all of it: another compiler, or other headers, show there. Until then the
worker gets nothing else, and where they differ never again. And only binaries are taken: what did not compile
elsewhere, for whatever reason, is compiled here.

No compiler here waits for one elsewhere. One that is idle takes over what has been out for longer than such sources
take, and what is far too long out goes first. The first binary counts. Since what is out counts until it comes back, a
worker that hangs gets nothing more. What a worker had that is gone is compiled here.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import statistics
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final

from pretuned.compile.result import Binary
from pretuned.render import Source

CompileJob = tuple[Source, str]
JobKey = tuple[str, str]

IDLE_TIMES: Final = 2.0  # what such sources take, after which a compiler that is idle takes over
IDLE_S: Final = 0.2  # and these seconds
LATE_TIMES: Final = 6.0  # and after which it goes before all that waits
LATE_S: Final = 2.0
UNKNOWN_S: Final = 10.0  # where no such source has ended here
FAILURES: Final = 3  # in a row, after which a worker gets nothing more
LOOK_S: Final = 0.1  # between looks at what is late


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """The workers that may compile from now on, and how many sources each compiles at once."""

    workers: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """A source for a worker; `number` is its own."""

    number: int
    worker: str
    job: CompileJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What became of what was ordered: None where that is no binary."""

    number: int
    binary: Binary | None


@dataclass(slots=True, kw_only=True)
class _Shared:
    """A source that workers elsewhere have: since when, and by the number of its order, which.

    `here`: it waits for a compiler here as well, or is being compiled. `over`: its result has been handed out. On
    `trial`, what comes from elsewhere is only compared with `ours`, the binary that was made here. `theirs` waits for
    that, by worker: None where there was no sound binary.
    """

    job: CompileJob
    begun_s: float
    out: dict[int, str] = field(default_factory=dict)
    here: bool = False
    over: bool = False
    trial: bool = False
    ours: Binary | None = None
    theirs: dict[str, Binary | None] = field(default_factory=dict)


def key_of(job: CompileJob) -> JobKey:
    """Return what a job is known by."""
    return job[0].key, job[1]


class Outside:
    """The compilers elsewhere, for the thread of one pool; `holds`, `slots` and `refused` are for any thread."""

    def __init__(self, connection: Connection) -> None:
        self.connection: Connection | None = connection
        self.refused: dict[str, str] = {}  # by worker: why it gets nothing more
        self.slots = 0  # how many sources are compiled at once elsewhere
        self._lent: Mapping[str, int] = {}
        self._trusted: set[str] = set()
        self._failed: Counter[str] = Counter()  # in a row
        self._shared: dict[JobKey, _Shared] = {}
        self._ordered: dict[int, JobKey] = {}
        self._numbers = itertools.count()

    def holds(self, job: CompileJob) -> bool:
        """Whether a worker elsewhere has a job, or had it: it cannot be withdrawn."""
        return key_of(job) in self._shared

    @property
    def is_busy(self) -> bool:
        """Whether anything is out."""
        return bool(self._ordered)

    # What the pool's own compilers do.

    def has_settled(self, job: CompileJob) -> bool:
        """Whether a job that waits here has been settled elsewhere meanwhile."""
        shared = self._shared.get(key_of(job))
        if shared is None or not shared.over:
            return False
        shared.here = False
        self._forget(shared)
        return True

    def take_note(self, job: CompileJob, result: object) -> bool:
        """Take note of what became of a job here; returns whether that is news."""
        shared = self._shared.get(key_of(job))
        if shared is None:
            return True
        news, shared.over, shared.here = not shared.over, True, False
        if isinstance(result, Binary):
            shared.ours = result
            for worker in list(shared.theirs):
                self._judge(shared, worker)
        else:
            shared.theirs.clear()  # of what does not compile here, nobody can be blamed
        self._forget(shared)
        return news

    def _forget(self, shared: _Shared) -> None:
        """Forget a source that is neither out nor here."""
        if not (shared.out or shared.here):
            self._shared.pop(key_of(shared.job), None)

    # Giving out.

    def give(self, waiting: deque[CompileJob]) -> None:
        """Give out what waits, as far as there is room elsewhere."""
        room = self._room()
        for worker in [one for one in room if one not in self._trusted]:
            with contextlib.suppress(IndexError):  # another thread withdraws
                if room.pop(worker):
                    self._order(worker, waiting[0], trial=True)
        aside: list[CompileJob] = []
        while self.connection is not None and any(room.values()):
            try:
                job = waiting.popleft()
            except IndexError:
                break
            if self.holds(job):  # it waits for a compiler here
                aside.append(job)
                continue
            worker = max(room, key=lambda one: room[one] / self._lent[one])
            room[worker] -= 1
            self._order(worker, job)
        waiting.extendleft(reversed(aside))

    def _room(self) -> dict[str, int]:
        """Return how many more sources each worker may have: as many as it compiles at once, and some ahead."""
        out = Counter(worker for one in self._shared.values() for worker in (*one.out.values(), *one.theirs))
        most = {one: n + 1 + n // 4 if one in self._trusted else 1 for one, n in self._lent.items()}
        return {one: max(0, count - out[one]) for one, count in most.items() if one not in self.refused}

    def _order(self, worker: str, job: CompileJob, *, trial: bool = False) -> None:
        if self.connection is None or (trial and self.holds(job) and not self._shared[key_of(job)].trial):
            return
        number, key = next(self._numbers), key_of(job)
        shared = self._shared.setdefault(key, _Shared(job=job, begun_s=time.monotonic(), trial=trial, here=trial))
        shared.out[number] = worker
        self._ordered[number] = key
        try:
            self.connection.send(Ordered(number=number, worker=worker, job=job))
        except OSError:
            self._hang_up()

    # Taking back.

    def late(self, took_s: Mapping[tuple[str, ...], Sequence[float]], idle: int) -> list[CompileJob]:
        """Return what is to be compiled here too: what is far too late, and as much as is late for `idle` compilers.

        `took_s` has what sources took here, by functions.
        """
        found: list[CompileJob] = []
        for shared in self._shared.values():
            if shared.here or shared.over:
                continue
            known = took_s.get(shared.job[0].functions, ())
            usual_s = statistics.median(known) if known else UNKNOWN_S
            out_s = time.monotonic() - shared.begun_s
            idles = len(found) < idle and out_s > IDLE_TIMES * usual_s + IDLE_S
            if idles or out_s > LATE_TIMES * usual_s + LATE_S:
                shared.here = True
                found.append(shared.job)
        return found

    def receive(self) -> Iterator[tuple[CompileJob, Binary | None, str]]:
        """Yield what has come: a job with the binary that a worker made of it; None: compile it here."""
        while self.connection is not None:
            try:
                if not self.connection.poll():
                    return
                heard = self.connection.recv()
            except (EOFError, OSError):
                self._hang_up()
                break
            if isinstance(heard, Lent):
                self._lent = heard.workers
                yield from self._of_those_gone()
            elif isinstance(heard, Returned):
                yield from self._taken(heard)
            self._count()
        yield from self._of_those_gone()

    def _hang_up(self) -> None:
        """Give nothing out any more; the next `receive` takes everything back."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self._lent, self.slots = None, {}, 0

    def _of_those_gone(self) -> Iterator[tuple[CompileJob, Binary | None, str]]:
        """Take back what workers have that are gone."""
        for shared in list(self._shared.values()):
            for number, worker in list(shared.out.items()):
                if worker not in self._lent:
                    yield from self._taken(Returned(number=number, binary=None))

    def _taken(self, returned: Returned) -> Iterator[tuple[CompileJob, Binary | None, str]]:
        shared = self._shared.get(self._ordered.pop(returned.number, ("", "")))
        if shared is None:
            return
        worker, binary = shared.out.pop(returned.number), returned.binary
        sound = binary is not None and worker not in self.refused and _is_of(binary, shared.job)
        if shared.trial or shared.over or not sound:
            if worker in self._lent and (shared.here or shared.ours is not None or not shared.over):
                shared.theirs[worker] = binary if sound else None
                self._judge(shared, worker)
            if not (shared.here or shared.over):
                shared.here = True
                yield shared.job, None, worker
        else:
            shared.over, self._failed[worker] = True, 0
            yield shared.job, binary, worker
        self._forget(shared)

    # Judging.

    def _judge(self, shared: _Shared, worker: str) -> None:
        """Trust a worker whose binary is the one that was made here, and refuse one whose binary differs.

        One that makes no binaries where there are some here is refused after some.
        """
        ours = shared.ours
        if ours is None:  # it is still compiled
            return
        theirs = shared.theirs.pop(worker)
        if theirs is None:
            self._failed[worker] += 1
            if self._failed[worker] >= FAILURES:
                self.refused[worker] = f"it made no binaries of {FAILURES} sources in a row"
        elif theirs == ours:
            self._trusted.add(worker)
            self._failed[worker] = 0
        elif theirs.compiler != ours.compiler:
            self.refused[worker] = f"its compiler is {theirs.compiler}, not {ours.compiler}"
        else:
            self.refused[worker] = "it compiles a source to other bytes than the compiler beside the device"
        self._count()

    def _count(self) -> None:
        able = self._trusted - self.refused.keys()
        self.slots = sum(count for worker, count in self._lent.items() if worker in able)


def _is_of(binary: Binary, job: CompileJob) -> bool:
    """Whether a binary is whole, and that of a job."""
    whole = hashlib.sha256(binary.image).hexdigest() == binary.digest
    return whole and (binary.module, binary.architecture) == key_of(job)
