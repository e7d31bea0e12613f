"""The adapters: how arrays and streams of each library are read. Nothing is copied, and no library is imported here.

A value belongs to the first adapter that owns it: those of libraries, then those of the shared protocols. `register`
adds one for another library.
"""

from __future__ import annotations

from ..errors import ArgumentError, ArgumentTypeError
from .adapter import Adapter, ArrayView, Expressions, kind_of, not_an_array
from .cupy import CuPy, launch_kernel, nvrtc, thread_context
from .dlpack import DLPack
from .interface import Interface
from .jax import JAX
from .numba import Numba
from .torch import PyTorch
from .tvm_ffi import TvmFfi
from .warp import Warp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..table import Foreign

__all__ = [
    "Adapter",
    "ArrayView",
    "Expressions",
    "absent",
    "adapter_of",
    "handle_of",
    "launch_kernel",
    "named",
    "nameless",
    "nvrtc",
    "on_gpu",
    "on_register",
    "register",
    "thread_context",
    "view",
]

HANDLES = 2**64
STREAMS = "a CuPy or PyTorch stream, an object with __cuda_stream__, a handle, or None"
on_register: list[Callable[[], None]] = []  # called when what earlier adapters have said no longer holds


def register(adapter: Adapter) -> None:
    """Add an adapter, before all others; one of the same name makes way, for later calls of every kernel."""
    _libraries[:] = [adapter, *(one for one in _libraries if one.name != adapter.name)]
    for forget in on_register:
        forget()


def named(name: str) -> Adapter:
    """Return the adapter of a library, by its name."""
    return next(one for one in _libraries if one.name == name)


def adapter_of(value: object) -> Adapter | None:
    """Return the adapter that owns a value; None for what is not an array on a GPU."""
    for one in _libraries:  # every array of a slow call comes here, and loops take a quarter of a generator's time
        if one.owns(value):
            return one
    for one in _protocols:
        if one.owns(value):
            return one
    return None


_libraries: list[Adapter] = [
    *(CuPy(), PyTorch()),
    *(library(adapter_of) for library in (Numba, Warp, TvmFfi, JAX)),
]
_protocols: list[Adapter] = [Interface(adapter_of), DLPack(adapter_of, _libraries)]


def nameless() -> Adapter:
    """Return the adapter of arrays that name no library: what counts where no array leads a call."""
    return _protocols[0]


def on_gpu(value: object) -> bool:
    """Return whether a value is an array on a GPU, as far as it is known without reading it."""
    return adapter_of(value) is not None


def view(where: str, value: Foreign, stream: int, *, written: bool = False) -> ArrayView:
    """Return an array as launches on a stream see it; `where` begins messages, as in `pkg.tuned.axpby: x`."""
    adapter = adapter_of(value)
    if adapter is None:
        raise not_an_array(where, value)
    return adapter.view(where, value, stream, written=written)


def absent(device: int, shape: tuple[int, ...], dtype: str) -> ArrayView:
    """Return what stands for an array that a call leaves out: the shape and dtype that it would have, at address 0."""
    return ArrayView(0, dtype, shape, device, 0, None)


def handle_of(kernel: str, stream: Foreign, device: int) -> int:
    """Return a stream's handle; raises ArgumentTypeError for what is not a stream, or is one of another device."""
    if type(stream) is int:
        if 0 <= stream < HANDLES:
            return stream
        raise ArgumentError(f"{kernel}: stream: expected a handle from 0 to {HANDLES - 1:#x}, found {stream:#x}")
    for adapter in (*_libraries, *_protocols):
        if (found := adapter.stream_of(stream)) is not None:
            handle, owner = found
            if owner not in {None, device}:
                raise ArgumentTypeError(
                    f"{kernel}: stream: expected device {device} as the arrays have, found device {owner}"
                )
            return handle
    raise ArgumentTypeError(f"{kernel}: stream: expected {STREAMS}, found {kind_of(stream)}")
