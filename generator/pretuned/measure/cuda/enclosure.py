"""Device memory between wide holes of addresses: what a candidate may touch, and nothing of anything else.

Theory of operation. One range of addresses is reserved for all sets of a workspace, memory is mapped into its middle,
and the rest stays unmapped: a write that leaves the middle is an illegal address, which ends the context and is an
outcome of the candidate that ran. The holes on both sides are as wide as an index of 32 bits reaches in elements of 16
bytes. Rooms lie one behind the other in the middle, which keeps the number of the driver's calls small and pages as
large as cuMemAlloc's (memory is mapped in units of 2 MiB). What a write may hit there is checked: guard bands, which
fill all that no buffer takes, the other buffers of its set, and those of other sets (see `Workspace`).

Pristine inputs, references and what judges lie in CuPy's pool, beyond the holes; digests watch the first two. A block
that is not used any more stays mapped for the next workspace of its size, as CuPy's pool would keep it.

Functions and structures are those of cuda.h, 'Virtual Memory Management'.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from ctypes import Structure, byref, c_int, c_size_t, c_ubyte, c_uint64, c_ushort, c_void_p
from itertools import accumulate, pairwise
from typing import Final

from pretuned.measure.machine import OutOfMemory
from pretuned.measure.regions import HOLE_BYTES, Room
from pretuned.runtime.driver import DeviceQueries, DriverError, load_libcuda

LEAST_HOLE_BYTES: Final = 1 << 30
KEPT: Final = 16  # blocks that stay mapped though nothing uses them
SUPPORTED: Final = 102  # CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
_PINNED: Final = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
_ON_DEVICE: Final = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_READ_AND_WRITE: Final = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE
_RECOMMENDED: Final = 1  # CU_MEM_ALLOC_GRANULARITY_RECOMMENDED


class MemoryLocation(Structure):
    """CUmemLocation."""

    _fields_ = (("type", c_int), ("id", c_int))


class AllocationFlags(Structure):
    """The structure `allocFlags` of CUmemAllocationProp."""

    _fields_ = (("compression", c_ubyte), ("rdma", c_ubyte), ("usage", c_ushort), ("reserved", c_ubyte * 4))


class AllocationProperties(Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", MemoryLocation),
        ("win32", c_void_p),
        ("flags", AllocationFlags),
    )


class AccessRights(Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", MemoryLocation), ("flags", c_int))


class MappedBlock:
    """Memory of a device in the middle of a reserved range, until `unmap`."""

    def __init__(self, queries: DeviceQueries, device: int, nbytes: int, hole_bytes: int) -> None:
        """Reserve, create and map; raises DriverError, with nothing left behind."""
        self.nbytes, self.hole_bytes = nbytes, hole_bytes
        self._queries = queries
        self._total = nbytes + 2 * hole_bytes
        self._begin, self._handle = c_uint64(), c_uint64()
        location = MemoryLocation(type=_ON_DEVICE, id=device)
        properties = AllocationProperties(type=_PINNED, location=location)
        rights = AccessRights(location=location, flags=_READ_AND_WRITE)
        nothing = c_uint64(0)
        queries.ask("cuMemAddressReserve", byref(self._begin), c_size_t(self._total), c_size_t(0), nothing, nothing)
        mapped = False
        try:
            queries.ask("cuMemCreate", byref(self._handle), c_size_t(nbytes), byref(properties), nothing)
            place = c_uint64(self.address)
            queries.ask("cuMemMap", place, c_size_t(nbytes), c_size_t(0), self._handle, nothing)
            mapped = True
            queries.ask("cuMemSetAccess", place, c_size_t(nbytes), byref(rights), c_size_t(1))
        except DriverError:
            self._release(mapped=mapped)
            raise

    @property
    def address(self) -> int:
        """Where the memory begins."""
        return self._begin.value + self.hole_bytes

    def unmap(self) -> None:
        """Give memory and addresses back; the device must be done with them."""
        self._release(mapped=True)

    def _release(self, *, mapped: bool) -> None:
        if mapped:
            self._queries.ask("cuMemUnmap", c_uint64(self.address), c_size_t(self.nbytes))
        if self._handle.value:
            self._queries.ask("cuMemRelease", self._handle)
        self._queries.ask("cuMemAddressFree", self._begin, c_size_t(self._total))


class CudaEnclosure:
    """Rooms of so many bytes, one behind the other; the last one takes what the memory has beyond them.

    `owner` lives as long as the enclosure does.
    """

    def __init__(self, address: int, nbytes: int, sizes: Sequence[int], owner: object = None) -> None:
        edges = list(accumulate(sizes, initial=address))
        edges[-1] = address + nbytes
        self.rooms: tuple[Room, ...] = tuple(Room(begin=begin, end=end, hole_bytes=0) for begin, end in pairwise(edges))
        self._owner = owner


class Fences:
    """Makes enclosures on the device of CUDA ordinal `index`, whose context is current.

    `synchronize` waits until the device is done with all memory; it is called before any is unmapped.
    """

    def __init__(self, index: int, synchronize: Callable[[], None]) -> None:
        self._queries = DeviceQueries(load_libcuda())
        self._synchronize = synchronize
        self._kept: list[MappedBlock] = []  # that nothing uses, the oldest first
        self._hole_bytes = HOLE_BYTES
        device, unit = c_int(), c_size_t()
        self._queries.ask("cuDeviceGet", byref(device), c_int(index))
        self._device = device.value
        self.supported = bool(self._queries.attribute(SUPPORTED, index))
        if self.supported:
            properties = AllocationProperties(type=_PINNED, location=MemoryLocation(type=_ON_DEVICE, id=self._device))
            self._queries.ask("cuMemGetAllocationGranularity", byref(unit), byref(properties), c_int(_RECOMMENDED))
        self._unit = unit.value

    @property
    def kept_bytes(self) -> int:
        """The bytes of blocks that nothing uses."""
        return sum(block.nbytes for block in self._kept)

    def enclose(self, sizes: Sequence[int]) -> CudaEnclosure | None:
        """Return rooms of so many bytes, or None where addresses are not to be had; raises OutOfMemory."""
        if not self.supported:
            return None
        wanted = max(1, -(-sum(sizes) // self._unit)) * self._unit
        block = next((block for block in self._kept if block.nbytes == wanted), None)
        if block is not None:
            self._kept.remove(block)
        else:
            block = self._mapped(wanted)
        if block is None:
            return None
        self.trim(KEPT)
        enclosure = CudaEnclosure(block.address, block.nbytes, sizes)
        weakref.finalize(enclosure, self._kept.append, block).atexit = False
        return enclosure

    def trim(self, most: int = 0) -> None:
        """Give what nothing uses back to the device, but for `most` blocks."""
        if len(self._kept) > most:
            self._synchronize()
        while len(self._kept) > most:
            self._kept.pop(0).unmap()

    def _mapped(self, nbytes: int) -> MappedBlock | None:
        """Return a new block, with the widest holes that can be had."""
        while self.supported:
            try:
                return MappedBlock(self._queries, self._device, nbytes, self._hole_bytes)
            except DriverError as error:
                if "cuMemAddressReserve" in str(error):
                    self._hole_bytes //= 2
                    self.supported = self._hole_bytes >= LEAST_HOLE_BYTES
                elif "OUT_OF_MEMORY" not in str(error):
                    raise
                elif self._kept:
                    self.trim()
                else:
                    raise OutOfMemory(f"{nbytes:,} bytes cannot be allocated: {error}") from None
        return None
