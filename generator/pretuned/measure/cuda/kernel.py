"""A loaded candidate: its functions on the device, launched with packed arguments through CuPy's driver binding."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from pretuned.measure.arena import Arena
from pretuned.measure.cuda.launching import driver, enqueue
from pretuned.measure.launch import Launch, Scalar, packed
from pretuned.measure.machine import Poisoned, Refused
from pretuned.outcome import LaunchError

STATIC_SHARED_BYTES: Final = 48 * 1024  # what a block gets without asking: CUDA C++ Programming Guide, 9.0
# What the driver answers when it refuses a launch or an image and the context lives on: cuda.h, CUresult.
REFUSALS: Final = {
    "CUDA_ERROR_INVALID_VALUE",
    "CUDA_ERROR_INVALID_IMAGE",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_NOT_FOUND",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "CUDA_ERROR_OUT_OF_MEMORY",
}


def judged(error: Exception) -> Refused | Poisoned:
    """Return what a CUDA error means for the process: a refusal that leaves it whole, or a lost context."""
    text = str(error)
    if any(name in text for name in REFUSALS) or "cudaErrorInvalidConfiguration" in text:
        return Refused(LaunchError(message=text))
    return Poisoned(text)


class Kernel:
    """The launches of one candidate at one problem, ready for any set of buffers.

    `initialised` names the buffers that a call sets to zero first; `scratch` are sets of the kernel's own.

    Raises Refused where the driver takes neither the image nor the launch, Poisoned where the context is lost.
    """

    def __init__(
        self,
        image: bytes,
        launches: Sequence[Launch],
        scalars: Sequence[Scalar],
        *,
        initialised: frozenset[str] = frozenset(),
        scratch: Arena | None = None,
    ) -> None:
        self.initialised = initialised
        self.scratch = scratch
        self.launches = tuple(launches)
        self._scalars = {scalar.name: packed(scalar) for scalar in scalars}
        try:
            self._module = driver.moduleLoadData(image)
            self._functions = [driver.moduleGetFunction(self._module, launch.function) for launch in self.launches]
            for function, launch in zip(self._functions, self.launches, strict=True):
                self._fit(function, launch)
        except driver.CUDADriverError as error:
            raise judged(error) from None

    def _fit(self, function: int, launch: Launch) -> None:
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        limit = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)
        if threads > limit:
            message = f"{launch.function}: a block of {threads} threads; its registers or launch bounds allow {limit}"
            raise Refused(LaunchError(message=message))
        if launch.shared_bytes > STATIC_SHARED_BYTES:
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(function, attribute, launch.shared_bytes)

    def launch(self, addresses: Mapping[str, int], stream: int) -> None:
        """Enqueue the launches on `stream` for buffers at `addresses`; a grid with a zero launches nothing."""
        for function, launch in zip(self._functions, self.launches, strict=True):
            if 0 in launch.grid:
                continue
            values = [
                struct.pack("Q", addresses[name]) if name in addresses else self._scalars[name]
                for name in launch.arguments
            ]
            try:
                enqueue(function, launch.grid, launch.block, launch.shared_bytes, stream, values)
            except driver.CUDADriverError as error:
                raise judged(error) from None

    def unload(self) -> None:
        """Free the module on the device."""
        driver.moduleUnload(self._module)
