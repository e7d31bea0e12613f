"""A loaded candidate: its functions on the device, launched with packed arguments through CuPy's driver binding."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from pretuned.measure.cuda.launching import ConfiguredLaunch, PackedArguments, driver, libcuda
from pretuned.measure.launch import BoundLaunch, BoundScalar
from pretuned.measure.machine import Poisoned, Refused
from pretuned.measure.regions import CallBuffers
from pretuned.outcome import LaunchFailed
from pretuned.runtime.driver import NON_PORTABLE_CLUSTER, DriverError
from pretuned.runtime.launching import NO_CLUSTER
from pretuned.runtime.limits import PORTABLE_CLUSTER

# What the driver answers when it refuses a launch or an image and the context lives on: cuda.h, CUresult.
REFUSALS: Final = {
    "CUDA_ERROR_INVALID_VALUE",
    "CUDA_ERROR_INVALID_IMAGE",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_NOT_FOUND",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE",
    "CUDA_ERROR_NOT_SUPPORTED",
}


def judged(error: Exception) -> Refused | Poisoned:
    """Return what a CUDA error means for the process: a refusal that leaves it whole, or a lost context."""
    text = str(error)
    if any(name in text for name in REFUSALS) or "cudaErrorInvalidConfiguration" in text:
        return Refused(LaunchFailed(message=text))
    return Poisoned(text)


class LoadedBinary:
    """A loaded image and its functions; raises Refused where the driver does not take it."""

    def __init__(self, image: bytes) -> None:
        try:
            self._module = driver.moduleLoadData(image)
        except driver.CUDADriverError as error:
            raise judged(error) from None
        self._functions: dict[str, int] = {}

    def function(self, launch: BoundLaunch) -> int:
        """Return the function that `launch` names, ready for its block; raises Refused."""
        name = launch.function
        try:
            if name not in self._functions:
                self._functions[name] = driver.moduleGetFunction(self._module, name)
            function = self._functions[name]
            self._fit(function, launch)
        except driver.CUDADriverError as error:
            raise judged(error) from None
        return function

    def held(self, launch: BoundLaunch, sm_count: int) -> int:
        """Return the most blocks of `launch` that a device of so many SMs holds at once; raises Refused or Poisoned."""
        function = self.function(launch)
        try:
            if launch.cluster == NO_CLUSTER:
                return libcuda().resident_blocks(function, math.prod(launch.block), launch.shared_bytes) * sm_count
            configured = ConfiguredLaunch(launch, stream=0)
            return libcuda().resident_clusters(function, configured.content) * math.prod(launch.cluster)
        except DriverError as error:
            raise judged(error) from None

    def _fit(self, function: int, launch: BoundLaunch) -> None:
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        limit = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)
        if threads > limit:
            message = f"{launch.function}: a block of {threads} threads; its registers or launch bounds allow {limit}"
            raise Refused(LaunchFailed(message=message))
        dynamic = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES  # at first 48 KiB less what is static
        if launch.shared_bytes > driver.funcGetAttribute(dynamic, function):
            driver.funcSetAttribute(function, dynamic, launch.shared_bytes)
        if math.prod(launch.cluster) > PORTABLE_CLUSTER:
            driver.funcSetAttribute(function, NON_PORTABLE_CLUSTER, 1)

    def unload(self) -> None:
        """Free it on the device."""
        driver.moduleUnload(self._module)


class CudaKernel:
    """The launches of one candidate at one problem, ready for its sets of buffers.

    Raises Refused where the driver does not take the launch, Poisoned where the context is lost.
    """

    captured = True  # in CUDA graphs
    most_calls: int | None = None  # that the host enqueues ahead of the device, where that is slow

    def __init__(
        self,
        module: LoadedBinary,
        launches: Sequence[BoundLaunch],
        scalars: Sequence[BoundScalar],
    ) -> None:
        self.module = module
        self._launches = [(module.function(launch), launch) for launch in launches if 0 not in launch.grid]
        self._scalars = {scalar.name: scalar for scalar in scalars}
        self._packed: dict[tuple[CallBuffers, int], list[PackedArguments]] = {}
        self._attributed = [bool(launch.attributes) for _, launch in self._launches]
        self._configured: dict[tuple[int, int], ConfiguredLaunch] = {}  # by stream and place among the launches

    def launch(self, buffers: CallBuffers, index: int, stream: int) -> None:
        """Enqueue the launches on `stream` for set `index`; a grid with a zero launches nothing."""
        for place in range(self.count):
            self.launch_one(place, buffers, index, stream)

    @property
    def count(self) -> int:
        """The number of its launches."""
        return len(self._launches)

    def overlapping(self, place: int) -> list[str]:
        """Return the arrays that a launch takes, if it may begin before what runs ahead of it has ended."""
        _, launch = self._launches[place]
        if not launch.overlap:
            return []
        held = {name: scalar.members for name, scalar in self._scalars.items()}
        return [one for name in launch.made_of for one in held.get(name, (name,))]

    def settled(self, place: int) -> bool:
        """Return whether what ran before the call has ended when a launch begins, even one that may overlap.

        So it is behind a launch of the same call that keeps plain order: that began when all before it had ended.
        """
        return place > 0 and not self._launches[place - 1][1].overlap

    def launch_one(self, place: int, buffers: CallBuffers, index: int, stream: int) -> None:
        """Enqueue one of the launches: what has attributes by cuLaunchKernelEx, which CuPy's binding lacks."""
        if (buffers, index) not in self._packed:
            self._packed[buffers, index] = self._pack(buffers.addresses[index])
        (function, launch), arguments = self._launches[place], self._packed[buffers, index][place]
        try:
            if self._attributed[place]:
                key = stream, place
                if key not in self._configured:
                    self._configured[key] = ConfiguredLaunch(launch, stream)
                self._configured[key].enqueue(function, arguments)
            else:
                driver.launchKernel(
                    function, *launch.grid, *launch.block, launch.shared_bytes, stream, arguments.address, 0
                )
        except (driver.CUDADriverError, DriverError) as error:
            raise judged(error) from None

    def _pack(self, addresses: Mapping[str, int]) -> list[PackedArguments]:
        packed = {name: scalar.pointing(addresses) for name, scalar in self._scalars.items()}
        packed |= {name: struct.pack("Q", address) for name, address in addresses.items()}
        found = []
        for _, launch in self._launches:
            try:
                maps = {one.name: one.encoded(libcuda(), addresses[one.array]) for one in launch.tensor_maps}
            except DriverError as error:
                raise judged(error) from None
            found.append(PackedArguments.of([(packed | maps)[name] for name in launch.arguments]))
        return found

    def unload(self) -> None:
        """Do nothing: the machine keeps modules for the next problem."""
