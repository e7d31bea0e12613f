"""Warp: its arrays and streams.

Each device of Warp has a current stream of its own (`wp.get_stream`), on which calls go. An array of vectors or
matrices is read as its `numpy()` is: their extents follow its own.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from functools import partial

from ..errors import ArgumentError, ArgumentTypeError
from ..types import DTYPES
from .told import Told, elsewhere

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..table import Foreign
    from .adapter import Allocate
    from .told import Facts

NAME = "warp"
MOST_DIMS = 4
_read: dict[Foreign, tuple[str, tuple[int, ...], tuple[int, ...]]] = {}


class Warp(Told):
    """Warp's arrays on a GPU."""

    name = NAME

    def owns(self, value: object) -> bool:
        """Return whether a value is an array."""
        module = sys.modules.get(NAME)
        return module is not None and isinstance(value, getattr(module, "array", ()))

    def facts(self, value: Foreign) -> Facts:
        """Return what an array tells; raises AttributeError for one that `demand` has to see."""
        device = value.device.ordinal
        if device < 0 or (value.requires_grad and _recorded()):
            raise AttributeError
        dtype = value.dtype
        name, extents, apart = _read.get(dtype) or _reading(dtype)
        strides = None if value.is_contiguous else (*value.strides, *apart)
        return (*value.shape, *extents), name, value.ptr or 0, strides, False, None, device, None

    def demand(self, where: str, value: Foreign, *, written: bool) -> None:
        """Raise an error for an array that launches cannot use."""
        del written
        name = where.rpartition(" ")[2]
        if value.device is None:
            raise ArgumentTypeError(f"{where}: expected an array, found an annotation, {value!r}, which has no memory")
        if value.device.ordinal < 0:
            raise elsewhere(where, value, value.device, "{}.to('cuda')")
        if value.requires_grad and _recorded():
            raise ArgumentError(
                f"{where}: requires a gradient, and wp.Tape does not record this call; call it outside of the tape, or "
                f"under wp.Tape.record_func with a backward of your own, and pass {name}.detach()"
            )
        if not hasattr(value.dtype, "__mro__"):
            raise ArgumentTypeError(
                f"{where}: expected an array of numbers, found one of the struct {value.dtype.key}; pass its fields as "
                "arrays of their own"
            )

    def device_of(self, value: Foreign) -> int | None:
        """Return the ordinal of an array's device; None for one that is not on a GPU."""
        ordinal = getattr(value.device, "ordinal", -1)
        return None if ordinal < 0 else int(ordinal)

    def current_stream(self, device: int) -> int:
        """Return the handle of the device's current stream."""
        return int(sys.modules[NAME].get_cuda_device(device).stream.cuda_stream or 0)

    def stream_of(self, stream: Foreign) -> tuple[int, int | None] | None:
        """Return a stream's handle and device."""
        module = sys.modules.get(NAME)
        known = module is not None and isinstance(stream, getattr(module, "Stream", ()))
        if not known:
            return None
        return int(stream.cuda_stream or 0), int(stream.device.ordinal)

    @contextmanager
    def on(self, device: int, stream: int | None) -> Iterator[None]:
        """Make a device, and a stream if one is given, those that Warp works on."""
        warp = sys.modules[NAME]
        found = warp.get_cuda_device(device)
        order = nullcontext()
        if stream is not None:
            order = warp.ScopedStream(warp.Stream(found, cuda_stream=stream), sync_enter=False)
        with warp.ScopedDevice(found), order:
            yield

    @contextmanager
    def allocating(self, where: str, device: int, stream: int | None) -> Iterator[Allocate]:
        """Give what makes a new array."""
        with self.on(device, stream):
            yield partial(_made, where)

    def taken_in(self, value: Foreign) -> Foreign:
        """Return an array of another library as one of Warp's, over the same memory."""
        return sys.modules[NAME].from_dlpack(value)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Foreign:
        """Return a new array on Warp's current GPU, in the order of its stream."""
        return _made(NAME, shape, dtype)


def _made(where: str, shape: tuple[int, ...], dtype: str) -> Foreign:
    """Return a new array; raises ArgumentTypeError where Warp has none of its type or rank."""
    warp = sys.modules[NAME]
    if not 0 < len(shape) <= MOST_DIMS:
        raise ArgumentTypeError(
            f"{where}: Warp has no arrays of {len(shape)} dimensions; pass the output, such as an array of PyTorch"
        )
    if (found := getattr(warp, dtype, None)) is None:
        raise ArgumentTypeError(f"{where}: Warp has no type {dtype}; pass the output, such as an array of PyTorch")
    return warp.empty(shape, found, device=warp.get_cuda_device())


def _recorded() -> bool:
    """Return whether launches of Warp's are being recorded for a backward pass."""
    context = sys.modules.get("warp._src.context") or getattr(sys.modules[NAME], "context", None)
    return getattr(getattr(context, "runtime", None), "tape", None) is not None


def _reading(dtype: Foreign) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return a type's element by its name, the extents of a vector or matrix, and its strides in bytes; note them."""
    element: Foreign = getattr(dtype, "_wp_scalar_type_", dtype)
    name = sys.intern(element.__name__)
    extents = tuple(getattr(dtype, "_shape_", ()))
    size = DTYPES[name].size_bytes if name in DTYPES else 1
    strides: list[int] = []
    for extent in reversed(extents):
        strides.insert(0, size)
        size *= extent
    _read[dtype] = name, extents, tuple(strides)
    return _read[dtype]
