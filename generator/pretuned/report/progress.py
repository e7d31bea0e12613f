"""How far a tuning is, by its events: what is compiled, screened and racing, the best so far, rows and time.

A tuning sends its events from the thread that tunes, and a display asks from another one.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pretuned.errors import counted
from pretuned.report.time_left import Account, TimeLeft
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.events import (
    AtProblem,
    CandidatesScreened,
    Decided,
    Event,
    Measuring,
    OnDevice,
    Passed,
    Planned,
    Racing,
    Shared,
    SourcesCompiled,
    UnitSettled,
    Waiting,
)

DECIDING: Final = "deciding"
IDLE: Final = "idle"
# Where stages lie in what a task takes, as measured for the bundled kernels (benchmarks/results/tuning_h200.txt).
SHARES: Final = {
    "screening": (0.0, 0.3),
    "surveying": (0.3, 0.4),
    "trying ragged sizes": (0.4, 0.65),
    DECIDING: (0.65, 0.85),
    "certifying": (0.85, 1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """So many are done `of` so many."""

    done: int = 0
    of: int = 0

    @property
    def share(self) -> float:
        """The share that is done, from 0 to 1."""
        return min(1.0, self.done / self.of) if self.of else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSoFar:
    """The fastest candidate at the problem at hand, beside the default; times in microseconds a call.

    `default_us` is None as long as the default was not timed there.
    """

    configuration: Configuration
    time_us: float
    default_us: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """What is known at one moment. `step` says what is done now, with `contenders` the fastest first where they race.

    `workers` compile at once at most. Seconds: `spent_s` of `budget_s`, which is None without a budget, and about
    `left_s` to go, None where that is not known. `is_part`: it is of one of several devices that share the work, whose
    time says nothing of when all of it ends.
    """

    device: str = ""
    kernel: str = ""
    problem: Problem | None = None
    step: str = "beginning"
    contenders: tuple[Configuration, ...] = ()
    compiled: Count = Count()
    workers: int = 0
    screened: Count = Count()
    best: BestSoFar | None = None
    rows: Count = Count()
    spent_s: float = 0.0
    budget_s: float | None = None
    left_s: float | None = None
    is_part: bool = False

    @property
    def compiling(self) -> int:
        """How many sources are being compiled at this moment."""
        return min(self.workers, self.compiled.of - self.compiled.done)


class _OneDevice:
    """What is known of the tuning on one device, alone or as one of those that share it (`is_part`)."""

    def __init__(self, device: str, now_s: float, *, is_part: bool = False) -> None:
        self.view = ProgressView(device=device, is_part=is_part)
        self.kind = ""  # of device
        self._begun_s = now_s  # moved by what does not count
        self._waiting_since_s: float | None = None
        self._planned_s: float | None = None  # what was expected of all plans so far
        self._planned_at_s = now_s
        self._task_s: float | None = None  # what the task at hand is expected to take
        self.share = 0.0  # of it that is done
        self._stage = ""
        self._before_s = 0.0  # what the tasks before it were expected to take
        self._screened: dict[Problem, float] = {}
        self._left = TimeLeft()

    def hear(self, event: Event, now_s: float) -> None:
        match event:
            case Waiting(device=device):
                self._waiting_since_s = now_s
                self.view = replace(self.view, step="waiting for another tuning", device=self.view.device or device)
            case Planned():
                self._resume(now_s)
                self._plan(event, now_s)
            case Measuring():
                self._begin_task(event)
            case SourcesCompiled(done=done, asked=asked, workers=workers):
                self.view = replace(self.view, compiled=Count(done=done, of=asked), workers=workers)
            case CandidatesScreened():
                self._screen(event)
            case AtProblem():
                self._advance(event.stage, event.done / max(1, event.problems))
                several = f", problem {min(event.done + 1, event.problems)} of {event.problems}"
                self._go_to(event.kernel, event.problem, event.stage + (several if event.problems > 1 else ""))
            case Racing():
                self._race(event)
            case Decided() | Passed() if self._planned_s is not None:
                done = min(self.view.rows.done + 1, self.view.rows.of)
                self.view = replace(self.view, rows=replace(self.view.rows, done=done))
            case _:
                pass

    @property
    def waits(self) -> bool:
        """Whether it waits for another tuning to end."""
        return self._waiting_since_s is not None

    def rest(self) -> None:
        """Show that what it had is settled, until it is given more."""
        self.view = ProgressView(device=self.view.device, is_part=True, step=IDLE)
        self.share = 0.0

    def _plan(self, event: Planned, now_s: float) -> None:
        """Take a plan in: the first of a tuning, or one more, of a device that is given one part after another."""
        expected_s = event.seconds - event.spent_s
        self.kind = event.device
        if self._planned_s is None:
            self._begun_s, self._planned_at_s = now_s - event.spent_s, now_s
            device = self.view.device or event.device
            self.view = replace(self.view, device=device, rows=Count(of=event.rows), budget_s=event.budget_s)
        elif self.view.is_part:
            self.view = replace(self.view, rows=Count(of=event.rows))  # of the unit at hand
        else:
            rows = self.view.rows
            self.view = replace(self.view, rows=replace(rows, of=rows.of + event.rows))
        self._planned_s = (self._planned_s or 0.0) + expected_s

    def _begin_task(self, event: Measuring) -> None:
        self._before_s += self._task_s or 0.0
        self._task_s, self.share, self._screened = event.seconds, 0.0, {}
        self._go_to(event.kernel, event.problem, "preparing")
        self.view = replace(self.view, screened=Count(of=event.candidates))

    def _screen(self, event: CandidatesScreened) -> None:
        self._screened[event.problem] = min(1.0, event.seen / max(1, event.wanted))
        self._advance("screening", sum(self._screened.values()) / max(event.problems, len(self._screened)))
        self._go_to(event.kernel, event.problem, "screening")
        self.view = replace(self.view, screened=Count(done=event.seen, of=event.wanted))
        if event.best is not None:
            best = BestSoFar(configuration=event.best, time_us=event.best_us, default_us=event.default_us)
            self.view = replace(self.view, best=best)

    def _race(self, event: Racing) -> None:
        own = f"duel at place {event.place}" if event.place else "race"
        self._go_to(event.kernel, event.problem, own if self._stage == DECIDING else self.view.step)
        order = sorted(event.contenders, key=lambda one: (one[1], one[0]))
        self.view = replace(self.view, contenders=tuple(one for one, _ in order))
        if order and self._stage == DECIDING:  # before, some are expected by costs, which may err by far
            (fastest, time_us), default_us = order[0], dict(order).get(event.default)
            if default_us is None and self.view.best is not None:  # it lost an earlier race of this problem
                default_us = self.view.best.default_us
            self.view = replace(
                self.view, best=BestSoFar(configuration=fastest, time_us=time_us, default_us=default_us)
            )

    def _go_to(self, kernel: str, problem: Problem, step: str) -> None:
        if (kernel, problem) != (self.view.kernel, self.view.problem):
            self.view = replace(self.view, best=None)
        self.view = replace(self.view, kernel=kernel, problem=problem, step=step, contenders=())

    def _advance(self, stage: str, share: float) -> None:
        """Note how far the task at hand is; it never goes back, though screening may go on behind other stages."""
        if stage not in SHARES:
            return
        self._stage, (begin, end) = stage, SHARES[stage]
        self.share = max(self.share, begin + (end - begin) * min(1.0, share))

    def _resume(self, now_s: float) -> None:
        if self._waiting_since_s is not None:
            self._begun_s += now_s - self._waiting_since_s
            self._waiting_since_s = None

    def at(self, now_s: float) -> ProgressView:
        if self._waiting_since_s is not None:
            now_s = self._waiting_since_s
        spent_s = max(0.0, now_s - self._begun_s)
        left_s, budget_s = None, self.view.budget_s
        if self._planned_s is not None and self._task_s is not None and not self.view.is_part:
            account = Account(
                planned_s=max(self._planned_s, self._before_s + self._task_s),
                done_s=self._before_s + self.share * self._task_s,
                spent_s=now_s - self._planned_at_s,
                room_s=None if budget_s is None else budget_s - spent_s,
            )
            left_s = self._left.follow(account, now_s)
        return replace(self.view, spent_s=spent_s, left_s=left_s)


class _Whole:
    """What is known of a tuning whose units are shared: what is settled of them, whoever settles it."""

    def __init__(self, now_s: float) -> None:
        self._begun_s = now_s
        self._shared: dict[str, Shared] = {}  # by kind of device
        self._settled: dict[str, float] = {}  # of the seconds that were expected of each
        self._units = 0
        self._rows = 0
        self._left = TimeLeft()
        self._standing_since_s: float | None = None

    def stand(self, now_s: float, *, waiting: int) -> None:
        """Note how many devices wait for another tuning to end: where all do, it costs nothing of the budget."""
        stands = waiting >= sum(one.workers or waiting + 1 for one in self._shared.values())
        if self._standing_since_s is not None and not stands:
            self._begun_s += now_s - self._standing_since_s
        self._standing_since_s = (self._standing_since_s or now_s) if stands else None

    def hear(self, event: Event) -> None:
        match event:
            case Shared(device=device):
                self._shared[device] = event
            case UnitSettled(device=device, seconds=seconds):
                self._units += bool(seconds)
                self._settled[device] = self._settled.get(device, 0.0) + seconds
            case Decided() | Passed():
                self._rows += 1
            case _:
                pass

    def at(self, now_s: float, under_way: Mapping[str, float]) -> ProgressView:
        """Return a view of all of it; the kind of device that takes longest says what is left.

        `under_way` are units of each kind that are being settled, each as the share that is done of it.
        """
        shared, spent_s = list(self._shared.values()), max(0.0, now_s - self._begun_s)
        units, counts = sum(one.units for one in shared), [one.workers for one in shared]
        budget_s = shared[0].budget_s
        planned_s, done_s = max(
            (self._expected_s(one, under_way.get(one.device, 0.0)) for one in shared), key=lambda one: one[0] - one[1]
        )
        room_s = None if budget_s is None else budget_s - spent_s
        account = Account(planned_s=planned_s, done_s=done_s, spent_s=spent_s, room_s=room_s)
        among = "" if None in counts else f" by {counted(sum(filter(None, counts)), 'worker')}"
        return ProgressView(
            device=", ".join(self._shared),
            step=f"{self._units} of {counted(units, 'unit')} settled{among}",
            rows=Count(done=self._rows, of=sum(one.rows for one in shared)),
            spent_s=spent_s,
            budget_s=budget_s,
            left_s=self._left.follow(account, now_s) if planned_s and None not in counts else None,
        )

    def _expected_s(self, shared: Shared, under_way: float) -> tuple[float, float]:
        """Return what a kind of device is expected to take, and what of that is done, with all of its workers."""
        done_s = self._settled.get(shared.device, 0.0) + under_way * shared.seconds / max(1, shared.units)
        return shared.seconds / (shared.workers or 1), min(shared.seconds, done_s) / (shared.workers or 1)


class TuningProgress:
    """How far the tunings on one device or several are; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun_s = clock()
        self._devices: dict[str, _OneDevice] = {}
        self._whole: _Whole | None = None

    def hear(self, event: Event) -> None:
        """Take an event in; those of several devices come as `OnDevice`."""
        device = ""
        while isinstance(event, OnDevice):
            device, event = event.device, event.event
        with self._lock:
            now_s = self._clock()
            if isinstance(event, Shared) and self._whole is None:
                self._whole = _Whole(now_s)
            if self._whole is not None:
                self._whole.hear(event)
            if isinstance(event, UnitSettled):
                if event.worker in self._devices:
                    self._devices[event.worker].rest()
                return
            if device not in self._devices:
                self._devices[device] = _OneDevice(device, self._begun_s, is_part=self._whole is not None)
            self._devices[device].hear(event, now_s)
            if self._whole is not None and device:
                self._whole.stand(now_s, waiting=sum(one.waits for one in self._devices.values()))

    def views(self) -> list[ProgressView]:
        """Return what is known by now: of each device that has begun; where they share the work, of all of it first."""
        with self._lock:
            now_s = self._clock()
            if not self._devices:
                return [ProgressView(spent_s=now_s - self._begun_s)]
            found = [one.at(now_s) for one in self._devices.values()]
            begun = [view for view in found if view.kernel or view.rows.of or (view.is_part and view.step == IDLE)]
            if self._whole is not None:
                under_way: defaultdict[str, float] = defaultdict(float)
                for one in self._devices.values():
                    under_way[one.kind] += one.share
                return [self._whole.at(now_s, under_way), *begun]
            return begun or [view for view in found if not view.device] or found[:1]
