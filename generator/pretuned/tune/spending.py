"""Where the time of a tuning goes, by stage and by kernel, and what was done in it."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pretuned.outcome import Failure
from pretuned.tune.events import Failed
from pretuned.tune.prospects import Searched


@dataclass(slots=True)
class Spending:
    """Where time went and what was done.

    `seconds`: by stage; they add up to what was spent. The time of an inner stage does not count for the outer one,
    and what no stage took is `overhead`.
    `by_kernel`: the same for each kernel; "" has what belongs to no kernel.
    `device_s`: the seconds that candidates ran on the device.
    `compiled`: sources, and `elsewhere` those among them that a worker without a device has compiled, by worker.
    `launched`: candidates that were timed or verified, and races.
    `confirmed`: rows whose winner was faster than the default at all places of its duel but one at most;
    `unconfirmed`: candidates that were so at the first place and then lost.
    `searched`: the searches that ended, and what more of each is expected to gain.
    `pruned`: candidates that were not launched, by the reason; `failed`: those that failed, by kind.
    `first_failed`: the first of each kind, or of each kind and worker.
    """

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    by_kernel: defaultdict[str, defaultdict[str, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    kernel: str = ""  # whose seconds are counted now
    device_s: float = 0.0
    compiled: int = 0
    elsewhere: Counter[str] = field(default_factory=Counter)
    launched: int = 0
    confirmed: int = 0
    unconfirmed: int = 0
    searched: list[Searched] = field(default_factory=list)
    pruned: Counter[str] = field(default_factory=Counter)
    failed: Counter[type[Failure]] = field(default_factory=Counter)
    first_failed: list[Failed] = field(default_factory=list)
    _inner_s: float = 0.0  # of the stages inside the one that runs

    def longest(self) -> list[tuple[str, float]]:
        """Return the stages with their seconds, the longest first."""
        return sorted(self.seconds.items(), key=lambda item: -item[1])

    def count_failure(self, event: Failed) -> None:
        """Count a candidate that failed."""
        kind = type(event.failure)
        self.failed[kind] += 1
        if self.failed[kind] == 1:
            self.first_failed.append(event)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a block to stage `name`."""
        started = time.perf_counter()
        outer, self._inner_s = self._inner_s, 0.0
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self._count(name, spent - self._inner_s)
            self._inner_s = outer + spent

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Count to `overhead` what the stages of a block leave of its time."""
        started, before = time.perf_counter(), sum(self.seconds.values())
        try:
            yield
        finally:
            staged = sum(self.seconds.values()) - before
            self.kernel = ""
            self._count("overhead", time.perf_counter() - started - staged)

    def move(self, stage: str, to: str, seconds: float) -> None:
        """Count seconds of `stage`, which is running or over, to another one."""
        self._count(stage, -seconds)
        self._count(to, seconds)

    def _count(self, stage: str, seconds: float) -> None:
        self.seconds[stage] += seconds
        self.by_kernel[self.kernel][stage] += seconds
