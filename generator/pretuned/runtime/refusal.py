"""Why a configuration cannot run a problem on a device."""

from __future__ import annotations

from .devices import runs
from .limits import BLOCK_LIMITS, GRID_LIMITS, registers_taken
from .problem import evaluate, extent, holds, sizes_of
from .records import EntryPoint
from .scalars import packs
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .devices import Device
    from .problem import Extent, Operands
    from .records import ShippedConfiguration, SourceBinaries
    from .table import Implementation, Kernel, Launch

    Aligned = Callable[[str, int], bool]  # whether an argument's address is a multiple of so many bytes
    Extents = list[tuple[Extent, Extent, int]]  # grid, block and dynamic shared bytes of each launch


def refusal(
    kernel: Kernel, entry: ShippedConfiguration, known: Operands, device: Device, aligned: Aligned, extents: Extents
) -> str | None:
    """Return why a configuration cannot run the problem on the device, or None; then `extents` has its launches."""
    implementation = kernel.implementations[entry.implementation]
    for text, condition in implementation.where:
        if not holds(condition, known):
            return f"'{text}' does not hold"
    for name, size in entry.align.items():
        if not aligned(name, size):
            return f"{name} is not aligned to {size} bytes"
    if (reason := _without_value(kernel, implementation, known)) is not None:
        return reason
    for launch in implementation.launches:
        try:
            block, shared_bytes = extent(launch.block, known), int(evaluate(launch.shared, known))
            grid = extent(launch.grid, known)
        except ArithmeticError as error:
            return f"what it launches cannot be worked out ({error})"
        if (reason := _misfit(kernel.binaries[entry.source], launch, grid, block, shared_bytes, device)) is not None:
            return reason
        extents.append((grid, block, shared_bytes))
    return None


def _without_value(kernel: Kernel, implementation: Implementation, known: Operands) -> str | None:
    """Return which scratch buffer or derived argument cannot be worked out, or passed as its type; or None."""
    for buffer in implementation.scratch:
        try:
            sizes_of(buffer.shape, known)
        except ArithmeticError as error:
            return f"the size of its scratch '{buffer.name}' cannot be worked out ({error})"
    for argument, value in kernel.derived if implementation.call is None else ():
        try:
            found = evaluate(value, known)
        except ArithmeticError as error:
            return f"its argument '{argument.name}' cannot be worked out ({error})"
        if not packs(argument.dtype, found):
            return f"its argument '{argument.name}' is {found}, and {argument.dtype} is {DTYPES[argument.dtype].values}"
    return None


def _misfit(
    source: SourceBinaries, launch: Launch, grid: Extent, block: Extent, shared_bytes: int, device: Device
) -> str | None:
    """Return what a launch takes more of than the device has, or None."""
    x, y, z = block
    if not (1 <= x <= BLOCK_LIMITS[0] and 1 <= y <= BLOCK_LIMITS[1] and 1 <= z <= BLOCK_LIMITS[2]):
        axis, size, limit = next(
            one for one in zip("xyz", block, BLOCK_LIMITS, strict=True) if not 1 <= one[1] <= one[2]
        )
        return f"a block of {size} threads along {axis}, and 1 to {limit} are possible"
    threads = x * y * z
    if not 0 < threads <= device.max_threads:
        return f"{threads} threads a block, and the device takes 1 to {device.max_threads}"
    resources = _resources(source, launch.function, device.compute_capability)
    shared_bytes += resources.shared_bytes
    if 0 < device.shared_bytes < shared_bytes:
        return f"{shared_bytes} bytes of shared memory a block, and the device has {device.shared_bytes}"
    taken = registers_taken(resources.registers, threads)
    if taken > device.registers:
        return f"{taken} registers a block, and the device has {device.registers}"
    x, y, z = grid
    if not (0 <= x <= GRID_LIMITS[0] and 0 <= y <= GRID_LIMITS[1] and 0 <= z <= GRID_LIMITS[2]):
        axis, size, limit = next(one for one in zip("xyz", grid, GRID_LIMITS, strict=True) if not 0 <= one[1] <= one[2])
        return f"a grid of {size} blocks along {axis}, and 0 to {limit} are possible"
    return None


def _resources(source: SourceBinaries, function: str, compute_capability: int) -> EntryPoint:
    """Return what an entry point takes in the cubin for a device; zeros where that is not known."""
    found = source.taken.get((function, compute_capability))
    if found is None:
        cubins = [image for image in source.images if image.architecture.startswith("sm_")]
        fitting = [image for image in cubins if runs(image.architecture, compute_capability)]
        best = max(fitting, key=lambda image: int(image.architecture.removeprefix("sm_").rstrip("a")), default=None)
        found = best.entry_points.get(function, EntryPoint()) if best else EntryPoint()
        source.taken[function, compute_capability] = found
    return found
