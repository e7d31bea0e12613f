"""What is to be tuned, and the device that it is tuned for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pretuned.config import HOST, Where
from pretuned.device import host, probe
from pretuned.record.rows import TunedDevice
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRequest:
    """What to tune of one kernel: problems, and for some of them the configurations that hold the row now, ranked."""

    spec: KernelSpec
    problems: tuple[Problem, ...]
    incumbents: Mapping[Problem, tuple[Configuration, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How thoroughly candidates are timed: the most rounds of races, duels and probes (0 probes: none)."""

    race_rounds: int = 11
    duel_rounds: int = 31  # the 95% interval lies between the 10th and the 22nd sample
    probe_rounds: int = 15


# On the host a time means nothing for a GPU: enough to settle an order, and to go through all that tuning does.
HOST_PACE: Final = Pace(race_rounds=3, duel_rounds=7, probe_rounds=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningDevice:
    """A device by its name in rows, with its facts and the driver's version (of the host, its processor)."""

    name: str
    device: TunedDevice
    driver: str

    @property
    def pace(self) -> Pace:
        """How thoroughly it is tuned for."""
        return HOST_PACE if self.device.is_host else Pace()

    @property
    def facts(self) -> DeviceFacts:
        """What expressions may ask of it."""
        return DeviceFacts(
            sm_count=self.device.sm_count,
            compute_capability=self.device.compute_capability,
            shared_bytes=self.device.shared_bytes,
            l2_bytes=self.device.l2_bytes,
        )


def find_target(index: Where, known: Mapping[str, TunedDevice]) -> TuningDevice | None:
    """Return the host device, or the GPU with CUDA's ordinal `index`, as rows name it; None where there is no such GPU.

    A device is its name, SM count and compute capability: one that shares only its name with a device of `known` (a
    partition of it, say) is named with its SM count as well.
    """
    if index == HOST:
        return host_target()
    driver, gpus = probe.driver(), probe.gpus()
    gpu = next((gpu for gpu in gpus if gpu.index == index), None)
    if gpu is None or driver is None:
        return None
    device = device_of(gpu)
    other = known.get(gpu.name)
    name = gpu.name if other is None or other.is_same_as(device) else device.qualified_name
    return TuningDevice(name=name, device=replace(device, name=name), driver=driver.version)


def host_target() -> TuningDevice:
    """Return the host device as rows name it."""
    device = TunedDevice(
        name=host.NAME,
        sm_count=host.FACTS.sm_count,
        compute_capability=host.FACTS.compute_capability,
        l2_bytes=host.FACTS.l2_bytes,
        shared_bytes=host.FACTS.shared_bytes,
        memory_bytes=host.memory_bytes(),
        memory_gbps=0,
        power_w=0,
    )
    return TuningDevice(name=device.name, device=device, driver=host.processor())


def device_of(gpu: probe.Gpu) -> TunedDevice:
    """Return a probed GPU as rows describe it."""
    return TunedDevice(
        name=gpu.name,
        sm_count=gpu.sm_count,
        compute_capability=gpu.compute_capability,
        l2_bytes=gpu.l2_bytes,
        shared_bytes=gpu.shared_bytes,
        memory_bytes=gpu.memory_bytes,
        memory_gbps=gpu.memory_gbps,
        power_w=gpu.power_w,
    )
