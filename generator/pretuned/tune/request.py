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
    """What to tune of one kernel: `problems`, and the ranked configurations of the rows that some of them have now."""

    spec: KernelSpec
    problems: tuple[Problem, ...]
    incumbents: Mapping[Problem, tuple[Configuration, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortProfile:
    """How thoroughly candidates are timed: the most rounds of races, of duels, and beyond the sizes (0: not there)."""

    race_rounds: int = 11
    duel_rounds: int = 31  # the 95% interval lies between the 10th and the 22nd sample
    beyond_rounds: int = 15


# Times on the host mean nothing for a GPU: these rounds settle an order, and go through every step of a tuning.
HOST_PROFILE: Final = EffortProfile(race_rounds=3, duel_rounds=7, beyond_rounds=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningDevice:
    """A device as rows record it, the version of its driver (of the host: its processor), and CUDA's ordinal of it."""

    record: TunedDevice
    driver: str
    index: Where = 0

    @property
    def name(self) -> str:
        """The name that rows have for it."""
        return self.record.name

    @property
    def profile(self) -> EffortProfile:
        """How thoroughly it is tuned for."""
        return HOST_PROFILE if self.record.is_host else EffortProfile()

    @property
    def facts(self) -> DeviceFacts:
        """What expressions may ask of it."""
        return DeviceFacts(
            sm_count=self.record.sm_count,
            compute_capability=self.record.compute_capability,
            shared_bytes=self.record.shared_bytes,
            l2_bytes=self.record.l2_bytes,
        )


def find_device(index: Where, known: Mapping[str, TunedDevice]) -> TuningDevice | None:
    """Return the host device, or the GPU with CUDA's ordinal `index`; None if there is no such GPU.

    A device is known by its name, SM count and compute capability. One that shares only its name with a device of
    `known`, such as a partition of it, is named with its SM count as well.
    """
    if index == HOST:
        return host_device()
    driver, gpus = probe.driver(), probe.gpus()
    gpu = next((gpu for gpu in gpus if gpu.index == index), None)
    if gpu is None or driver is None:
        return None
    record = record_of(gpu)
    other = known.get(gpu.name)
    if other is not None and not other.is_same_as(record):
        record = replace(record, name=record.qualified_name)
    return TuningDevice(record=record, driver=driver.version, index=index)


def host_device() -> TuningDevice:
    """Return the host device as rows name it."""
    record = TunedDevice(
        name=host.NAME,
        sm_count=host.FACTS.sm_count,
        compute_capability=host.FACTS.compute_capability,
        l2_bytes=host.FACTS.l2_bytes,
        shared_bytes=host.FACTS.shared_bytes,
        memory_bytes=host.memory_bytes(),
        memory_gbps=0,
        power_w=0,
    )
    return TuningDevice(record=record, driver=host.processor(), index=HOST)


def record_of(gpu: probe.Gpu) -> TunedDevice:
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
