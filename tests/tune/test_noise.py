"""What makes a race noisy, and what does not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pretuned.device.monitor import DeviceMonitor, Nvml, Reading
from pretuned.tune.workbench import NoiseWatch


def reading(**given):
    return Reading(**{"clock_mhz": 1980, "temperature_c": 40, "power_w": 300.0} | given)


class Seen:
    def __init__(self, *readings):
        self.found = list(readings)

    def begin(self):
        pass

    def readings(self):
        return self.found


def test_a_quiet_race_is_trusted():
    watch = NoiseWatch(Seen(reading()))
    assert watch.reason((20.0, 20.1)) is None


def test_a_gpu_that_protects_itself_is_noisy():
    watch = NoiseWatch(Seen(reading(), reading(slowdown="the hardware slows down for temperature", clock_mhz=900)))
    assert watch.reason((20.0, 20.0)) == "the hardware slows down for temperature at 900 MHz, 40 C"


def test_another_process_is_noise():
    assert NoiseWatch(Seen(reading(others=frozenset([7])))).reason((20.0, 20.0)) == "another process ran on the GPU"
    seen = Seen(reading(others=frozenset([7])))  # which this process knows no better than to take for another's
    assert NoiseWatch(seen, others=frozenset([8])).reason((20.0, 20.0)) is None
    assert NoiseWatch(seen, others=frozenset([7, 8])).reason((20.0, 20.0)) == "another process ran on the GPU"


@pytest.mark.parametrize(("capped", "said"), [(False, "clocks were 20% below their best"), (True, None)])
def test_lower_clocks_are_noise_unless_the_candidates_own_power_explains_them(capped, said):
    monitor = Seen(reading())
    watch = NoiseWatch(monitor)
    assert watch.reason((20.0, 20.0)) is None
    monitor.found = [reading(power_capped=capped)]
    assert watch.reason((20.0, 25.0)) == said


def test_without_a_monitor_the_canary_alone_decides():
    watch = NoiseWatch()
    assert watch.reason((20.0, 20.0)) is None
    assert watch.reason((20.5, 20.5)) is None
    assert watch.reason((20.0, 22.0)) == "clocks were 9% below their best"
    assert NoiseWatch().reason((0.0, 0.0)) is None  # the host has no canary


class DriverVersion:
    """NVML with one foreign process, which begins to run at the second reading."""

    NVMLError = type("NVMLError", (Exception,), {})
    NVML_CLOCK_SM = NVML_TEMPERATURE_GPU = 0

    def __init__(self, reasons=0):
        self.utilisation = iter([0, 50])
        self.nvmlDeviceGetComputeRunningProcesses = lambda _handle: [SimpleNamespace(pid=77)]
        self.nvmlDeviceGetCurrentClocksThrottleReasons = lambda _handle: reasons
        self.nvmlDeviceGetClockInfo = lambda _handle, _kind: 1755
        self.nvmlDeviceGetTemperature = self.fail
        self.nvmlDeviceGetPowerUsage = lambda _handle: 123456
        self.nvmlDeviceGetProcessUtilization = self.sample

    def fail(self, _handle, _kind):
        raise self.NVMLError

    def sample(self, _handle, since):
        return [SimpleNamespace(pid=77, smUtil=next(self.utilisation), timeStamp=since + 1)]


def test_readings_come_from_the_driver_and_what_it_does_not_say_is_nothing_unusual():
    nvml = Nvml(DriverVersion(reasons=0x04 | 0x20), handle=None)
    first = nvml.read()
    assert (first.clock_mhz, first.temperature_c, first.power_w) == (1755, 0, 123.456)
    assert (first.slowdown, first.power_capped) == ("the driver lowers clocks for temperature", True)
    assert (first.others, nvml.read().others) == (frozenset(), frozenset([77]))


def test_a_monitor_reads_until_it_is_closed():
    count = iter(range(10**6))
    monitor = DeviceMonitor(lambda: reading(clock_mhz=next(count)))
    monitor.begin()
    assert monitor.readings()[-1].clock_mhz >= 0
    monitor.close()
    assert not monitor._thread.is_alive()
