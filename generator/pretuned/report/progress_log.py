"""The progress of a tuning as lines of a log, where there is no terminal: in CI, and in a build.

What settles something is a line of its own. Between these, one line every few seconds says how far the tuning is, also
while nothing is reported: a thread of its own looks at the clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pretuned.config import Progress
from pretuned.diagnostics import Reporter
from pretuned.report.effort import describe
from pretuned.report.progress import TuningProgress
from pretuned.report.progress_lines import log_line
from pretuned.tune.events import (
    AnswerRefused,
    ByNumpy,
    Certified,
    Decided,
    Event,
    GivenAgain,
    Listener,
    Noisy,
    OutOfBudget,
    Passed,
    Planned,
    Refining,
    RemarkedReference,
    Shared,
    Waiting,
    innermost,
    is_of_a_part,
)

EVERY_S: Final = 5.0
LOOK_S: Final = 1.0
Kinds = tuple[type[Event], ...]
ALL: Final[Kinds] = ()  # in place of a list of all kinds
_OF_FLEET: Final[Kinds] = (Shared, GivenAgain, AnswerRefused)
SETTLING: Final[Kinds] = (
    Waiting,
    Planned,
    Noisy,
    ByNumpy,
    RemarkedReference,
    Decided,
    Passed,
    Refining,
    Certified,
    OutOfBudget,
    *_OF_FLEET,
)
IN_BUILDS: Final = tuple(kind for kind in SETTLING if kind not in {Waiting, OutOfBudget})  # builds report these


class ProgressLog:
    """Writes lines with `write`, which may be called from two threads, but by one of them at a time.

    Events of the kinds of `shown` get lines of their own, with `ALL` every event does. Besides, there is a line about
    all of them every `every_s` seconds of `clock`.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        shown: Kinds = SETTLING,
        *,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._shown, self._every_s, self._clock = write, shown, every_s, clock
        self._progress = TuningProgress(clock)
        self._lock = threading.Lock()
        self._written_s = clock()
        self._begun = False

    def hear(self, event: Event) -> None:
        """Take an event in, and write what there is to write."""
        self._progress.hear(event)
        with self._lock:
            self._begun = True
            if self._shown == ALL or (isinstance(innermost(event), self._shown) and not is_of_a_part(event)):
                self._write(describe(event))
        self.look()

    def look(self) -> None:
        """Write how far the tuning is, if that was written long enough ago, and anything was reported at all."""
        with self._lock:
            now_s = self._clock()
            if not self._begun or now_s - self._written_s < self._every_s:
                return
            self._written_s = now_s
            views = self._progress.views()
            for view in views:
                self._write((f"{view.device}: " if len(views) > 1 else "") + log_line(view))


@contextmanager
def logged(write: Callable[[str], None], shown: Kinds = SETTLING, *, every_s: float = EVERY_S) -> Iterator[Listener]:
    """Yield a listener that logs a tuning; while the block runs, a thread writes where the tuning itself is silent."""
    log, over = ProgressLog(write, shown, every_s=every_s), threading.Event()

    def look() -> None:
        while not over.wait(min(LOOK_S, every_s)):
            log.look()

    thread = threading.Thread(target=look, name="progress", daemon=True)
    thread.start()
    try:
        yield log.hear
    finally:
        over.set()
        thread.join()


@contextmanager
def reported(progress: Progress, reporter: Reporter) -> Iterator[Listener]:
    """Yield a listener for a build, whose front end shows what `reporter` reports; with `off` nothing is reported."""
    if progress == "off":
        yield lambda _event: None
        return
    with logged(reporter.info, IN_BUILDS) as listen:
        yield listen
