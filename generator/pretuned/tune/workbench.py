"""Whether times can be trusted: what the driver says of the GPU while a race runs, and how fast its canary was.

A race is disturbed where the GPU slowed down to protect itself, where another process ran on it, or where its canary,
a kernel that takes a fixed number of cycles, took clearly longer than ever before in this tuning and the candidates'
own power does not explain it: a GPU that reaches its power limit lowers its clocks for whoever runs, which is what a
user's GPU does as well, and interleaving spreads it over all alike. Clocks are never set.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

from pretuned.device.monitor import Reading

SLOWER: Final = 1.04  # times the fastest canary


class DeviceMonitor(Protocol):
    """Readings of one device since `begin`."""

    def begin(self) -> None:
        """Forget what was read so far."""

    def readings(self) -> list[Reading]:
        """Return what was read since, the last moment included."""
        ...


class Watch:
    """Judges races on one device; without a monitor, by their canaries alone."""

    def __init__(self, monitor: DeviceMonitor | None = None) -> None:
        self._monitor = monitor
        self._canary_us = math.inf  # the fastest so far

    def begin(self) -> None:
        """Look from now on."""
        if self._monitor is not None:
            self._monitor.begin()

    def disturbance(self, canary_us: tuple[float, float]) -> str | None:
        """Return what disturbed the race since `begin`, given its canary before and after; None if nothing did."""
        readings = self._monitor.readings() if self._monitor is not None else []
        for reading in readings:
            if reading.slowdown:
                return f"{reading.slowdown} at {reading.clock_mhz} MHz, {reading.temperature_c} C"
        if any(reading.others for reading in readings):
            return "another process ran on the GPU"
        slowest = max(canary_us)
        self._canary_us = min(self._canary_us, *(time_us for time_us in canary_us if time_us > 0), math.inf)
        capped = any(reading.power_capped for reading in readings)
        if slowest > SLOWER * self._canary_us and not capped:
            return f"clocks were {1 - self._canary_us / slowest:.0%} below their best"
        return None
