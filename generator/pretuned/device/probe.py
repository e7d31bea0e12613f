"""Facts about the driver and its GPUs, found without CuPy and without a CUDA context.

libcuda lists the GPUs that CUDA will show to this process, in CUDA's order. It honours CUDA_VISIBLE_DEVICES,
CUDA_DEVICE_ORDER and MIG by itself, so nothing here parses them. NVML adds the driver's version and the power limit.
Where there is no driver both answers are empty, and nothing is raised. NVML may wait for ever for a GPU that is broken:
it is asked in a thread of its own, and what it has not answered in time is unknown.
"""

from __future__ import annotations

import ctypes
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import pynvml

from pretuned.runtime.cuda_majors import OLDEST
from pretuned.runtime.driver import (
    CAPABILITY_MAJOR,
    CAPABILITY_MINOR,
    L2_BYTES,
    SHARED_OPTIN_BYTES,
    SM_COUNT,
    DeviceQueries,
    DriverError,
    load_libcuda,
)

NVML_S: Final = 5.0  # for all answers of NVML, which take milliseconds
_waiting: Final[list[threading.Thread]] = []  # the last that asked NVML, which may wait for its answer still


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverVersion:
    """The NVIDIA driver: its version, such as `580.159.04` (empty if unknown), and the CUDA version it supports."""

    version: str
    cuda: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU that CUDA shows to this process. `index` is its CUDA ordinal, `uuid` has no prefix.

    `shared_bytes` is the shared memory that a block may opt in to, `memory_gbps` the peak bandwidth in GB/s;
    `power_w` is the enforced limit in W. The last two are 0 where the driver does not report them.
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
class SilentGpu:
    """A GPU that CUDA counts and that answers nothing, as one that fell off the bus; `reason` is the driver's word."""

    index: int
    reason: str


class LibCuda(DeviceQueries):
    """Queries to libcuda. No context is made, so no memory of a GPU is taken, and a child may choose its own device."""

    def version(self) -> tuple[int, int]:
        """Return the CUDA version that the driver supports, such as (13, 0)."""
        number = ctypes.c_int()
        self.ask("cuDriverGetVersion", ctypes.byref(number))
        return _cuda(number.value)

    def count(self) -> int:
        """Initialise the driver and return how many GPUs CUDA shows to this process."""
        number = ctypes.c_int()
        self.ask("cuInit", ctypes.c_uint(0))
        self.ask("cuDeviceGetCount", ctypes.byref(number))
        return number.value

    def uuid(self, ordinal: int) -> str:
        """Return the UUID of the GPU, or of the MIG slice that stands for one, as 8-4-4-4-12 hexadecimal digits."""
        raw = (ctypes.c_ubyte * 16)()
        self.ask("cuDeviceGetUuid_v2", ctypes.byref(raw), ctypes.c_int(self._device(ordinal)))
        return str(uuid.UUID(bytes=bytes(raw)))

    def memory_bytes(self, ordinal: int) -> int:
        """Return the memory that CUDA can allocate from."""
        size = ctypes.c_size_t()
        self.ask("cuDeviceTotalMem_v2", ctypes.byref(size), ctypes.c_int(self._device(ordinal)))
        return size.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where facts come from: a loaded libcuda, and a binding like pynvml. Tests bring their own."""

    cuda: LibCuda | None
    nvml: Any


def sources() -> Sources:
    """Return this machine's sources."""
    try:
        return Sources(cuda=LibCuda(load_libcuda()), nvml=pynvml)
    except OSError:
        return Sources(cuda=None, nvml=pynvml)


def too_old(driver: DriverVersion) -> str:
    """Return why CuPy cannot use this driver, or an empty string where it can."""
    if driver.cuda[0] >= OLDEST.number:
        return ""
    major, minor = driver.cuda
    return f"the driver supports CUDA {major}.{minor}, and CuPy needs one that supports CUDA {OLDEST.number} or newer"


def driver(given: Sources | None = None) -> DriverVersion | None:
    """Return the driver, or None where there is none that works. Initialises no GPU."""
    found = given or sources()
    versions: dict[str, Any] = {}

    def ask() -> None:
        with _nvml_session(found.nvml) as binding:
            versions["driver"] = _driver_version(binding) if binding else None
            versions["cuda"] = _nvml_cuda_version(binding) if binding else None

    _in_time(ask)
    cuda = _cuda_version(found.cuda) or versions.get("cuda")
    return DriverVersion(version=versions.get("driver") or "", cuda=cuda) if cuda else None


