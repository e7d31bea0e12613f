"""Facts about the driver and its GPUs, found without CuPy and without a CUDA context.

libcuda says which GPUs CUDA will show to this process, in CUDA's order: it honours CUDA_VISIBLE_DEVICES,
CUDA_DEVICE_ORDER and MIG by itself, so nothing here parses them. NVML adds the driver's version and the power limit.
Where there is no driver both answers are empty, and nothing is raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pynvml

from pretuned.device import libcuda, nvml
from pretuned.device.libcuda import CudaError, LibCuda
from pretuned.runtime.cuda_majors import OLDEST


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverVersion:
    """The NVIDIA driver: its version, such as `580.159.04` (empty if untold), and the CUDA version it supports."""

    version: str
    cuda: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU that CUDA shows to this process. `index` is its CUDA ordinal, `uuid` has no prefix.

    `shared_bytes` is the shared memory that a block may opt in to, `memory_gbps` the peak bandwidth in GB/s;
    `power_w` is the enforced limit in W. The last two are 0 where the driver does not tell.
    """

    index: int
    name: str
    uuid: str
    compute_capability: int
    sm_count: int
    l2_bytes: int
    shared_bytes: int
    memory_bytes: int
    memory_gbps: int
    power_w: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where facts come from: a loaded libcuda, and a binding like pynvml. Tests bring their own."""

    cuda: LibCuda | None
    nvml: Any


def sources() -> Sources:
    """Return this machine's sources."""
    return Sources(cuda=libcuda.load(), nvml=pynvml)


def too_old(driver: DriverVersion) -> str:
    """Return why CuPy cannot use this driver, or an empty string where it can."""
    if driver.cuda[0] >= OLDEST.number:
        return ""
    major, minor = driver.cuda
    return f"the driver supports CUDA {major}.{minor}, and CuPy needs one that supports CUDA {OLDEST.number} or newer"


def driver(given: Sources | None = None) -> DriverVersion | None:
    """Return the driver, or None where there is none that works. Initialises no GPU."""
    found = given or sources()
    with nvml.session(found.nvml) as binding:
        version = nvml.driver_version(binding) if binding else None
        cuda = _cuda_version(found.cuda) or (nvml.cuda_version(binding) if binding else None)
    return DriverVersion(version=version or "", cuda=cuda) if cuda else None


def _cuda_version(cuda: LibCuda | None) -> tuple[int, int] | None:
    try:
        version = cuda.version() if cuda else (0, 0)
    except CudaError:
        return None
    return version if version > (0, 0) else None  # 0 is what a library without a driver below it answers


def gpus(given: Sources | None = None) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA shows to this process, in CUDA's order; empty where there are none."""
    found = given or sources()
    if found.cuda is None:
        return ()
    try:
        count = found.cuda.count()
    except CudaError:
        return ()
    with nvml.session(found.nvml) as binding:
        return tuple(gpu for index in range(count) if (gpu := _gpu(found.cuda, binding, index)) is not None)


def _gpu(cuda: LibCuda, binding: Any, index: int) -> Gpu | None:  # noqa: ANN401 - the binding ships no types
    try:
        uuid = cuda.uuid(index)
        major = cuda.attribute(libcuda.CAPABILITY_MAJOR, index)
        return Gpu(
            index=index,
            name=cuda.name(index),
            uuid=uuid,
            compute_capability=10 * major + cuda.attribute(libcuda.CAPABILITY_MINOR, index),
            sm_count=cuda.attribute(libcuda.SM_COUNT, index),
            l2_bytes=cuda.attribute(libcuda.L2_BYTES, index),
            shared_bytes=cuda.attribute(libcuda.SHARED_OPTIN_BYTES, index),
            memory_bytes=cuda.memory_bytes(index),
            memory_gbps=_memory_gbps(cuda, index),
            power_w=nvml.power_limit_w(binding, uuid) if binding else 0,
        )
    except CudaError:
        return None  # a GPU that fell off the bus still counts, and answers nothing


def _memory_gbps(cuda: LibCuda, index: int) -> int:
    """Return the peak bandwidth in GB/s, 0 if untold.

    Two transfers a clock, times the clock, times the bus in bytes: 'Theoretical Bandwidth Calculation' of the CUDA C++
    Best Practices Guide.
    """
    try:
        clock_khz = cuda.attribute(libcuda.MEMORY_CLOCK_KHZ, index)
        bus_bits = cuda.attribute(libcuda.MEMORY_BUS_BITS, index)
    except CudaError:
        return 0
    return round(2 * clock_khz * 1e3 * (bus_bits / 8) / 1e9)
