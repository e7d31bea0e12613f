"""One launch through CuPy's driver binding, with arguments packed by the caller."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import cupy

driver: Final[Any] = cupy.cuda.driver
SLOT_BYTES: Final = 8  # room for the widest argument


def enqueue(
    function: int,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    stream: int,
    arguments: Sequence[bytes],
) -> None:
    """Launch `function` on `stream` (its address) with packed arguments; raises CUDADriverError."""
    values = b"".join(argument.ljust(SLOT_BYTES, b"\0") for argument in arguments)
    block_ = ctypes.create_string_buffer(values, max(1, len(values)))
    base = ctypes.addressof(block_)
    pointers = (ctypes.c_void_p * max(1, len(arguments)))(*(base + SLOT_BYTES * i for i in range(len(arguments))))
    driver.launchKernel(function, *grid, *block, shared_bytes, stream, ctypes.addressof(pointers), 0)
