"""Why a configuration cannot run a problem on a device."""

from __future__ import annotations

import math

from .devices import DeviceOfLaunch, runs
from .launching import NO_CLUSTER
from .limits import BLOCK_LIMITS, CLUSTERS_FROM, GRID_LIMITS, LARGEST_CLUSTER, blocks_of_sm, registers_taken
from .problem import evaluate, extent, holds, read_by, sizes_of
from .records import EntryPoint
from .tensor_maps import MAPS_FROM, misfit
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .devices import Device
    from .problem import Extent, Operands
    from .records import ShippedConfiguration, SourceBinaries
    from .table import Implementation, Kernel, Launch

    Aligned = Callable[[str, int], bool]  # whether an argument's address is a multiple of so many bytes
    # Grid, block and dynamic shared bytes of each launch, and the blocks of its clusters.
    Extents = list[tuple[Extent, Extent, int, Extent]]
    Block = tuple[Extent, int, Extent, str | None]  # a block, its shared bytes, its cluster, why it cannot run
    # The most blocks that a device holds at once: of a source, a launch of it, its block, shared bytes and cluster.
    Residency = Callable[[str, Launch, Extent, int, Extent], int]


def refusal(
    kernel: Kernel,
    entry: ShippedConfiguration,
    known: Operands,
    device: Device,
    aligned: Aligned,
    extents: Extents,
    residency: Residency | None = None,
) -> str | None:
    """Return why a configuration cannot run the problem on the device, or None; then `extents` has its launches.

    Without `residency`, what the device holds at once is worked out by what the table says of its binaries.
    """
    implementation = kernel.implementations[entry.implementation]
    for text, condition in implementation.where:
        if not holds(condition, known):
            return f"'{text}' does not hold"
    for name, size in entry.align.items():
        if not aligned(name, size):
            return f"{name} is not aligned to {size} bytes"
    reason = _without_value(kernel, implementation, known) or _unmapped(kernel, implementation, known, device)
    if reason is not None:
        return reason
    for launch in implementation.launches:
        try:
            found = _extents(kernel, entry, launch, known, device, residency or _estimate(kernel, device))
        except ArithmeticError as error:
            return f"what it launches cannot be worked out ({error})"
        if isinstance(found, str):
            return found
        extents.append(found)
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
        if not DTYPES[argument.dtype].packs(found):
            return f"its argument '{argument.name}' is {found}, and {argument.dtype} is {DTYPES[argument.dtype].values}"
    return None


def _unmapped(kernel: Kernel, implementation: Implementation, known: Operands, device: Device) -> str | None:
    """Return why an implementation's tensor maps cannot be made, or None."""
    if not implementation.tensor_maps:
        return None
    if 0 < device.compute_capability < MAPS_FROM:
        here = f"{device.compute_capability / 10:.1f}"
        return f"tensor maps need compute capability {MAPS_FROM / 10:.1f}, and the device has {here}"
    arrays = {array.name: array for array in kernel.arrays}
    for one in implementation.tensor_maps:
        array = arrays[one.array]
        try:
            shape, box = sizes_of(array.shape, known), sizes_of(one.box, known)
        except ArithmeticError as error:
            return f"the box of its tensor map '{one.name}' cannot be worked out ({error})"
        dtype, strides = str(known.get(array.dtype, array.dtype)), [known[name] for name in array.strides]
        if (reason := misfit(dtype, shape, box, one.swizzle, strides, written=array.role != "in")) is not None:
            return f"its tensor map '{one.name}' has {reason}"
    return None


def _extents(
    kernel: Kernel,
    entry: ShippedConfiguration,
    launch: Launch,
    known: Operands,
    device: Device,
    residency: Residency,
) -> tuple[Extent, Extent, int, Extent] | str:
    """Return grid, block, shared bytes and cluster of a launch, or why the device does not take them.

    Raises ArithmeticError where one of them has no value.
    """
    found: Block = entry.blocks.get((launch, device)) or _block(kernel, entry, launch, known, device)
    block, shared_bytes, cluster, reason = found
    if reason is not None:
        return reason
    if not _asks(launch, cluster):
        grid = extent(launch.grid, known)
        reason = _grid_misfit(grid)
    else:
        held = residency(entry.source, launch, block, shared_bytes, cluster)
        grid = extent(launch.grid, {**known, "device": DeviceOfLaunch(device, held)})
        reason = _grid_misfit(grid) or _residency_misfit(launch, grid, cluster, held, device)
    return reason or (grid, block, shared_bytes, cluster)


