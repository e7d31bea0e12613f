"""What a problem needs for its launches, worked out once: functions, grids, parameter blocks, scratch."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial

from .binaries import function
from .blocks import SLOT, STREAM_AT, VALUES_AT, PreparedLaunch
from .checks import output_shape
from .launching import CONFIGURATION, attributes
from .limits import CLUSTERS_FROM
from .lists import BEYOND, packed
from .problem import evaluate, sizes_of
from .scalars import packer, struct_of, type_of
from .table import Scalar
from .tensor_maps import MAP_ALIGNMENT, MAP_BYTES, encoder, packing_maps
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .adapters import Adapter, ArrayView
    from .blocks import ParameterBlock
    from .devices import Device
    from .driver import Driver
    from .lookup import Decision
    from .overrides import Overrides
    from .problem import Extent
    from .records import Value
    from .table import Buffer, Foreign, Implementation, Kernel, Launch, LibraryFunction
    from .tensor_maps import Encode

CALLED = "=Q16x"  # from there on: the stream, no attributes, then the values
ATTRIBUTED = "=QQI4x"  # the same with attributes, as blocks have them in `head`
POINTER = "Q"
REMEMBERED = 4096  # problems that are kept of a kernel, so that what never repeats does not fill the memory
_captured: list[Foreign] = []  # scratch of calls that became part of a graph, which goes on writing there


class LaunchPlan:
    """All that one problem needs: outputs to allocate, what to zero, scratch to provide, launches."""

    __slots__ = ("again", "call", "counter", "launches", "numbers", "outputs", "scratch", "zeroed")

    def __init__(self) -> None:
        self.outputs: list[tuple[tuple[int, ...], str]] = []  # shape, dtype; one per array, inputs too
        self.numbers: tuple[str, ...] = ()  # the types of the numbers that a call brings
        self.zeroed: list[tuple[int, int]] = []  # place among the values, bytes
        self.scratch: list[int] = []  # bytes
        self.launches: list[PreparedLaunch] = []
        self.counter: Foreign = None  # counts calls, where they are counted
        self.call: LibraryFunction | None = None  # a library's function instead of launches
        self.again = False  # whether the problem was called before

    @property
    def single(self) -> PreparedLaunch | None:
        """The one launch, where there is nothing else to do."""
        return self.launches[0] if len(self.launches) == 1 and not (self.zeroed or self.scratch) else None

    def launch(self, driver: Driver, stream: int, values: Sequence[Foreign]) -> int:
        """Enqueue everything for a call's values: addresses of arrays, numbers, addresses of scratch.

        Returns the first CUresult that is not success, or 0. Raises struct.error, TypeError or OverflowError for a
        number that cannot be passed, before anything is enqueued.
        """
        blocks = [prepared.taken() for prepared in self.launches]
        self._pack(blocks, stream, values)
        status = self._enqueue(driver, blocks, stream, values)
        for prepared, block in zip(self.launches, blocks, strict=True):
            prepared.pool.append(block)
        return status

    def bound(
        self, driver: Driver, stream: int, values: Sequence[Foreign], launch_kernel: Foreign = None
    ) -> Callable[[], int | None]:
        """Return what enqueues everything for values, packed now into blocks of its own; raises as `launch`.

        With CuPy's `launch_kernel` a refusal is an exception of CuPy's instead of a CUresult.
        """
        blocks = [prepared.block() for prepared in self.launches]
        self._pack(blocks, stream, values)
        steps: list[Foreign] = [driver.clearing(values[place], nbytes, stream) for place, nbytes in self.zeroed]
        for prepared, block in zip(self.launches, blocks, strict=True):
            made: Foreign = partial(driver.launch, block.configuration, prepared.function, block.addresses, None)
            if launch_kernel is not None and not block.head:
                made = partial(prepared.directly(launch_kernel), stream, block.address, 0)
            made.block = block  # its memory has to live as long as what reads it
            steps.append(made)
        return steps[0] if len(steps) == 1 else _in_turn(steps)

    def _pack(self, blocks: Sequence[ParameterBlock], stream: int, values: Sequence[Foreign]) -> None:
        for prepared, block in zip(self.launches, blocks, strict=True):
            prepared.pack_into(block.memory, STREAM_AT, stream, *block.head, *values)

    def _enqueue(self, driver: Driver, blocks: Sequence[ParameterBlock], stream: int, values: Sequence[Foreign]) -> int:
        for place, nbytes in self.zeroed:
            if status := driver.clearing(values[place], nbytes, stream)():
                return status
        for prepared, block in zip(self.launches, blocks, strict=True):
            if status := driver.launch(block.configuration, prepared.function, block.addresses, None):
                return int(status)
        return 0


def _in_turn(steps: Sequence[Callable[[], int | None]]) -> Callable[[], int | None]:
    """Return what enqueues step by step, up to the first that the driver refuses."""

    def enqueue() -> int | None:
        for step in steps:
            if status := step():
                return status
        return 0

    return enqueue


class PreparedCall:
    """One call that is checked and ready: what a launch, an entry of the fast path and a bound call are made from.

    Attributes:
        overrides: Those in force.
        adapter: Of the array that leads: outputs and the current stream are its library's.
        ordinal: The device.
        handle: The stream.
        keywords: The values of the keywords.
        scalars: The numbers as they came.
        plan: The launch plan of the call's class.
        usual: Whether `plan` is the problem's own, not one in place of a library's function.
        arrays: The arrays, in launch order, allocated outputs included.
        views: How launches see them.
        scratch: The scratch buffers.
        values: What is packed: the addresses of arrays, the numbers, the addresses of scratch.
    """

    __slots__ = (
        "adapter",
        "arrays",
        "handle",
        "keywords",
        "ordinal",
        "overrides",
        "plan",
        "scalars",
        "scratch",
        "usual",
        "values",
        "views",
    )

    def __init__(  # noqa: PLR0913 - a record
        self,
        *,
        overrides: Overrides,
        adapter: Adapter,
        ordinal: int,
        handle: int,
        keywords: tuple[Value, ...],
        scalars: Sequence[Foreign],
        plan: LaunchPlan,
        usual: bool,
        arrays: Sequence[Foreign],
        views: Sequence[ArrayView],
        scratch: Sequence[Foreign],
        values: tuple[Foreign, ...],
    ) -> None:
        self.overrides, self.adapter, self.ordinal, self.handle = overrides, adapter, ordinal, handle
        self.keywords, self.scalars, self.plan, self.usual = keywords, scalars, plan, usual
        self.arrays, self.views, self.scratch, self.values = arrays, views, scratch, values


def keep_captured(driver: Driver, call: PreparedCall) -> bool:
    """Return whether a call's stream is being captured into a graph, which then keeps the call's scratch for good."""
    captured: bool = driver.capturing(call.handle)
    if captured:
        _captured.append(call.scratch)
    return captured


def make(driver: Driver, kernel: Kernel, decision: Decision, device: Device, stream: int) -> LaunchPlan:
    """Return the plan of a decided problem; loads its module into the current context."""
    plan, values, shapes = LaunchPlan(), decision.problem.values, decision.problem.shapes
    implementation = kernel.implementations[decision.shipped.implementation]
    plan.call = implementation.call
    places: dict[str, str] = {}  # argument -> struct code, in the order of the values
    for array in kernel.arrays:
        shape = shapes.get(array.name) or output_shape(kernel, array, decision.problem.operands)
        dtype = str(values.get(array.dtype, array.dtype)) if shape is not BEYOND else ""
        plan.outputs.append((shape, dtype))
        if dtype and (array.init or (array.whole or array.name) in implementation.init):
            plan.zeroed.append((len(places), math.prod(shape) * DTYPES[dtype].size_bytes))
        places[array.name] = POINTER
    plan.numbers = tuple([str(values.get(scalar.dtype, scalar.dtype)) for scalar in kernel.scalars])
    head, before = called(kernel)
    types = [type_of(kernel, dtype) for dtype in plan.numbers]
    numbers = dict(enumerate(types, before + len(places)))  # by place among what is packed
    for scalar, found in zip(kernel.scalars, types, strict=True):
        places[scalar.name] = found.slot
    needless = []  # scratch of 0 bytes: its address is 0, in every call
    for buffer in implementation.scratch:
        if not (nbytes := _bytes(buffer, decision)):
            needless.append(buffer.name)
            continue
        plan.scratch.append(nbytes)
        if buffer.init:
            plan.zeroed.append((len(places), nbytes))
        places[buffer.name] = POINTER
    plan.zeroed = [(place, nbytes) for place, nbytes in plan.zeroed if nbytes]
    begins, content = _laid_out(places)
    if needless:
        begins |= dict.fromkeys(needless, len(content))
        content += bytes(SLOT)
    begins |= {one.name: begins[one.members[0].name] for one in kernel.lists}
    content += _constants(kernel, decision, begins, len(content)) if not plan.call else b""
    maps, content = _tensor_maps(driver, kernel, implementation, decision, begins, content)
    pack_into = packing_maps(
        packer(head + "".join(places.values()), numbers),
        [(before + list(places).index(array), VALUES_AT + begins[name], encode) for name, array, encode in maps],
    )
    for launch, (grid, block, shared_bytes, cluster) in zip(implementation.launches, decision.extents, strict=True):
        if 0 not in grid:  # or there is nothing to do
            handle = function(driver, kernel, decision.shipped.source, launch.function, device, stream)
            configuration = CONFIGURATION.pack(*grid, *block, shared_bytes, 0, 0, 0)
            listed = _listed(kernel, launch, cluster, device)
            prepared = PreparedLaunch(handle, configuration + content, pack_into, listed, aligned=bool(maps))
            prepared.take([begins[name] for name in launch.arguments])
            plan.launches.append(prepared)
    return plan


def _tensor_maps(
    driver: Driver,
    kernel: Kernel,
    implementation: Implementation,
    decision: Decision,
    begins: dict[str, int],
    content: bytes,
) -> tuple[list[tuple[str, str, Encode]], bytes]:
    """Return name, array and encoder of each tensor map, and the content with room for them, which `begins` names."""
    known, found = decision.operands, []
    for one in implementation.tensor_maps:
        array = next(array for array in kernel.arrays if array.name == one.array)
        encode = encoder(
            driver,
            dtype=str(known.get(array.dtype, array.dtype)),
            shape=sizes_of(array.shape, known),
            strides=[known[name] for name in array.strides],
            box=sizes_of(one.box, known),
            modes=(one.swizzle, one.l2, one.fill),
        )
        content += bytes(-(VALUES_AT + len(content)) % MAP_ALIGNMENT)
        begins[one.name] = len(content)
        content += bytes(MAP_BYTES)
        found.append((one.name, one.array, encode))
    return found, content


def _constants(kernel: Kernel, decision: Decision, begins: dict[str, int], before: int) -> bytes:
    """Return the values that follow from what was decided, behind `before` bytes, and note where each begins."""
    content, known = b"", decision.operands
    for argument in kernel.arguments:
        if isinstance(argument, Scalar) and (argument.value or argument.each or argument.name in known):
            begins[argument.name] = before + len(content)
            if argument.each:
                content += packed(argument, known)
                continue
            number = evaluate(argument.value, known) if argument.value else known[argument.name]
            content += DTYPES[argument.dtype].packed(number).ljust(SLOT, b"\0")
    return content


def _laid_out(codes: dict[str, str]) -> tuple[dict[str, int], bytes]:
    """Return where the values of struct codes begin, by argument, and room for all of them."""
    begins, nbytes = dict[str, int](), 0
    for name, code in codes.items():
        begins[name] = nbytes
        nbytes += struct_of(f"={code}").size
    return begins, bytes(nbytes)


def called(kernel: Kernel) -> tuple[str, int]:
    """Return how what a call packs before its values is packed, and how many numbers that are."""
    return (ATTRIBUTED, 3) if kernel.attributed else (CALLED, 1)


def _listed(kernel: Kernel, launch: Launch, cluster: Extent, device: Device) -> bytes | None:
    """Return the attributes of a launch on a device; None for a kernel whose launches have none."""
    if not kernel.attributed:
        return None
    overlap = launch.overlap and device.compute_capability >= CLUSTERS_FROM
    return attributes(cluster, cooperative=launch.cooperative, overlap=overlap)


def _bytes(buffer: Buffer, decision: Decision) -> int:
    dtype = str(decision.problem.values.get(buffer.dtype, buffer.dtype))
    sizes = sizes_of(buffer.shape, decision.operands)
    return math.prod([max(0, size) for size in sizes]) * DTYPES[dtype].size_bytes


def remember(memo: dict[Foreign, Foreign], key: Foreign, value: Foreign, most: int) -> None:
    """Put a value into a memo of at most so many; the oldest makes way, which costs those that stay nothing."""
    if len(memo) >= most and key not in memo:
        with suppress(RuntimeError, StopIteration):  # another thread was here: it made room
            memo.pop(next(iter(memo)), None)
    memo[key] = value
