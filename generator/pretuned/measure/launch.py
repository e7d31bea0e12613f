"""What a call of a candidate launches: extents, shared memory and arguments, worked out for one problem. Pure."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pretuned.compile.gpu_only import GPU_ONLY
from pretuned.compile.result import Resources
from pretuned.measure.tensor_maps import BoundMap, bound_maps
from pretuned.outcome import LaunchFailed
from pretuned.runtime.launching import NO_CLUSTER, attributes
from pretuned.runtime.limits import (
    BLOCK_LIMITS,
    CLUSTERS_FROM,
    GRID_LIMITS,
    LARGEST_CLUSTER,
    MAX_THREADS,
)
from pretuned.runtime.records import Value
from pretuned.runtime.structs import Struct
from pretuned.runtime.types import DTYPES
from pretuned.spec import lists
from pretuned.spec.expressions import RESIDENT_BLOCKS, Expression, ExpressionError
from pretuned.spec.launch import LaunchSpec
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.scalars import PassedValue, derived_values, passed_values
from pretuned.spec.space import Configuration, DeviceFacts, Problem, dtype_of, environment, shape_of
from pretuned.spec.structs import layouts

NULL: Final = "uint64"  # what is passed for an array that a call leaves out: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """What lies in memory as an array: its element type and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.size * DTYPES[self.dtype].size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundBuffer(Elements):
    """An array of a call. `role` is in, out, inout or scratch."""

    name: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundScalar:
    """A value passed by value, with its element type, or its struct's name and layout.

    `members` are the arrays of a list, in order, whose addresses stand at the beginning of its value in a call.
    """

    name: str
    dtype: str
    value: PassedValue
    struct: Struct | None = None
    members: tuple[str, ...] = ()

    @property
    def packed(self) -> bytes:
        """The bytes of the value, as a kernel takes them."""
        if isinstance(self.value, int | float | complex):
            return DTYPES[self.dtype].packed(self.value)
        assert self.struct is not None  # of which it is a value
        return self.struct.packed(self.value)

    def pointing(self, addresses: Mapping[str, int]) -> bytes:
        """Return the bytes of a list for arrays at `addresses`."""
        found = struct.pack(f"{len(self.members)}Q", *(addresses[name] for name in self.members))
        return found + self.packed[len(found) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundLaunch:
    """One launch: `grid` and `block` in (x, y, z), `shared_bytes` of dynamic shared memory, arguments by name.

    `cluster` are the blocks of a cluster, (1, 1, 1) without one; `tensor_maps` those that its arguments name; for the
    others see `LaunchSpec`.
    """

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[str, ...]
    cluster: tuple[int, int, int] = NO_CLUSTER
    cooperative: bool = False
    overlap: bool = False
    tensor_maps: tuple[BoundMap, ...] = ()

    @property
    def made_of(self) -> tuple[str, ...]:
        """What its arguments are made of, each once: of a tensor map the array, else the argument itself."""
        mapped = {one.name: one.array for one in self.tensor_maps}
        return tuple(dict.fromkeys(mapped.get(name, name) for name in self.arguments))

    @property
    def attributes(self) -> bytes:
        """What the driver reads of it besides its extents; empty for a plain launch."""
        return attributes(self.cluster, cooperative=self.cooperative, overlap=self.overlap)


# The most blocks that a device holds at once, by what a launch is but for its grid.
Residency = Callable[[BoundLaunch], int]


def arrays(spec: KernelSpec, problem: Problem) -> tuple[BoundBuffer, ...]:
    """Return the arrays that a call of `spec` brings at `problem`, in launch order."""
    values, left_out = environment(spec, problem), absent(spec, problem)
    return tuple(
        BoundBuffer(
            name=argument.name,
            role=str(argument.role),
            dtype=dtype_of(spec, argument.dtype, problem.specialisation),
            shape=shape_of(argument, lists.surroundings(argument, values)),
        )
        for argument in spec.arrays
        if argument.name not in left_out and argument.place < lists.count_of(argument, values)
    )


def absent(spec: KernelSpec, problem: Problem) -> dict[str, str]:
    """Return the optional arrays that a call at `problem` leaves out, each with its element type."""
    specialisation = problem.specialisation
    return {one.name: dtype_of(spec, one.dtype, specialisation) for one in spec.absent(specialisation)}


def initialised(spec: KernelSpec, configuration: Configuration) -> frozenset[str]:
    """Return the names of the buffers that a call of `configuration` sets to zero first."""
    implementation = spec.all_implementations[configuration.implementation]
    everywhere = {argument.name for argument in spec.arrays if argument.init is not None}
    return frozenset(
        everywhere
        | {argument.name for argument in spec.arrays if argument.whole in implementation.init}
        | {buffer.name for buffer in implementation.scratch if buffer.init is not None}
    )


def scratch(
    spec: KernelSpec, problem: Problem, configuration: Configuration, device: DeviceFacts
) -> tuple[BoundBuffer, ...]:
    """Return the scratch buffers of `configuration` at `problem`."""
    values = environment(spec, problem, configuration, device)
    return tuple(
        BoundBuffer(
            name=buffer.name,
            role="scratch",
            dtype=dtype_of(spec, buffer.dtype, problem.specialisation),
            shape=tuple(max(0, extent.evaluate(values)) for extent in buffer.shape),
        )
        for buffer in spec.all_implementations[configuration.implementation].scratch
    )


def scalars(
    spec: KernelSpec, problem: Problem, configuration: Configuration | None = None, device: DeviceFacts | None = None
) -> tuple[BoundScalar, ...]:
    """Return the scalar arguments at `problem`: dims and specialisations by value, the others as tuning passes them.

    Derived ones are among them for a `configuration` on a `device`; arrays that are left out are, as null pointers, and
    lists of arrays.
    Raises ExpressionError for one whose value there its type does not hold.
    """
    known = environment(spec, problem, configuration, device)
    values: dict[str, PassedValue | str] = {**passed_values(spec, problem), **known}
    if configuration is not None:
        values |= derived_values(spec, known)
    found, structs = [], layouts(spec)
    for argument in spec.arguments:
        if argument.each is not None or argument in spec.lists:
            found.append(_listed(spec, problem, argument, known))
        elif argument.role is None and (configuration is not None or argument.name not in spec.let):
            value = values[argument.name]
            assert not isinstance(value, str)  # a specialisation that is passed is no type
            dtype = dtype_of(spec, argument.dtype, problem.specialisation)
            found.append(BoundScalar(name=argument.name, dtype=dtype, value=value, struct=structs.get(dtype)))
    found += [BoundScalar(name=name, dtype=NULL, value=0) for name in absent(spec, problem)]
    return tuple(found)


def _listed(spec: KernelSpec, problem: Problem, argument: Argument, known: Mapping[str, Value]) -> BoundScalar:
    """Return a list of arrays, without their addresses, or the extents that arrays of lists have."""
    table = lists.table_of(argument, dtype_of(spec, argument.dtype, problem.specialisation))
    found = lists.extents(spec, argument.each, known) if argument.each else ()
    there = argument.members[: lists.count_of(argument, known)] if argument.count else ()
    members = tuple(one.name for one in there)
    value: PassedValue = {"of": (*found, *(0,) * (argument.most - len(found)))}
    return BoundScalar(name=argument.name, dtype=table.name, value=value, struct=table, members=members)


def launches(
    spec: KernelSpec,
    problem: Problem,
    configuration: Configuration,
    device: DeviceFacts,
    residency: Residency | None = None,
) -> tuple[BoundLaunch, ...] | LaunchFailed:
    """Return the launches of `configuration` at `problem`, or why the device does not take them.

    Without `residency`, registers and static shared memory are left out of how many blocks it holds at once.
    """
    values = environment(spec, problem, configuration, device)
    order = tuple(argument.name for argument in spec.arguments)
    try:
        derived_values(spec, values)
        maps = bound_maps(spec, problem, configuration, values, device)
    except ExpressionError as error:
        return LaunchFailed(message=str(error))
    if isinstance(maps, str):
        return LaunchFailed(message=maps)
    found = []
    for launch in spec.all_implementations[configuration.implementation].launches:
        arguments = launch.arguments if launch.arguments is not None else order
        try:
            bound = _bound(launch, arguments, values, device, residency or residency_by(device, {}))
        except ExpressionError as error:
            return LaunchFailed(message=f"{launch.function}: {error}")
        if isinstance(bound, str):
            return LaunchFailed(message=f"{launch.function}: {bound}")
        found.append(replace(bound, tensor_maps=tuple(one for one in maps if one.name in arguments)))
    return tuple(found)


def residency_by(device: DeviceFacts, resources: Mapping[str, Resources]) -> Residency:
    """Return how many blocks a device holds at once, by what the entry points of a binary take."""

    def held(launch: BoundLaunch) -> int:
        if launch.cooperative and device.one_by_one:
            return 1
        taken = resources.get(launch.function, Resources(registers=0, spill_bytes=0, shared_bytes=0))
        return device.resident_blocks(
            threads=math.prod(launch.block),
            shared_bytes=launch.shared_bytes + taken.shared_bytes,
            registers=taken.registers,
            cluster=math.prod(launch.cluster),
        )

    return held


def _bound(
    launch: LaunchSpec,
    arguments: tuple[str, ...],
    values: dict[str, Value],
    device: DeviceFacts,
    residency: Residency,
) -> BoundLaunch | str:
    """Return a launch at a problem, or why the device does not take it; raises ExpressionError."""
    block, shared_bytes = _extent(launch.block, values), launch.shared.evaluate(values)
    cluster = _extent(launch.cluster or (), values)
    if (message := _refusal(block, shared_bytes, device) or _cluster_refusal(cluster, device)) is not None:
        return message
    bound = BoundLaunch(
        function=launch.function,
        grid=cluster,
        block=block,
        shared_bytes=shared_bytes,
        arguments=arguments,
        cluster=cluster,
        cooperative=launch.cooperative,
        overlap=launch.overlap is not None and device.compute_capability >= CLUSTERS_FROM,
    )
    held = None
    if launch.cooperative or cluster != NO_CLUSTER or launch.reads_residency:
        held = residency(bound)
        values = {**values, RESIDENT_BLOCKS: held}
    grid = _extent(launch.grid, values)
    message = _grid_refusal(grid) or (None if held is None else _residency_refusal(bound, grid, held, device))
    return replace(bound, grid=grid) if message is None else message


def _extent(expressions: tuple[Expression, ...], values: dict[str, Value]) -> tuple[int, int, int]:
    x, y, z = (*(expression.evaluate(values) for expression in expressions), 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def _grid_refusal(grid: tuple[int, int, int]) -> str | None:
    for axis, size, limit in zip("xyz", grid, GRID_LIMITS, strict=True):
        if not 0 <= size <= limit:
            return f"grid {axis} is {size}; a device takes 0 to {limit}"
    return None


def _cluster_refusal(cluster: tuple[int, int, int], device: DeviceFacts) -> str | None:
    blocks = math.prod(cluster)
    if min(cluster) < 1 or blocks > LARGEST_CLUSTER:
        return f"a cluster of {' x '.join(map(str, cluster))} blocks; a device takes 1 to {LARGEST_CLUSTER}"
    if blocks > 1 and device.compute_capability < CLUSTERS_FROM:
        here = f"{device.compute_capability / 10:.1f}"
        return f"clusters need compute capability {CLUSTERS_FROM / 10:.1f}; this device has {here}"
    return None


def _residency_refusal(launch: BoundLaunch, grid: tuple[int, int, int], held: int, device: DeviceFacts) -> str | None:
    for axis, size, together in zip("xyz", grid, launch.cluster, strict=True):
        if size % together:
            return f"grid {axis} is {size}, which is not a multiple of the cluster's {together}"
    blocks, together = math.prod(grid), math.prod(launch.cluster)
    if launch.cooperative and blocks > held and device.one_by_one:
        return f"{GPU_ONLY}: a cooperative grid of {blocks} blocks; the host device runs one after the other"
    if held < together:  # a grid of as many blocks as it holds would launch nothing
        of = f"a cluster of {together} blocks" if together > 1 else "a block"
        return f"{of} that this device cannot hold, by its registers and shared memory"
    if launch.cooperative and blocks > held:
        return f"a cooperative grid of {blocks} blocks; this device holds {held} at once"
    return None


def _refusal(block: tuple[int, int, int], shared_bytes: int, device: DeviceFacts) -> str | None:
    for axis, size, limit in zip("xyz", block, BLOCK_LIMITS, strict=True):
        if not 1 <= size <= limit:
            return f"block {axis} is {size}; a device takes 1 to {limit}"
    if math.prod(block) > MAX_THREADS:
        return f"a block of {math.prod(block)} threads; a device takes at most {MAX_THREADS}"
    if not 0 <= shared_bytes <= device.shared_bytes:
        return f"{shared_bytes} bytes of dynamic shared memory; this device gives a block {device.shared_bytes}"
    return None
