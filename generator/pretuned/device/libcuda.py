"""The CUDA driver API by ctypes: what it tells of GPUs without a context, and without CuPy.

Only queries: `cuInit`, counts, names and attributes. No context is created, so no memory of a GPU is taken and a child
process may still choose its own device. Numbers and names are those of cuda.h.
"""

from __future__ import annotations

import ctypes
import sys
import uuid
from typing import Any, Final

# CUdevice_attribute
SM_COUNT: Final = 16
MEMORY_CLOCK_KHZ: Final = 36
MEMORY_BUS_BITS: Final = 37
L2_BYTES: Final = 38
CAPABILITY_MAJOR: Final = 75
CAPABILITY_MINOR: Final = 76
SHARED_OPTIN_BYTES: Final = 97

_SUCCESS: Final = 0
_NAME_BYTES: Final = 256


class CudaError(Exception):
    """The driver refused a query; the message names the call and the CUresult."""


class LibCuda:
    """Queries to a loaded libcuda. `library` is what ctypes loads, or a stand-in with the same functions."""

    def __init__(self, library: Any) -> None:  # noqa: ANN401 - a ctypes.CDLL has no type of its own functions
        self._library = library

    def version(self) -> tuple[int, int]:
        """Return the CUDA version that the driver supports, such as (13, 0)."""
        number = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(number))
        return number.value // 1000, number.value % 1000 // 10

    def count(self) -> int:
        """Initialise the driver and return how many GPUs CUDA shows to this process."""
        number = ctypes.c_int()
        self._call("cuInit", 0)
        self._call("cuDeviceGetCount", ctypes.byref(number))
        return number.value

    def name(self, ordinal: int) -> str:
        """Return the GPU's name."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", text, _NAME_BYTES, self._device(ordinal))
        return text.value.decode(errors="replace")

    def uuid(self, ordinal: int) -> str:
        """Return the UUID of the GPU, or of the MIG slice that stands for one, as 8-4-4-4-12 hexadecimal digits."""
        raw = (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetUuid_v2", ctypes.byref(raw), self._device(ordinal))
        return str(uuid.UUID(bytes=bytes(raw)))

    def memory_bytes(self, ordinal: int) -> int:
        """Return the memory that CUDA can allocate from."""
        size = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(size), self._device(ordinal))
        return size.value

    def attribute(self, attribute: int, ordinal: int) -> int:
        """Return one of the attributes above."""
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, self._device(ordinal))
        return value.value

    def _device(self, ordinal: int) -> int:
        handle = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(handle), ordinal)
        return handle.value

    def _call(self, function: str, *arguments: Any) -> None:  # noqa: ANN401 - ctypes
        try:
            status = getattr(self._library, function)(*arguments)
        except AttributeError:
            raise CudaError(f"{function} is missing: the driver is too old") from None
        if status != _SUCCESS:
            raise CudaError(f"{function} returned CUresult {status}")


def load() -> LibCuda | None:
    """Load the driver's library; None where there is none."""
    try:
        return LibCuda(ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"))
    except OSError:
        return None
