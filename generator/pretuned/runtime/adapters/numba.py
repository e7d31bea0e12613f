"""Numba-CUDA: its device arrays and streams.

Numba has no current stream: its launches go on the default stream unless they name another one, and so do these calls.
An array that names a stream (`array.bind(stream)`) is waited for.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial

from ..types import DTYPES
from .told import LEGACY, Told, apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..table import Foreign
    from .adapter import Allocate
    from .told import Facts

NAME = "numba"
ARRAYS, DRIVER = "numba.cuda.cudadrv.devicearray", "numba.cuda.cudadrv.driver"
_names: dict[Foreign, str] = {}


class Numba(Told):
    """Numba's arrays on a GPU, managed and mapped ones included."""

    name = NAME

    def owns(self, value: object) -> bool:
        """Return whether a value is a device array."""
        module = sys.modules.get(ARRAYS)
        return module is not None and isinstance(value, getattr(module, "DeviceNDArrayBase", ()))

    def facts(self, value: Foreign) -> Facts:
        """Return what an array tells. Its interface calls an array contiguous that repeats one row: strides do not."""
        dtype, shape = value.dtype, value.shape
        name = _names.get(dtype) or _named(dtype)
        strides = apart(shape, dtype.itemsize, value.strides)
        stream = value.stream
        theirs = None if stream is None or stream == 0 else int(stream)
        theirs = 0 if theirs == LEGACY else theirs
        memory = value.gpu_data
        return shape, name, memory.device_pointer_value or 0, strides, False, theirs, memory.context.device.id, None

    def device_of(self, value: Foreign) -> int | None:
        """Return the ordinal of an array's device."""
        return int(value.gpu_data.context.device.id)

    def current_stream(self, device: int) -> int:
        """Return the default stream's handle."""
        del device
        return 0

    def stream_of(self, stream: Foreign) -> tuple[int, int | None] | None:
        """Return a stream's handle; it does not tell its device."""
        module = sys.modules.get(DRIVER)
        return (int(stream), None) if module is not None and isinstance(stream, module.Stream) else None

    @contextmanager
    def on(self, device: int, stream: int | None) -> Iterator[None]:
        """Make a device the one that Numba works on; streams are named at each of its launches."""
        del stream
        with sys.modules["numba.cuda"].gpus[device]:
            yield

    @contextmanager
    def allocating(self, where: str, device: int, stream: int | None) -> Iterator[Allocate]:
        """Give what makes a new array. Numba's own allocator waits for no stream, and frees when the GPU is done."""
        del where
        with self.on(device, stream):
            yield self.empty

    def taken_in(self, value: Foreign) -> Foreign:
        """Return an array of another library as one of Numba's, over the same memory."""
        return sys.modules["numba.cuda"].as_cuda_array(value, sync=False)

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Foreign]:
        """Return what makes such an array."""
        return partial(sys.modules["numba.cuda"].device_array, shape, DTYPES[dtype].numpy())

    def empty(self, shape: tuple[int, ...], dtype: str) -> Foreign:
        """Return a new array on Numba's current device."""
        return sys.modules["numba.cuda"].device_array(shape, DTYPES[dtype].numpy())


def _named(dtype: Foreign) -> str:
    """Return what a type is called, and note it."""
    found = _names[dtype] = sys.intern(dtype.name if dtype.isnative else dtype.str)
    return found
