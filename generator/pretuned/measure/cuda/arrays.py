"""Arrays of CuPy for references: inputs are widened where they lie, and results are copied on the device.

All of it is enqueued on the bench's stream, which is the current one of the thread that answers requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import cupy

from pretuned.measure.machine import OutOfMemory
from pretuned.runtime.types import DTYPES

if TYPE_CHECKING:
    from pretuned.measure.machine import MachineMemory


class CupyArrays:
    """CuPy over the memory of `machine`, whose stream is the current one."""

    namespace: Final[Any] = cupy

    def __init__(self, machine: MachineMemory) -> None:
        self._machine = machine

    def widened(self, address: int, dtype: str, shape: tuple[int, ...]) -> Any:  # noqa: ANN401 - CuPy ships no types
        """Return what lies at an address as a new array, in its wide type; raises OutOfMemory."""
        wide = DTYPES[dtype].wide
        try:
            array = cupy.empty(shape, wide)
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise OutOfMemory(str(error)) from None
        if array.size and wide == dtype:
            self._machine.copy(array.data.ptr, address, array.nbytes)
        elif array.size:
            self._machine.widen(address, dtype, array.size, array.data.ptr)
        return array

    def put(self, array: Any, address: int) -> None:  # noqa: ANN401 - CuPy ships no types
        """Copy a contiguous array to an address."""
        if array.size:
            self._machine.copy(address, array.data.ptr, array.nbytes)

    def release(self) -> None:
        """Give back the memory that no array holds any more."""
        cupy.get_default_memory_pool().free_all_blocks()
