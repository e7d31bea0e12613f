"""GPUs, through CUDA: the driver shows them, NVRTC compiles for them, and CuPy launches."""

from __future__ import annotations

import importlib.util
from typing import Final

from pretuned.backends import FoundDevice, SilentDevice
from pretuned.compile.nvrtc import INSTALL, NVRTC
from pretuned.compile.result import Toolchain
from pretuned.device import probe
from pretuned.device.monitor import DeviceMonitor, monitor_of
from pretuned.errors import DeviceError
from pretuned.measure.runner import Runner
from pretuned.record.rows import TunedDevice
from pretuned.render import Source

SPARES: Final = 2  # processes with the GPU ready: one takes 1.5 s to start, and several in a row may be lost
RESTART: Final = "`nvidia-smi` shows its state; restart it, or leave it out of CUDA_VISIBLE_DEVICES"


class CudaBackend:
    """The GPUs that CUDA shows, by its ordinals."""

    name = "cuda"
    ships = True
    packages = ()  # they depend on driver and lock: see `pretuned.build.requirements`
    toolchain: Toolchain = NVRTC

    def label(self, index: int) -> str:
        """Return `GPU 0`."""
        return f"GPU {index}"

    def find(self, index: int) -> FoundDevice | SilentDevice | None:
        """Return the GPU with CUDA's ordinal `index`; None if there is no such GPU, or no driver."""
        driver, gpu = probe.driver(), _gpu(index)
        if gpu is None:
            reasons = (other.reason for other in probe.silent_gpus() if other.index == index)
            return next((SilentDevice(reason=reason, remedy=RESTART) for reason in reasons), None)
        if driver is None:
            return None
        return FoundDevice(record=record_of(gpu), driver=driver.version)

    def lock_name(self, index: int) -> str:
        """Return the GPU's UUID, since processes may number their GPUs differently."""
        gpu = _gpu(index)
        return f"gpu-{gpu.uuid if gpu is not None and gpu.uuid else index}"

    def require(self) -> None:
        """Raise DeviceError if the driver is too old for CuPy, or CuPy is missing."""
        if (driver := probe.driver()) is not None and (reason := probe.too_old(driver)):
            raise DeviceError(reason)
        if importlib.util.find_spec("cupy") is None:
            raise DeviceError(f"tuning needs CuPy: {INSTALL}")

    def runner(self, index: int) -> Runner:
        """Return a GPU in a child process, with others standing by."""
        return Runner(index=index, name=self.label(index), spares=SPARES)

    def monitor(self, index: int) -> DeviceMonitor | None:
        """Return a monitor through NVML, if that knows the GPU."""
        gpu = _gpu(index)
        return None if gpu is None else monitor_of(gpu.uuid)

    def refusal(self, source: Source) -> str | None:  # noqa: ARG002 - whatever it is
        """Return None: the compiler says what a GPU cannot run."""
        return None


def _gpu(index: int) -> probe.Gpu | None:
    return next((gpu for gpu in probe.gpus() if gpu.index == index), None)


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


BACKEND: Final = CudaBackend()
