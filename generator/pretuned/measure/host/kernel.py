"""A candidate loaded into this process: a shared library with the kernel and what runs it."""

from __future__ import annotations

import _ctypes
import copy
import ctypes
import hashlib
import math
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

from pretuned.compile import host
from pretuned.compile.parameters import PassedArgument, TakenParameter, mismatch
from pretuned.measure.launch import BoundLaunch, BoundScalar
from pretuned.measure.machine import Refused
from pretuned.measure.regions import GUARD_BYTES, Region
from pretuned.outcome import LaunchFailed

_loads: Final = count(1)


class HostFault(Exception):  # noqa: N818 - what a kernel did, on its way to being an outcome
    """A kernel met a barrier, a mask or shared memory in a way that CUDA does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How kernels run: `strict` about barriers and races; `blocks` limits a launch to so many first and last ones.

    With `kept`, libraries are never closed: AddressSanitizer reads the globals of closed ones when it reports.
    """

    strict: bool = False
    blocks: int = 0
    kept: bool = False


class HostKernel:
    """The launches of one candidate at one problem, ready for any set of buffers; raises Refused.

    The library stays on disk while it is loaded: sanitizers read line numbers from it.
    """

    def __init__(
        self,
        image: bytes,
        launches: Sequence[BoundLaunch],
        scalars: Sequence[BoundScalar],
        *,
        types: Mapping[str, str],
        manner: Manner,
    ) -> None:
        self.launches = tuple(launches)
        self._manner = manner
        self._scalars = {scalar.name: scalar for scalar in scalars}
        self._path = _stored(image, next(_loads) if manner.kept else 0)
        self._library = ctypes.CDLL(str(self._path), mode=ctypes.RTLD_LOCAL)
        self._library.pretuned_launch.restype = ctypes.c_char_p
        entry, shared = _contents(self._path)
        self._base = _address(self._library.pretuned_launch) - entry
        for variable in shared:
            name = variable.name.encode()
            self._library.pretuned_add_shared(
                ctypes.c_void_p(self._base + variable.offset), ctypes.c_size_t(variable.nbytes), name
            )
        if manner.strict:
            self._library.pretuned_be_strict()
        passed = {
            scalar.name: PassedArgument(
                name=scalar.name,
                dtype=scalar.dtype,
                array=False,
                struct_bytes=scalar.struct.size_bytes if scalar.struct else 0,
            )
            for scalar in scalars
        }
        for launch in self.launches:
            self._demand_types(launch, types, passed)

    def _demand_types(
        self, launch: BoundLaunch, arrays: Mapping[str, str], scalars: Mapping[str, PassedArgument]
    ) -> None:
        """Refuse a launch whose arguments are not what the kernel takes: on a GPU it would read rubbish."""
        name = f"pretuned_takes_{launch.function}"
        count = ctypes.c_int.in_dll(self._library, name).value
        _, *codes = (ctypes.c_int * (1 + count)).in_dll(self._library, name)
        passed = [
            PassedArgument(name=name, dtype=arrays[name], array=True) if name in arrays else scalars[name]
            for name in launch.arguments
        ]
        if (message := mismatch(launch.function, list(map(TakenParameter.of_code, codes)), passed)) is not None:
            raise Refused(LaunchFailed(message=message))

    def launch(self, addresses: Mapping[str, int]) -> None:
        """Run the launches for buffers at `addresses`; a grid with a zero launches nothing. Raises HostFault."""
        for launch in self.launches:
            if math.prod(launch.grid) == 0:
                continue
            values = [
                struct.pack("Q", addresses[name]) if name in addresses else self._scalars[name].pointing(addresses)
                for name in launch.arguments
            ]
            held = [ctypes.create_string_buffer(value, len(value)) for value in values]
            slots = (ctypes.c_void_p * max(1, len(held)))(*map(ctypes.addressof, held))
            code = (ctypes.c_void_p * 2)()
            fault = self._library.pretuned_launch(
                getattr(self._library, f"pretuned_call_{launch.function}"),
                slots,
                (ctypes.c_uint * 3)(*launch.grid),
                (ctypes.c_uint * 3)(*launch.block),
                ctypes.c_size_t(launch.shared_bytes),
                ctypes.c_ulonglong(self._manner.blocks),
                code,
            )
            if fault is not None:
                raise HostFault(self._placed(fault.decode(errors="replace"), [address for address in code if address]))

    def relaunched(self, launches: Sequence[BoundLaunch], scalars: Sequence[BoundScalar]) -> HostKernel:
        """Return this kernel, of the same library, with other extents and scalars."""
        other = copy.copy(self)
        other.launches = tuple(launches)
        other._scalars = {scalar.name: scalar for scalar in scalars}  # noqa: SLF001 - its own
        return other

    def _placed(self, message: str, code: Sequence[int]) -> str:
        """Return a problem's message with the lines that its code addresses stand for."""
        places = [host.place_in_source(self._path, address - self._base - 1) for address in code]
        return message + (f": {' and '.join(filter(None, places))}" if any(places) else "")

    @contextmanager
    def watching(self, regions: Iterable[Region]) -> Iterator[None]:
        """Have reports name the arrays of `regions`, and AddressSanitizer report accesses to what lies around them."""
        for region in regions:
            poisoned = GUARD_BYTES if region.hole_bytes else 0  # of a hole: the sanitizer reports before it faults
            self._library.pretuned_watch(
                ctypes.c_void_p(region.address),
                ctypes.c_size_t(region.buffer.nbytes),
                ctypes.c_size_t(region.front_bytes),
                ctypes.c_size_t(region.tail_bytes + poisoned),
                ctypes.c_size_t(region.hole_bytes),
                region.buffer.name.encode(),
            )
        try:
            yield
        finally:
            self._library.pretuned_unwatch()

    def unload(self) -> None:
        """Close the library; the next kernel of the same image begins with fresh statics."""
        self._library.pretuned_close()
        if self._manner.kept:
            return
        _ctypes.dlclose(self._library._handle)  # noqa: SLF001 - ctypes has no public way


def _address(function: Any) -> int:  # noqa: ANN401 - the type has no public name
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def _contents(path: Path) -> tuple[int, tuple[host.SharedVariable, ...]]:
    """Return the offset of `pretuned_launch` in an image, and its `__shared__` variables: other programs read them."""
    return host.symbols(path)["pretuned_launch"], host.shared_variables(path)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that lives as long as this process."""
    return tempfile.TemporaryDirectory(prefix="pretuned-host-")


def _stored(image: bytes, copy: int) -> Path:
    """Put an image on disk, once for each `copy`; its name has a digest of its content."""
    path = Path(_folder().name) / f"{hashlib.sha256(image).hexdigest()[:16]}-{copy}.so"
    if not path.is_file():
        path.write_bytes(image)
    return path
