"""NVML: what only it tells, the driver's own version and power limits. Every answer may be missing.

A container may lack the library, a MIG slice may refuse a query for want of permission; neither is worth an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def session(nvml: Any) -> Iterator[Any]:  # noqa: ANN401 - the binding ships no types
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


def driver_version(nvml: Any) -> str | None:  # noqa: ANN401 - the binding ships no types
    """Return the driver's version, such as `580.159.04`."""
    try:
        return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return None


def cuda_version(nvml: Any) -> tuple[int, int] | None:  # noqa: ANN401 - the binding ships no types
    """Return the CUDA version that the driver supports, such as (13, 0)."""
    try:
        number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
    except nvml.NVMLError:
        return None
    return number // 1000, number % 1000 // 10


def power_limit_w(nvml: Any, uuid: str) -> int:  # noqa: ANN401 - the binding ships no types
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
