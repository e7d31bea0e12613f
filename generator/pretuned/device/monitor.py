"""What the driver reports of a GPU while something runs on it: clocks, temperature, power, and other processes.

Read through NVML in a thread, a few times a second: a reading takes the driver about a millisecond.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pynvml

EVERY_S: Final = 0.1
KEPT: Final = 600  # readings: a minute of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The state of a GPU at one moment.

    `slowdown` says why the GPU protects itself, empty where it does not; `power_capped` whether it is at its power
    limit; `others` are the ids of processes that were there before the tuning began, and have used its SMs.
    """

    clock_mhz: int
    temperature_c: int
    power_w: float
    slowdown: str = ""
    power_capped: bool = False
    others: frozenset[int] = frozenset()


# NVML API Reference, nvmlClocksEventReasons.
SLOWDOWNS: Final = {
    0x08: "the hardware slows down",
    0x20: "the driver lowers clocks for temperature",
    0x40: "the hardware slows down for temperature",
    0x80: "the power supply brakes",
}
POWER_CAP: Final = 0x04


class Nvml:
    """Readings of the GPU with NVML's `handle`."""

    def __init__(self, nvml: Any, handle: object) -> None:  # noqa: ANN401 - pynvml ships no types
        self._nvml = nvml
        self._handle = handle
        self.others = self._pids()  # those from before the tuning starts its own
        self._since = 0

    def read(self) -> Reading:
        """Return the state now; what the driver does not report reads as nothing unusual."""
        nvml, handle = self._nvml, self._handle
        reasons = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle), 0)
        return Reading(
            clock_mhz=self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM), 0),
            temperature_c=self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU), 0),
            power_w=self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle), 0) / 1000,
            slowdown=next((text for bit, text in SLOWDOWNS.items() if reasons & bit), ""),
            power_capped=bool(reasons & POWER_CAP),
            others=self._others_run(),
        )

    def _others_run(self) -> frozenset[int]:
        """Return those of the processes from before that have used the SMs since the last reading."""
        if not self.others:
            return frozenset()
        samples = self._ask(lambda: self._nvml.nvmlDeviceGetProcessUtilization(self._handle, self._since), [])
        self._since = max([self._since, *(sample.timeStamp for sample in samples)])
        return frozenset(sample.pid for sample in samples if sample.smUtil > 0) & self.others

    def _pids(self) -> frozenset[int]:
        running = self._ask(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle), [])
        return frozenset(process.pid for process in running)

    def _ask(self, question: Callable[[], Any], otherwise: Any) -> Any:  # noqa: ANN401 - whatever NVML answers
        with contextlib.suppress(self._nvml.NVMLError):
            return question()
        return otherwise


class DeviceMonitor:
    """Takes readings in a thread until it is closed; use it in a `with` statement.

    `others` are the ids of the processes that were there before.
    """

    def __init__(self, read: Callable[[], Reading], others: frozenset[int] = frozenset()) -> None:
        self._read = read
        self.others = others
        self._found: list[Reading] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="monitor", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Forget what was read so far."""
        with self._lock:
            self._found.clear()

    def readings(self) -> list[Reading]:
        """Return what was read since, and one reading of now."""
        with self._lock:
            return [*self._found, self._read()]

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ended.wait(EVERY_S):
            with self._lock:
                self._found = [*self._found[-KEPT:], self._read()]


def monitor_of(uuid: str) -> DeviceMonitor | None:
    """Return a monitor of the GPU with CUDA's `uuid`; None where NVML does not know it, as a slice of one."""
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        return None
    nvml = Nvml(pynvml, handle)
    return DeviceMonitor(nvml.read, nvml.others)
