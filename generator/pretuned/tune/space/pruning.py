"""Candidates that need no launch: what a compiled module takes against what the device has. Pure."""

from __future__ import annotations

import math

from pretuned.compile.result import Binary
from pretuned.measure.launch import BoundLaunch, launches, residency_by
from pretuned.outcome import LaunchFailed
from pretuned.runtime.limits import REGISTERS, registers_taken
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Problem


def refusal(binary: Binary, launches: tuple[BoundLaunch, ...], device: DeviceFacts) -> LaunchFailed | None:
    """Return why not one block of a launch fits on an SM, or None."""
    for launch in launches:
        used = binary.resources.get(launch.function)
        if used is None:  # not of NVRTC: the host device has no such limits
            continue
        registers = registers_taken(used.registers, math.prod(launch.block))
        if registers > REGISTERS:
            return LaunchFailed(
                message=f"{launch.function}: a block takes {registers} registers; there are {REGISTERS}"
            )
        shared_bytes = used.shared_bytes + launch.shared_bytes
        if shared_bytes > device.shared_bytes:
            message = f"{launch.function}: a block takes {shared_bytes} bytes of shared memory, static and dynamic"
            return LaunchFailed(message=f"{message}; this device gives it {device.shared_bytes}")
    return None


class Refusals:
    """Why a device does not take the launches of configurations of `spec`, each worked out once a problem."""

    def __init__(self, spec: KernelSpec, device: DeviceFacts) -> None:
        self._spec = spec
        self._device = device
        self._known: dict[tuple[Problem, Configuration], LaunchFailed | None] = {}

    def of(self, problem: Problem, configuration: Configuration, binary: Binary) -> LaunchFailed | None:
        """Return why the device does not take the launches of a configuration at `problem`, or None."""
        key, device = (problem, configuration), self._device
        if key not in self._known:
            planned = launches(self._spec, problem, configuration, device, residency_by(device, binary.resources))
            self._known[key] = planned if isinstance(planned, LaunchFailed) else refusal(binary, planned, device)
        return self._known[key]


def spills(binary: Binary) -> bool:
    """Whether an entry point keeps registers in memory."""
    return any(used.spill_bytes for used in binary.resources.values())
