"""Launches through CuPy's driver binding, with arguments packed ahead of them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import cupy

driver: Final[Any] = cupy.cuda.driver
ERRORS: Final[tuple[type[Exception], ...]] = (cupy.cuda.runtime.CUDARuntimeError, driver.CUDADriverError)
SLOT_BYTES: Final = 8  # room for the widest argument

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PackedArguments:
    """A block of arguments and the pointers to them, as cuLaunchKernel takes them."""

    values: Any
    pointers: Any

    @classmethod
    def of(cls, arguments: Sequence[bytes]) -> PackedArguments:
        """Pack arguments of at most 8 bytes each."""
        values = b"".join(argument.ljust(SLOT_BYTES, b"\0") for argument in arguments)
        block = ctypes.create_string_buffer(values, max(1, len(values)))
        base = ctypes.addressof(block)
        pointers = (ctypes.c_void_p * max(1, len(arguments)))(*(base + SLOT_BYTES * i for i in range(len(arguments))))
        return cls(block, pointers)

    @property
    def address(self) -> int:
        """The address of the pointers."""
        return ctypes.addressof(self.pointers)


def enqueue(function: int, grid: Dim3, block: Dim3, shared_bytes: int, stream: int, arguments: Sequence[bytes]) -> None:
    """Launch `function` on `stream` (its address) with packed arguments; raises CUDADriverError."""
    packed = PackedArguments.of(arguments)
    driver.launchKernel(function, *grid, *block, shared_bytes, stream, packed.address, 0)