def _block(kernel: Kernel, entry: ShippedConfiguration, launch: Launch, known: Operands, device: Device) -> Block:
    """Return block, shared bytes and cluster of a launch, and why the device does not take them, or None.

    It is kept for other problems where it does not depend on the problem.
    """
    block, shared_bytes = extent(launch.block, known), int(evaluate(launch.shared, known))
    cluster = NO_CLUSTER if launch.cluster is None else extent(launch.cluster, known)
    binaries = kernel.binaries[entry.source]
    reason = _misfit(binaries, launch, block, shared_bytes, device) or _cluster_misfit(cluster, device)
    found = block, shared_bytes, cluster, reason
    formulas = [launch.block, launch.shared, *([launch.cluster] if launch.cluster else [])]
    if device.ordinal >= 0 and {name for one in formulas for name in read_by(one)} <= entry.operands.keys():
        entry.blocks[launch, device] = found
    return found


def _asks(launch: Launch, cluster: Extent) -> bool:
    """Return whether it matters how many blocks of a launch a device holds at once."""
    return launch.cooperative or cluster != NO_CLUSTER or "resident_blocks" in launch.grid.__code__.co_names


def _estimate(kernel: Kernel, device: Device) -> Residency:
    """Return what says how many blocks a device holds at once, by what the table has of its binaries."""

    def held(source: str, launch: Launch, block: Extent, shared_bytes: int, cluster: Extent) -> int:
        taken = _resources(kernel.binaries[source], launch.function, device.compute_capability)
        of_sm = blocks_of_sm(
            device.compute_capability,
            device.shared_bytes,
            threads=math.prod(block),
            registers=taken.registers,
            shared_bytes=taken.shared_bytes + shared_bytes,
        )
        together = math.prod(cluster)
        return of_sm * device.sm_count // together * together

    return held


def _cluster_misfit(cluster: Extent, device: Device) -> str | None:
    """Return why the device has no such clusters, or None."""
    if cluster == NO_CLUSTER:
        return None
    blocks = math.prod(cluster)
    if min(cluster) < 1 or blocks > LARGEST_CLUSTER:
        return f"a cluster of {' x '.join(map(str, cluster))} blocks, and 1 to {LARGEST_CLUSTER} are possible"
    if blocks > 1 and 0 < device.compute_capability < CLUSTERS_FROM:
        here = f"{device.compute_capability / 10:.1f}"
        return f"clusters need compute capability {CLUSTERS_FROM / 10:.1f}, and the device has {here}"
    return None


def _residency_misfit(launch: Launch, grid: Extent, cluster: Extent, held: int, device: Device) -> str | None:
    """Return why the device does not take a grid in clusters, or all of a grid at once; None if it does."""
    for axis, size, together in zip("xyz", grid, cluster, strict=True):
        if size % together:
            return f"a grid of {size} blocks along {axis}, which is not a multiple of the cluster's {together}"
    blocks, together = math.prod(grid), math.prod(cluster)
    if device.sm_count and held < together:  # a grid of as many blocks as it holds would launch nothing
        of = f"a cluster of {together} blocks" if together > 1 else "a block"
        return f"{of} that the device cannot hold, by its registers and shared memory"
    if device.sm_count and launch.cooperative and blocks > held:
        return f"a cooperative grid of {blocks} blocks, and the device holds {held} at once"
    return None


def _misfit(source: SourceBinaries, launch: Launch, block: Extent, shared_bytes: int, device: Device) -> str | None:
    """Return what a block takes more of than the device has, or None."""
    x, y, z = block
    if not (1 <= x <= BLOCK_LIMITS[0] and 1 <= y <= BLOCK_LIMITS[1] and 1 <= z <= BLOCK_LIMITS[2]):
        axis, size, limit = next(
            one for one in zip("xyz", block, BLOCK_LIMITS, strict=True) if not 1 <= one[1] <= one[2]
        )
        return f"a block of {size} threads along {axis}, and 1 to {limit} are possible"
    threads = x * y * z
    if not 0 < threads <= device.max_threads:
        return f"{threads} threads a block, and the device takes 1 to {device.max_threads}"
    if shared_bytes < 0:
        return f"{shared_bytes} bytes of dynamic shared memory a block, and 0 or more are possible"
    resources = _resources(source, launch.function, device.compute_capability)
    shared_bytes += resources.shared_bytes
    if 0 < device.shared_bytes < shared_bytes:
        return f"{shared_bytes} bytes of shared memory a block, and the device has {device.shared_bytes}"
    taken = registers_taken(resources.registers, threads)
    if taken > device.registers:
        return f"{taken} registers a block, and the device has {device.registers}"
    return None


def _grid_misfit(grid: Extent) -> str | None:
    """Return why CUDA does not take a grid, or None."""
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
