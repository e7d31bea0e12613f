"""What a problem needs for its launches, worked out once: handles, grids, the layout of the parameters, buffers.

The driver reads parameters through an array of addresses. A launch's parameter block is one buffer: the addresses
first, then the values, 8 bytes each; it is made anew for every call, because the driver's binding reads it with the GIL
released.
"""

from __future__ import annotations

import math
import struct
from ctypes import addressof, create_string_buffer

from . import Array, Scalar, sizeof
from .checks import INTEGERS, output_shape
from .errors import ArgumentError, ArgumentTypeError, qualified
from .lookup import evaluate, extent, sizes_of
from .modules import function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Buffer, Foreign, Kernel, Launch, Value
    from .devices import Device
    from .lookup import Decision, Extent

_SLOT = 8
_CODES = {
    "float64": "d",
    "float32": "f4x",
    "int64": "q",
    "int32": "i4x",
    "int16": "h6x",
    "int8": "b7x",
    "uint64": "Q",
    "uint32": "I4x",
    "uint16": "H6x",
    "uint8": "B7x",
    "bool": "?7x",
}


class Prepared:
    """A launch with its arguments' places: `order` indexes arrays, then scratch, then scalars of a call."""

    __slots__ = ("block", "function", "grid", "offsets", "order", "pack_into", "shared_bytes", "size")

    def __init__(self, handle: int, grid: Extent, block: Extent, shared_bytes: int) -> None:
        self.function, self.grid, self.block, self.shared_bytes = handle, grid, block, shared_bytes
        self.order: tuple[int, ...] = ()
        self.offsets: tuple[int, ...] = ()
        self.size = 0

    def lay_out(self, codes: Sequence[str], order: Sequence[int]) -> None:
        """Fix the parameter block for arguments of these struct codes."""
        count = len(codes)
        self.order, self.size = tuple(order), 2 * _SLOT * count
        self.offsets = tuple(_SLOT * (count + index) for index in range(count))
        self.pack_into = struct.Struct(f"={'Q' * count}{''.join(codes)}").pack_into

    def parameters(self, values: Sequence[Foreign]) -> Foreign:
        """Return a fresh parameter block; it has to outlive the launch."""
        block = create_string_buffer(max(_SLOT, self.size))
        base = addressof(block)
        self.pack_into(block, 0, *[base + offset for offset in self.offsets], *[values[index] for index in self.order])
        return block


class Plan:
    """All that one problem needs: outputs to allocate, scratch to provide, what to zero, launches."""

    __slots__ = ("constants", "decision", "launches", "outputs", "scratch", "zeroed")

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.outputs: list[tuple[tuple[int, ...], str]] = []  # shape, dtype; one an array, inputs too
        self.zeroed: list[tuple[int, int]] = []  # index, bytes
        self.scratch: list[tuple[int, bool]] = []  # bytes, whether it begins as zeros
        self.constants: list[Value] = []
        self.launches: list[Prepared] = []


def prepare(cupy: Foreign, kernel: Kernel, decision: Decision, device: Device, ordinal: int) -> Plan:
    """Return the plan of a decided problem; loads its module on the current device."""
    plan = Plan(decision)
    way = kernel.ways[decision.shipped[1]]
    places: dict[str, tuple[int, str]] = {}  # argument -> index among a call's values, struct code
    arrays = [argument for argument in kernel.arguments if isinstance(argument, Array)]
    for index, array in enumerate(arrays):
        shape = output_shape(array, decision.values, device)
        dtype = str(decision.values.get(array.dtype, array.dtype))
        plan.outputs.append((shape, dtype))
        if array.init or array.name in way.init:
            plan.zeroed.append((index, math.prod(shape) * sizeof(dtype)))
        places[array.name] = (index, "Q")
    for buffer in way.scratch:
        places[buffer.name] = (len(places), "Q")
        plan.scratch.append((_bytes(buffer, decision, device), buffer.init))
    for scalar in call_scalars(kernel):
        places[scalar.name] = (len(places), _CODES[scalar.dtype])
    for argument in kernel.arguments:
        if isinstance(argument, Scalar) and argument.name in decision.values:
            places[argument.name] = (len(places), _CODES[argument.dtype])
            plan.constants.append(decision.values[argument.name])
    for launch in way.launches:
        if (prepared := _launch(cupy, kernel, launch, decision, device, ordinal)) is not None:
            prepared.lay_out(
                [places[name][1] for name in launch.arguments], [places[name][0] for name in launch.arguments]
            )
            plan.launches.append(prepared)
    return plan


def call_scalars(kernel: Kernel) -> tuple[Scalar, ...]:
    """Return the values that a call brings: scalars that are neither a dim nor a specialisation."""
    known = {*kernel.dims, *kernel.shipped[0][0]}
    return tuple(a for a in kernel.arguments if isinstance(a, Scalar) and a.name not in known)


def _bytes(buffer: Buffer, decision: Decision, device: Device) -> int:
    dtype = str(decision.values.get(buffer.dtype, buffer.dtype))
    return math.prod(max(0, size) for size in sizes_of(buffer.shape, decision.values, device)) * sizeof(dtype)


def _launch(
    cupy: Foreign, kernel: Kernel, launch: Launch, decision: Decision, device: Device, ordinal: int
) -> Prepared | None:
    grid = extent(launch.grid, decision.values, device)
    if 0 in grid:
        return None  # nothing to do
    block = extent(launch.block, decision.values, device)
    shared_bytes = int(evaluate(launch.shared, decision.values, device))
    handle = function(cupy, kernel, decision.shipped[3], launch.function, device, ordinal)
    return Prepared(handle, grid, block, shared_bytes)


def wrong_scalar(kernel: Kernel, scalars: Sequence[Foreign]) -> ArgumentError | ArgumentTypeError:
    """Return the error for the scalar that could not be packed."""
    for scalar, value in zip(call_scalars(kernel), scalars, strict=True):
        try:
            struct.pack(f"={_CODES[scalar.dtype]}", value)
        except (struct.error, OverflowError, TypeError):
            place = f"{qualified(kernel.name)}: {scalar.name}: expected {scalar.dtype}"
            if scalar.dtype in INTEGERS:
                low, high = INTEGERS[scalar.dtype]
                place += f" (an integer from {low} to {high})"
            numeric = isinstance(value, int) or (isinstance(value, float) and scalar.dtype not in INTEGERS)
            kind = ArgumentError if numeric else ArgumentTypeError
            return kind(f"{place}, found {value!r}")
    raise AssertionError("every scalar packs")
