"""A driver whose launches are executed on the host, over memory of the host that arrays of any fake library lie in."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import tempfile
from ctypes import CDLL  # as it is now: tests put the driver in its place
from functools import cache
from pathlib import Path

import numpy as np

from fake_cuda import FakeCuda
from pretuned.compile import host

ROOM_BYTES = 1 << 18  # for each array


@cache
def folder():
    return tempfile.TemporaryDirectory(prefix="launches-on-host-")


@cache
def library(source):
    """Return a source as a library of the host, compiled when it is first launched."""
    made = host.compile_source(source, host.HOST)
    file = Path(folder().name, f"{source.key[:24]}.so")
    file.write_bytes(made.image)
    found = CDLL(str(file))
    found.pretuned_launch.restype = ctypes.c_char_p
    return found


class HostMemory:
    """Rooms in the host's memory, the first ones anew after `clear`."""

    def __init__(self, rooms=256):
        self._memory = mmap.mmap(-1, rooms * ROOM_BYTES)
        self._begin = np.frombuffer(self._memory, np.uint8).__array_interface__["data"][0]
        self.clear()

    def clear(self):
        self._places = itertools.count(self._begin, ROOM_BYTES)

    def __iter__(self):
        return self

    def __next__(self):
        address = next(self._places)
        assert address < self._begin + len(self._memory)
        return address


def at(address, shape, dtype, strides=None):
    """Return the elements at an address; strides in bytes, None for contiguous ones."""
    dense = np.dtype(dtype).itemsize * np.cumprod([1, *reversed(shape)])[-2::-1] if shape else ()
    strides = tuple(map(int, dense)) if strides is None else strides
    low = sum(min(0, (extent - 1) * stride) for extent, stride in zip(shape, strides, strict=True) if extent)
    high = sum(max(0, (extent - 1) * stride) for extent, stride in zip(shape, strides, strict=True) if extent)
    block = (ctypes.c_uint8 * (high - low + np.dtype(dtype).itemsize)).from_address(address + low)
    return np.ndarray(shape, dtype, block, -low, strides)


class HostDriver(FakeCuda):
    """The fake driver, with the sources of its images by their keys: a launch that it takes is executed at once."""

    def __init__(self, sources):
        super().__init__()
        self._sources = {source.key: source for source in sources}

    def cuPointerGetAttribute(self, found, attribute, address):  # noqa: N802 - the driver's name
        return 1 if address.value < mmap.PAGESIZE else super().cuPointerGetAttribute(found, attribute, address)

    def cuLaunchKernelEx(self, configuration, function, addresses, extra):  # noqa: N802 - the driver's name
        if status := super().cuLaunchKernelEx(configuration, function, addresses, extra):
            return status
        launch = self.launches[-1]
        found = library(self._sources[launch.image.split()[2]])
        fault = found.pretuned_launch(
            getattr(found, f"pretuned_call_{launch.function}"),
            ctypes.c_void_p(addresses.value),
            (ctypes.c_uint * 3)(*launch.grid),
            (ctypes.c_uint * 3)(*launch.block),
            ctypes.c_size_t(launch.shared_bytes),
            ctypes.c_ulonglong(0),
            (ctypes.c_void_p * 2)(),
        )
        assert fault is None, fault
        return 0
