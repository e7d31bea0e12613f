"""What every step of a tuning works with: device, compilers, cache, clock and the watch for noise. No algorithm.

A race is *noisy* where the GPU slowed down to protect itself, where another process ran on it, or where its *canary*, a
kernel that takes a fixed number of cycles, took clearly longer than ever before in this tuning and the candidates' own
power does not explain it. A GPU that reaches its power limit lowers its clocks for whatever runs: a user's GPU does
so as well, and interleaving spreads it over all candidates alike. Clocks are never set.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pretuned.config.project import MAX_CONFIGURATIONS
from pretuned.device.monitor import DeviceMonitor
from pretuned.measure.runner import Runner
from pretuned.record.cache import Cache
from pretuned.strategies import AUTO, NamedStrategy, Strategy, named
from pretuned.strategies.exhaustive import Exhaustive
from pretuned.strategies.hybrid import Hybrid
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.events import Listener
from pretuned.tune.request import TuningDevice
from pretuned.tune.sanitize import Sanitizer
from pretuned.tune.spending import Spending

SCREENING_SHARE: Final = 0.6  # of a tuning task's time
SELECTING_SHARE: Final = 0.2
SLOWER: Final = 1.04  # times the fastest canary


class Clock:
    """Owns every deadline of a tuning: the end of its budget, and the end of the screening at hand.

    `budget_s` counts from now on, None for as long as it takes.
    """

    def __init__(self, budget_s: float | None = None) -> None:
        self.budget_s = budget_s
        self._begun_s = time.monotonic()  # moved by what does not count
        self._screening_ends_s: float | None = None
        self._task_s = 0.0

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Have a block cost nothing of the budget."""
        stopped_s = time.monotonic()
        try:
            yield
        finally:
            self._begun_s += time.monotonic() - stopped_s

    @property
    def spent_s(self) -> float:
        """The seconds since the beginning that count."""
        return time.monotonic() - self._begun_s

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return self.budget_s is not None and self.spent_s > self.budget_s

    @property
    def left_s(self) -> float:
        """The seconds that are left of the budget: below 0 once it is spent, and math.inf without one."""
        return math.inf if self.budget_s is None else self.budget_s - self.spent_s

    @property
    def ends_s(self) -> float:
        """When the budget ends, by time.monotonic(): math.inf without one."""
        return math.inf if self.budget_s is None else self._begun_s + self.budget_s

    def begin_screening(self, share: float) -> None:
        """Give the screening that begins its part of `share` of the budget that is left."""
        if self.budget_s is not None:
            self._task_s = share * self.left_s
            self._screening_ends_s = time.monotonic() + SCREENING_SHARE * self._task_s

    def begin_selecting(self) -> None:
        """Give what is measured for a selection its part of the task's time, and what the screening left of its own."""
        if self._screening_ends_s is not None:
            self._screening_ends_s = max(self._screening_ends_s, time.monotonic()) + SELECTING_SHARE * self._task_s

    @property
    def screening_left_s(self) -> float | None:
        """The seconds that are left for the screening at hand; None for as long as it takes."""
        return None if self._screening_ends_s is None else self._screening_ends_s - time.monotonic()

    @property
    def late(self) -> bool:
        """Whether the time of the screening at hand is over."""
        left_s = self.screening_left_s
        return left_s is not None and left_s <= 0


class NoiseWatch:
    """Judges whether the times of a race can be trusted; without a monitor, by its canary alone.

    `others` are the only processes that may disturb it; None: all that were there before.
    """

    def __init__(self, monitor: DeviceMonitor | None = None, others: frozenset[int] | None = None) -> None:
        self._monitor = monitor
        self._others = others
        self._canary_us = math.inf  # the fastest so far

    def begin(self) -> None:
        """Watch from now on."""
        if self._monitor is not None:
            self._monitor.begin()

    def reason(self, canary_us: tuple[float, float]) -> str | None:
        """Return why the race since `begin` is noisy, given its canary before and after; None if it is not."""
        readings = self._monitor.readings() if self._monitor is not None else []
        for reading in readings:
            if reading.slowdown:
                return f"{reading.slowdown} at {reading.clock_mhz} MHz, {reading.temperature_c} C"
        if any(reading.others if self._others is None else reading.others & self._others for reading in readings):
            return "another process ran on the GPU"
        slowest_us = max(canary_us)
        self._canary_us = min(self._canary_us, *(time_us for time_us in canary_us if time_us > 0), math.inf)
        capped = any(reading.power_capped for reading in readings)
        if slowest_us > SLOWER * self._canary_us and not capped:
            return f"clocks were {1 - self._canary_us / slowest_us:.0%} below their best"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a tuning is asked for: by which strategy it searches, and what selections must be like.

    At most `max_configurations` ship for a specialisation, the default included. `max_loss` is the mean that a
    certificate may say at most inside the sizes: a selection is refined until it holds or the budget ends; None:
    one that loses over 5% is, as often as the effort's profile says. `certify` renews the certificates of requests'
    selections with so many fresh problems each, and tunes nothing else; None: certificates are made for what is
    tuned. `seed` draws the problems; None: one more than the last certificate's, 1 where there was none. With
    `anew`, no past measurement counts; what is found replaces it.
    """

    strategy: NamedStrategy = field(default_factory=lambda: named(AUTO))
    max_configurations: int = MAX_CONFIGURATIONS
    max_loss: float | None = None
    certify: int | None = None
    seed: int | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """What a tuning works with.

    `take_device` waits until no other tuning of this machine measures on the device. It is given what can be done
    meanwhile, and calls that only where it has to wait; waiting costs nothing of the budget. `sanitizer` runs finalists
    once more, where the device can.
    """

    runner: Runner
    device: TuningDevice
    binaries: BinaryStore
    cache: Cache
    spending: Spending
    listen: Listener
    clock: Clock = field(default_factory=Clock)
    noise: NoiseWatch = field(default_factory=NoiseWatch)
    demands: Demands = field(default_factory=Demands)
    sanitizer: Sanitizer | None = None
    take_device: Callable[[Callable[[], None]], None] = lambda _meanwhile: None

    def strategy(self, size: int, first: Sequence[int] = ()) -> Strategy:
        """Return a new strategy for a space of `size` configurations, of which the rows `first` are tried first."""
        asked, profile = self.demands.strategy, self.device.profile
        if asked.name != AUTO:
            return asked.make(size, first)
        if size <= profile.exhaustive:
            return Exhaustive(size, first)
        return Hybrid(size, first, evaluations=profile.evaluations)
