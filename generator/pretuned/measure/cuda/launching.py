"""Launches with arguments packed ahead of them: through CuPy's driver binding, with attributes through libcuda."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import cupy

from pretuned.measure.launch import BoundLaunch
from pretuned.runtime.driver import Driver, DriverError, load_libcuda
from pretuned.runtime.launching import ATTRIBUTE_BYTES, CONFIGURATION

driver: Final[Any] = cupy.cuda.driver
ERRORS: Final[tuple[type[Exception], ...]] = (cupy.cuda.runtime.CUDARuntimeError, driver.CUDADriverError)
_LINE_BYTES: Final = 64  # the widest alignment of any argument

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PackedArguments:
    """A block of arguments and the pointers to them, as cuLaunchKernel takes them."""

    values: Any
    pointers: Any

    @classmethod
    def of(cls, arguments: Sequence[bytes]) -> PackedArguments:
        """Pack arguments of any sizes, each where every type of its size is aligned."""
        begins, values = [], b""
        for argument in arguments:
            values += bytes(-len(values) % (_LINE_BYTES if len(argument) >= _LINE_BYTES else 16))
            begins.append(len(values))
            values += argument
        block = ctypes.create_string_buffer(len(values) + _LINE_BYTES)
        base = ctypes.addressof(block) + -ctypes.addressof(block) % _LINE_BYTES
        ctypes.memmove(base, values, len(values))
        pointers = (ctypes.c_void_p * max(1, len(arguments)))(*(base + begin for begin in begins))
        return cls(block, pointers)

    @property
    def address(self) -> int:
        """The address of the pointers."""
        return ctypes.addressof(self.pointers)


@cache
def libcuda() -> Driver:
    """Return the driver through ctypes, for what CuPy's binding lacks; it works in the context that is current."""
    return Driver(load_libcuda())


class ConfiguredLaunch:
    """A launch with its attributes on a stream, in memory, as cuLaunchKernelEx takes it; `content` are its bytes."""

    def __init__(self, launch: BoundLaunch, stream: int) -> None:
        listed = launch.attributes
        self._listed = ctypes.create_string_buffer(listed, max(1, len(listed)))
        found = (ctypes.addressof(self._listed), len(listed) // ATTRIBUTE_BYTES)
        self.content = CONFIGURATION.pack(*launch.grid, *launch.block, launch.shared_bytes, stream, *found)
        self._memory = ctypes.create_string_buffer(self.content, len(self.content))

    def enqueue(self, function: int, arguments: PackedArguments) -> None:
        """Launch `function`; raises DriverError."""
        address, parameters = ctypes.addressof(self._memory), ctypes.c_void_p(arguments.address)
        status = libcuda().launch(ctypes.c_void_p(address), ctypes.c_void_p(function), parameters, None)
        if status:
            raise DriverError(f"cuLaunchKernelEx: {libcuda().named(status)}")


def enqueue(function: int, grid: Dim3, block: Dim3, shared_bytes: int, stream: int, arguments: Sequence[bytes]) -> None:
    """Launch `function` on `stream` (its address) with packed arguments; raises CUDADriverError."""
    packed = PackedArguments.of(arguments)
    driver.launchKernel(function, *grid, *block, shared_bytes, stream, packed.address, 0)
