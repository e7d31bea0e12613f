"""Arrays of any library by DLPack: dmlc.github.io/dlpack, "Python Specification for DLPack".

A capsule holds a DLManagedTensor, whose first member is a DLTensor:

    void* data; int32 device_type, device_id; int32 ndim; uint8 code, bits; uint16 lanes;
    int64* shape; int64* strides (in elements, NULL for a C-contiguous one); uint64 byte_offset

It is read where it is, and stays the capsule's: it is not marked as used, so that whoever made it frees it.
"""

from __future__ import annotations

import ctypes
import importlib
import struct
import sys
from contextlib import suppress

from ..errors import ArgumentTypeError, UnavailableError
from ..types import DTYPES
from .adapter import ArrayView, kind_of, not_an_array
from .nameless import STREAMS, Nameless
from .told import LEGACY, apart, home_of, viewed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..table import Foreign
    from .adapter import Adapter
    from .told import Facts

CUDA_DEVICES = {2, 13}  # kDLCUDA, kDLCUDAManaged
_TENSOR = struct.Struct("=QiiiBBHQQQ")
_pointer = ctypes.pythonapi["PyCapsule_GetPointer"]  # an object of its own: others set the types of the attribute
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
_BY_CODE = {(one.dlpack, 8 * one.size_bytes): one for one in DTYPES.values()}


class DLPack(Nameless):
    """Arrays that DLPack hands over, without copying them.

    Those whose capsule is not read here are taken by the first of `libraries` that is imported, or by CuPy.
    """

    name = "dlpack"

    def __init__(self, adapter_of: Callable[[object], Adapter | None], libraries: Sequence[Adapter]) -> None:
        super().__init__(adapter_of)
        self._libraries = libraries

    def owns(self, value: object) -> bool:
        """Return whether a value is on a GPU by DLPack's device; a class has what its objects have."""
        return (
            not isinstance(value, type)
            and hasattr(value, "__dlpack_device__")
            and int(value.__dlpack_device__()[0]) in CUDA_DEVICES
        )

    def facts(self, value: Foreign) -> Facts:
        """Return what an array hands over on CuPy's current stream; raises AttributeError for one not read so."""
        told = tell(value, self.current_stream(int(value.__dlpack_device__()[1])))
        home_of(told[2])
        return told

    def device_of(self, value: Foreign) -> int | None:
        """Return the ordinal of an array's device."""
        return int(value.__dlpack_device__()[1])

    def view(self, where: str, value: Foreign, stream: int, *, written: bool) -> ArrayView:
        """Return an array as launches see it, or as a library that is imported takes it, where DLPack says more."""
        with suppress(AttributeError):
            return viewed(where, value, tell(value, stream), stream)
        able = (one for one in self._libraries if hasattr(sys.modules.get(one.name), "from_dlpack"))
        library = next(able, STREAMS)
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


def tell(value: Foreign, stream: int) -> Facts:
    """Return what an array hands over for work on a stream, which its library has wait for the array.

    Raises AttributeError for one that is not read so.
    """
    try:
        capsule = value.__dlpack__(stream=stream or LEGACY)
    except (BufferError, RuntimeError, TypeError, ValueError):
        raise AttributeError from None
    return told_by(capsule, stream)


def told_by(capsule: Foreign, stream: int | None) -> Facts:
    """Return what a capsule tells; raises AttributeError for one that is not read so."""
    try:
        address = _pointer(capsule, b"dltensor")
    except (TypeError, ValueError):
        raise AttributeError from None
    (data, kind, device, rank, code, bits, lanes, shape_at, strides_at, offset) = _TENSOR.unpack(
        ctypes.string_at(address, _TENSOR.size)
    )
    dtype = _BY_CODE.get((code, bits)) if lanes == 1 else None
    if dtype is None or kind not in CUDA_DEVICES:
        raise AttributeError
    shape = struct.unpack(f"={rank}q", ctypes.string_at(shape_at, 8 * rank))
    strides = None
    if strides_at:
        in_elements = struct.unpack(f"={rank}q", ctypes.string_at(strides_at, 8 * rank))
        strides = apart(shape, dtype.size_bytes, [_in_bytes(stride * dtype.size_bytes) for stride in in_elements])
    return shape, sys.intern(dtype.name), data + offset, strides, False, stream, device, capsule


def _in_bytes(stride: int) -> int:
    """Return a stride as addresses take it, modulo 2^64: CuPy divides negative ones as if they had no sign."""
    return (stride + (1 << 63)) % (1 << 64) - (1 << 63)