def _cuda_version(cuda: LibCuda | None) -> tuple[int, int] | None:
    try:
        version = cuda.version() if cuda else (0, 0)
    except DriverError:
        return None
    return version if version > (0, 0) else None  # 0 is what a library without a driver below it answers


def gpus(given: Sources | None = None) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA shows to this process and that answer, in CUDA's order; empty where there are none."""
    found = given or sources()
    listed = [gpu for gpu in _counted(found) if isinstance(gpu, Gpu)]
    limits_w: dict[str, int] = {}

    def ask() -> None:
        with _nvml_session(found.nvml) as binding:
            for gpu in listed if binding else ():
                limits_w[gpu.uuid] = _power_limit_w(binding, gpu.uuid)

    _in_time(ask)
    return tuple(replace(gpu, power_w=limits_w.get(gpu.uuid, 0)) for gpu in listed)


def silent_gpus(given: Sources | None = None) -> tuple[SilentGpu, ...]:
    """Return the GPUs that CUDA counts in this process and that answer nothing, in CUDA's order."""
    return tuple(gpu for gpu in _counted(given or sources()) if isinstance(gpu, SilentGpu))


def _counted(found: Sources) -> tuple[Gpu | SilentGpu, ...]:
    if found.cuda is None:
        return ()
    try:
        count = found.cuda.count()
    except DriverError:
        return ()
    return tuple(_gpu(found.cuda, index) for index in range(count))


def _in_time(ask: Callable[[], None]) -> None:
    """Ask for what a GPU that is broken may never answer; whoever asks goes on after NVML_S seconds, and waits once."""
    if any(thread.is_alive() for thread in _waiting):
        return
    thread = threading.Thread(target=ask, name="nvml", daemon=True)
    thread.start()
    thread.join(NVML_S)
    _waiting[:] = [thread]


def _gpu(cuda: LibCuda, index: int) -> Gpu | SilentGpu:
    try:
        major = cuda.attribute(CAPABILITY_MAJOR, index)
        return Gpu(
            index=index,
            name=cuda.name(index),
            uuid=cuda.uuid(index),
            compute_capability=10 * major + cuda.attribute(CAPABILITY_MINOR, index),
            sm_count=cuda.attribute(SM_COUNT, index),
            l2_bytes=cuda.attribute(L2_BYTES, index),
            shared_bytes=cuda.attribute(SHARED_OPTIN_BYTES, index),
            memory_bytes=cuda.memory_bytes(index),
            memory_gbps=cuda.memory_gbps(index),
            power_w=0,
        )
    except DriverError as error:
        return SilentGpu(index=index, reason=str(error))


def _cuda(number: int) -> tuple[int, int]:
    """Return (13, 0) for 13000."""
    return number // 1000, number % 1000 // 10


# NVML has what only it reports: the driver's own version, and power limits. A container may lack the library, and a MIG
# slice may refuse a query for want of permission: every answer may be missing, and nothing is raised.


@contextmanager
def _nvml_session(nvml: Any) -> Iterator[Any]:  # noqa: ANN401 - the binding ships no types
    """Initialise NVML and yield the binding, or None where NVML cannot be used; shuts it down at the end."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield None
        return
    try:
        yield nvml
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _driver_version(nvml: Any) -> str | None:  # noqa: ANN401 - the binding ships no types
    """Return the driver's version, such as `580.159.04`."""
    try:
        return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return None


def _nvml_cuda_version(nvml: Any) -> tuple[int, int] | None:  # noqa: ANN401 - the binding ships no types
    """Return the CUDA version that the driver supports, such as (13, 0)."""
    try:
        number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
    except nvml.NVMLError:
        return None
    return _cuda(number)


def _power_limit_w(nvml: Any, uuid: str) -> int:  # noqa: ANN401 - the binding ships no types
    """Return the enforced power limit in W of the GPU with CUDA's `uuid`, 0 if untold; a MIG slice has its GPU's."""
    for prefix in ("GPU-", "MIG-"):
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(prefix + uuid)
            if prefix == "MIG-":
                handle = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            return round(int(nvml.nvmlDeviceGetEnforcedPowerLimit(handle)) / 1000)
        except nvml.NVMLError:
            continue
    return 0
