"""Arrays of any library, by the two protocols that libraries share: __cuda_array_interface__ and DLPack.

Such arrays name no library, so their calls go on CuPy's current stream, and CuPy is imported where an output has to be
allocated. They take the slow path.
"""

from __future__ import annotations

import importlib
import math
import sys

from ..driver import DriverError, driver
from ..errors import ArgumentError, ArgumentTypeError, UnavailableError
from ..types import DTYPES
from .adapter import ArrayView, kind_of, not_an_array, reach
from .cupy import CuPy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from ..table import Foreign
    from .adapter import Adapter, Allocate

CUDA_DEVICES = {2, 13}  # of DLPack: kDLCUDA, kDLCUDAManaged
IMMUTABLE = {"jax", "jaxlib"}  # whose arrays never change: others may share their memory
_INTERFACE = {dtype.typestr: dtype.name for dtype in DTYPES.values() if dtype.typestr}


class _Nameless:
    """What holds for arrays that name no library."""

    _streams = CuPy()

    def device_of(self, value: Foreign) -> int | None:
        """Return None: the thread's current device counts."""
        del value
        return None

    def current_stream(self, device: int) -> int:
        """Return the handle of CuPy's current stream."""
        return self._streams.current_stream(device)

    def stream_of(self, stream: Foreign) -> tuple[int, int | None] | None:
        """Return the handle of a stream with __cuda_stream__, which has no device."""
        return (int(stream.__cuda_stream__()[1]), None) if hasattr(stream, "__cuda_stream__") else None

    def on(self, device: int, stream: int | None) -> AbstractContextManager[None]:
        """Make a device, and a stream if one is given, those that CuPy works on."""
        return self._streams.on(device, stream)

    def allocating(self, where: str, device: int, stream: int | None) -> AbstractContextManager[Allocate]:
        """Give what makes a new array of CuPy's."""
        return self._streams.allocating(where, device, stream)

    def taken_in(self, value: Foreign) -> Foreign:
        """Return the array as it is."""
        return value

    def expressions(self) -> None:
        """Return None: there is no fast path."""


class Interface(_Nameless):
    """Arrays with __cuda_array_interface__."""

    name = "interface"

    def owns(self, value: object) -> bool:
        """Return whether a value has the interface; a class has what its objects have."""
        return not isinstance(value, type) and hasattr(value, "__cuda_array_interface__")

    def view(self, where: str, value: Foreign, stream: int, *, written: bool) -> ArrayView:
        """Read the interface, version 2 or 3: numba.readthedocs.io, "CUDA Array Interface".

        An array that names a stream of its own is waited for on `stream`.
        """
        facts = value.__cuda_array_interface__
        try:
            shape, (address, read_only), order = tuple(facts["shape"]), facts["data"], facts["typestr"]
            size = int(order[2:])
        except (KeyError, IndexError, TypeError, ValueError):
            raise ArgumentTypeError(
                f"{where}: expected a __cuda_array_interface__ with shape, data and a typestr such as '<f4', "
                f"found {facts!r}"
            ) from None
        swapped = size > 1 and order[0] not in {"=", "|", "<" if sys.byteorder == "little" else ">"}
        dtype = order if swapped else _INTERFACE.get(order[1:], order)
        strides = _apart(shape, size, facts.get("strides"))
        nbytes = size * math.prod(shape) if strides is None else reach(shape, strides, size)
        found = driver(where.partition(":")[0])
        try:
            ordinal = found.device_of(address) if address else found.current()
        except DriverError as error:
            raise ArgumentError(
                f"{where}: expected memory of a GPU, found the address {address:#x} ({error})"
            ) from None
        theirs = facts.get("stream")
        if theirs is not None and theirs != stream:
            with found.on(ordinal):
                found.wait(stream, theirs)
        if written:
            _demand_writable(where, value, read_only=read_only)
        return ArrayView(address, dtype, shape, ordinal, nbytes, value, strides)


def _demand_writable(where: str, value: Foreign, *, read_only: bool = False) -> None:
    """Raise ArgumentError for an array that must not be written."""
    kind = kind_of(value)
    if read_only or kind.partition(".")[0] in IMMUTABLE:
        found = "a read-only one" if read_only else f"a {kind}, which is immutable"
        raise ArgumentError(
            f"{where}: expected an array that may be written, found {found}; pass another, such as a copy"
        )


def _apart(shape: tuple[int, ...], size: int, strides: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the strides of an array in bytes; None for a C-contiguous one."""
    if strides is None:
        return None
    dense: list[int] = []
    nbytes = size
    for extent in reversed(shape):
        dense.insert(0, nbytes)
        nbytes *= extent
    apart = nbytes and any(
        extent > 1 and found != wanted for extent, found, wanted in zip(shape, strides, dense, strict=True)
    )
    return tuple(strides) if apart else None


class DLPack(_Nameless):
    """Arrays that DLPack hands to the first of `libraries` that is imported, or to CuPy, over the same memory."""

    name = "dlpack"

    def __init__(self, libraries: Sequence[Adapter]) -> None:
        self._libraries = libraries

    def owns(self, value: object) -> bool:
        """Return whether a value is on a GPU by DLPack's device; a class has what its objects have."""
        return (
            not isinstance(value, type)
            and hasattr(value, "__dlpack_device__")
            and int(value.__dlpack_device__()[0]) in CUDA_DEVICES
        )

    def view(self, where: str, value: Foreign, stream: int, *, written: bool) -> ArrayView:
        """Return the view of the array that the library makes of it, which the view keeps alive."""
        if written:
            _demand_writable(where, value)
        able = (one for one in self._libraries if hasattr(sys.modules.get(one.name), "from_dlpack"))
        library = next(able, self._streams)
        taken: Foreign = None
        try:
            taken = importlib.import_module(library.name).from_dlpack(value)
        except ImportError:
            raise UnavailableError(
                f"{where}: a {kind_of(value)} is read through DLPack, which needs CuPy or PyTorch"
            ) from None
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentTypeError(
                f"{where}: a {kind_of(value)} is read through DLPack, and {library.name} cannot: {error}"
            ) from None
        owner = next((one for one in self._libraries if one.owns(taken)), None)
        if owner is None:
            raise not_an_array(where, taken)
        return owner.view(where, taken, stream, written=written)
