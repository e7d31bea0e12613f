"""Tuning what a table lacks, on the device at hand: one session of workers, cache and budget for all kernels."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from pretuned.compile.host import INSTALL as CPP_INSTALL
from pretuned.compile.nvrtc import INSTALL
from pretuned.compile.toolchain import CPP, NVRTC
from pretuned.config import HOST, Where
from pretuned.device import host, probe
from pretuned.errors import DeviceError
from pretuned.measure.runner import Runner
from pretuned.record.cache import Cache
from pretuned.record.rows import Device, Row, Skipped
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.library import Library
from pretuned.tune.progress import Effort, Listener
from pretuned.tune.target import Target
from pretuned.tune.tuner import Tuner


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What to tune of one kernel: problems, and for some of them the configuration that holds the row now."""

    spec: KernelSpec
    problems: tuple[Problem, ...]
    incumbents: Mapping[Problem, Configuration] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What a session found: rows and skipped problems, how many problems the budget left out, and the effort."""

    target: Target
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...]
    left: int
    effort: Effort


def find_target(index: Where, known: Mapping[str, Device]) -> Target | None:
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
    same = other is None or (other.sm_count, other.compute_capability) == (device.sm_count, device.compute_capability)
    name = gpu.name if same else f"{gpu.name} ({gpu.sm_count} SMs)"
    return Target(name=name, device=replace(device, name=name), driver=driver.version)


def host_target() -> Target:
    """Return the host device as rows name it."""
    device = Device(
        name=host.NAME,
        sm_count=host.FACTS.sm_count,
        compute_capability=host.FACTS.compute_capability,
        l2_bytes=host.FACTS.l2_bytes,
        shared_bytes=host.FACTS.shared_bytes,
        memory_bytes=host.memory_bytes(),
        memory_gbps=0,
        power_w=0,
    )
    return Target(name=device.name, device=device, driver=host.processor())


def device_of(gpu: probe.Gpu) -> Device:
    """Return a probed GPU as rows describe it."""
    return Device(
        name=gpu.name,
        sm_count=gpu.sm_count,
        compute_capability=gpu.compute_capability,
        l2_bytes=gpu.l2_bytes,
        shared_bytes=gpu.shared_bytes,
        memory_bytes=gpu.memory_bytes,
        memory_gbps=gpu.memory_gbps,
        power_w=gpu.power_w,
    )


def tune(
    demands: Sequence[Demand],
    target: Target,
    *,
    index: Where = 0,
    cache_folder: Path | None,
    budget_s: float | None = None,
    listen: Listener = lambda _event: None,
) -> Tuned:
    """Tune every demand on GPU `index`, or on the host, within `budget_s` seconds (None: as long as it takes).

    One session at a time measures on a device: another process waits here for its turn. With `cache_folder` None
    nothing is kept or reused. Raises DeviceError without CuPy or a usable GPU, and on the host without NumPy or a C++
    compiler; TuningError for a kernel whose default or reference is wrong.
    """
    _demand_packages(index)
    effort = Effort()
    rows: list[Row] = []
    skipped: list[Skipped] = []
    toolchain = CPP if index == HOST else NVRTC
    with (
        Cache(cache_folder) as cache,
        Library(cache, effort, toolchain=toolchain) as library,
        Runner.host() if index == HOST else Runner(index=index) as runner,
        _turn(index),
    ):
        deadline = None if budget_s is None else time.monotonic() + budget_s  # waiting for the turn costs none of it
        tuner = Tuner(
            runner=runner, target=target, library=library, cache=cache, effort=effort, listen=listen, deadline=deadline
        )
        for demand in demands:
            for found in tuner.tune(demand.spec, demand.problems, demand.incumbents):
                if isinstance(found, Row):
                    rows.append(found)
                else:
                    skipped.append(found)
    wanted = sum(len(demand.problems) for demand in demands)
    left = wanted - len(rows) - len(skipped)
    return Tuned(target=target, rows=tuple(rows), skipped=tuple(skipped), left=left, effort=effort)


def _demand_packages(index: Where) -> None:
    if index == HOST:
        if importlib.util.find_spec("numpy") is None:
            raise DeviceError("the host device needs NumPy: pip install numpy")
        if CPP.installed() is None:
            raise DeviceError(f"there is no C++ compiler: {CPP_INSTALL}")
    elif importlib.util.find_spec("cupy") is None:
        raise DeviceError(f"tuning needs CuPy: {INSTALL}")


def _turn(index: Where) -> FileLock:
    """Return the lock of a device among builds on this machine; it ends with the process that holds it."""
    return FileLock(Path(tempfile.gettempdir()) / f"pretuned-gpu-{index}-{os.getuid()}.lock")
