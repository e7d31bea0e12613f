"""The course of a session, from its events: the best so far by the second, kept in the user cache for reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pretuned.record.cache import Cache, Subject
from pretuned.record.courses import Course, Curve, keep_course, keep_held_out
from pretuned.spec.space import Problem
from pretuned.tune.events import CandidatesScreened, Certified, Decided, Event, Listener, Measuring
from pretuned.tune.spending import Spending

MOST_POINTS: Final = 64  # of a curve; a later one replaces the last


@dataclass(slots=True)
class _Search:
    """What is known of one problem so far."""

    default_us: float | None = None
    points: list[tuple[float, float]] = field(default_factory=list)

    def see(self, seconds: float, time_us: float) -> None:
        """Take the best time after so many seconds, if it is another one."""
        if self.points and self.points[-1][1] == time_us:
            return
        if len(self.points) == MOST_POINTS:
            self.points.pop()
        self.points.append((round(seconds, 3), time_us))


class CourseWatch:
    """Hears a session's events on one device, and keeps what they say about its course; `clock` counts seconds."""

    def __init__(self, device: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._device = device
        self._clock = clock
        self._began: dict[str, float] = {}
        self._searches: dict[str, dict[Problem, _Search]] = {}
        self._certified: list[Certified] = []

    def listener(self, listen: Listener) -> Listener:
        """Return a listener that hears events, and passes them on."""

        def heard(event: Event) -> None:
            self._hear(event)
            listen(event)

        return heard

    def _hear(self, event: Event) -> None:
        match event:
            case Measuring(kernel=kernel):
                self._began.setdefault(kernel, self._clock())
            case CandidatesScreened(kernel=kernel, problem=problem, best=best) if best is not None:
                search = self._search(kernel, problem)
                search.default_us = event.default_us if event.default_us is not None else search.default_us
                search.see(self._seconds(kernel), event.best_us)
            case Decided(row=row, cached=False):
                search = self._search(row.kernel, row.problem)
                search.default_us = row.default.time_us
                search.see(self._seconds(row.kernel), row.winner.time_us)
            case Certified(cached=False) if event.held_out:
                self._certified.append(event)
            case _:
                pass

    def keep(self, cache: Cache, spending: Spending) -> None:
        """Keep the course of each kernel that was measured, and the problems of its certificates."""
        today = datetime.now(UTC).date().isoformat()
        for kernel, searches in self._searches.items():
            stages: Mapping[str, float] = spending.by_kernel.get(kernel, {})
            course = Course(
                kernel=kernel,
                device=self._device,
                date=today,
                seconds=tuple(sorted(stages.items(), key=lambda item: -item[1])),
                curves=tuple(
                    Curve(problem=str(problem), default_us=search.default_us, points=tuple(search.points))
                    for problem, search in searches.items()
                ),
            )
            keep_course(cache, course)
        for event in self._certified:
            subject = Subject(kernel=event.kernel, device=self._device)
            keep_held_out(cache, subject, event.specialisation, event.certificate, event.held_out)

    def _search(self, kernel: str, problem: Problem) -> _Search:
        return self._searches.setdefault(kernel, {}).setdefault(problem, _Search())

    def _seconds(self, kernel: str) -> float:
        now = self._clock()
        return now - self._began.setdefault(kernel, now)
