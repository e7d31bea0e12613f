"""The host device: this machine's processor, which executes kernels that its C++ compiler has compiled."""

from __future__ import annotations

import importlib.util
from typing import Final

from pretuned.backends import FoundDevice
from pretuned.compile.host import CPP, gpu_only, no_compiler
from pretuned.compile.result import Toolchain
from pretuned.device import host
from pretuned.errors import DeviceError
from pretuned.measure.runner import Runner
from pretuned.record.rows import TunedDevice
from pretuned.render import Source

TARGET: Final = "pretuned.measure.host.machine:serve"
CANDIDATE_S: Final = 60.0  # the most that a candidate gets; on a GPU it takes milliseconds


class HostBackend:
    """The processor, as the only device: to try things out, and to find what is wrong with templates."""

    name = host.NAME
    ships = False
    packages = ("numpy>=1.26",)  # which CuPy brings along elsewhere
    toolchain: Toolchain = CPP

    def label(self, index: int) -> str:
        """Return `host device`, of which there is one."""
        return f"host device {index}" if index else "host device"

    def find(self, index: int) -> FoundDevice | None:
        """Return the processor; None for any index but 0."""
        record = TunedDevice(
            name=self.name,
            sm_count=host.FACTS.sm_count,
            compute_capability=host.FACTS.compute_capability,
            l2_bytes=host.FACTS.l2_bytes,
            shared_bytes=host.FACTS.shared_bytes,
            memory_bytes=host.memory_bytes(),
            memory_gbps=0,
            power_w=0,
        )
        return None if index else FoundDevice(record=record, driver=host.processor())

    def lock_name(self, index: int) -> str:  # noqa: ARG002 - there is one
        """Return `host`."""
        return self.name

    def require(self) -> None:
        """Raise DeviceError without NumPy or a C++ compiler."""
        if importlib.util.find_spec("numpy") is None:
            raise DeviceError("the host device needs NumPy: pip install numpy")
        if self.toolchain.installed() is None:
            raise DeviceError(no_compiler())

    def runner(self, index: int) -> Runner:  # noqa: ARG002 - there is one
        """Return a process that executes kernels."""
        return Runner(TARGET, name="the host device", candidate_s=CANDIDATE_S)

    def monitor(self, index: int) -> None:
        """Return None: its times are not compared with others."""

    def refusal(self, source: Source) -> str | None:
        """Return which line only a GPU can run, if there is one."""
        return gpu_only(source)


BACKEND: Final = HostBackend()
