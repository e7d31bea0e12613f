"""How far a tuning is, by its events: what is compiled, screened and racing, the best so far, rows and time.

A tuning sends its events from the thread that tunes, and a display asks from another one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
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
    Waiting,
)

DECIDING: Final = "deciding"
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
    `left_s` to go, None where that is not known.
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

    @property
    def compiling(self) -> int:
        """How many sources are being compiled at this moment."""
        return min(self.workers, self.compiled.of - self.compiled.done)


class _OneDevice:
    """What is known of the tuning on one device, alone or as one of those that units are `shared` among."""

    def __init__(self, device: str, now_s: float, shared: Shared | None = None) -> None:
        self._shared = shared
        self.view = ProgressView(device=device)
        self._begun_s = now_s  # moved by what does not count
        self._waiting_since_s: float | None = None
        self._planned_s: float | None = None  # what was expected of all plans so far
        self._planned_at_s = now_s
        self._task_s: float | None = None  # what the task at hand is expected to take
        self._share = 0.0  # of it that is done
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
            case Shared(units=units, workers=workers):
                among = "" if workers is None else f" among {counted(workers, 'worker')}"
                self.view = replace(self.view, step=f"{counted(units, 'unit')} of work shared{among}")
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

    def settle(self) -> None:
        """Count a row that somebody settled of whom no plan was heard."""
        self.view = replace(self.view, rows=replace(self.view.rows, done=self.view.rows.done + 1))

    @property
    def has_plan(self) -> bool:
        """Whether a plan was heard."""
        return self._planned_s is not None

    def _plan(self, event: Planned, now_s: float) -> None:
        """Take a plan in: the first of a tuning, or one more, of a device that is given one part after another."""
        expected_s = event.seconds - event.spent_s
        if self._planned_s is None:
            self._begun_s, self._planned_at_s = now_s - event.spent_s, now_s
            device = self.view.device or event.device
            # A unit has a part of the budget, which says nothing of when all of them end.
            budget_s = event.budget_s if self._shared is None else self._shared.budget_s
            self.view = replace(self.view, device=device, rows=Count(of=event.rows), budget_s=budget_s)
        else:
            rows = self.view.rows
            self.view = replace(self.view, rows=replace(rows, of=rows.of + event.rows))
        self._planned_s = (self._planned_s or 0.0) + expected_s

    def _begin_task(self, event: Measuring) -> None:
        self._before_s += self._task_s or 0.0
        self._task_s, self._share, self._screened = event.seconds, 0.0, {}
        self._go_to(event.kernel, event.problem, "compiling the first sources")
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
        if order:
            (fastest, time_us), default_us = order[0], dict(order).get(event.default)
            best = BestSoFar(configuration=fastest, time_us=time_us, default_us=default_us)
            self.view = replace(self.view, contenders=tuple(one for one, _ in order), best=best)

    def _go_to(self, kernel: str, problem: Problem, step: str) -> None:
        if (kernel, problem) != (self.view.kernel, self.view.problem):
            self.view = replace(self.view, best=None)
        self.view = replace(self.view, kernel=kernel, problem=problem, step=step, contenders=())

    def _advance(self, stage: str, share: float) -> None:
        """Note how far the task at hand is; it never goes back, though screening may go on behind other stages."""
        if stage not in SHARES:
            return
        self._stage, (begin, end) = stage, SHARES[stage]
        self._share = max(self._share, begin + (end - begin) * min(1.0, share))

    def _resume(self, now_s: float) -> None:
        if self._waiting_since_s is not None:
            self._begun_s += now_s - self._waiting_since_s
            self._waiting_since_s = None

    def at(self, now_s: float) -> ProgressView:
        if self._waiting_since_s is not None:
            now_s = self._waiting_since_s
        spent_s = max(0.0, now_s - self._begun_s)
        left_s, budget_s = None, self.view.budget_s
        if self._planned_s is not None and self._task_s is not None:
            account = Account(
                planned_s=max(self._planned_s, self._before_s + self._task_s),
                done_s=self._before_s + self._share * self._task_s,
                spent_s=now_s - self._planned_at_s,
                room_s=None if budget_s is None else budget_s - spent_s,
            )
            left_s = self._left.follow(account, now_s)
        return replace(self.view, spent_s=spent_s, left_s=left_s)


class TuningProgress:
    """How far the tunings on one device or several are; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun_s = clock()
        self._devices: dict[str, _OneDevice] = {}
        self._shared: Shared | None = None

    def hear(self, event: Event) -> None:
        """Take an event in; those of several devices come as `OnDevice`."""
        device = ""
        while isinstance(event, OnDevice):
            device, event = event.device, event.event
        with self._lock:
            if isinstance(event, Shared):
                self._shared = event
            if device not in self._devices:
                self._devices[device] = _OneDevice(device, self._begun_s, self._shared)
            self._devices[device].hear(event, self._clock())
            if isinstance(event, Decided | Passed) and device and not self._devices[device].has_plan:
                self._devices.setdefault("", _OneDevice("", self._begun_s)).settle()

    def views(self) -> list[ProgressView]:
        """Return what is known by now of each device that has begun, at least of one."""
        with self._lock:
            now_s = self._clock()
            if not self._devices:
                return [ProgressView(spent_s=now_s - self._begun_s)]
            found = [one.at(now_s) for one in self._devices.values()]
            begun = [view for view in found if view.kernel or view.rows.of]
            return begun or [view for view in found if not view.device] or found[:1]
