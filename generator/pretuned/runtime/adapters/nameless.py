"""Arrays that name no library to launch or allocate for them: what holds for all of them.

Their calls go on CuPy's current stream, the default stream where CuPy is not imported, and CuPy is imported where an
output has to be allocated.
"""

from __future__ import annotations

import sys

from ..types import DTYPES
from .cupy import NAME as CUPY
from .cupy import CuPy, made, making
from .told import Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from ..table import Foreign
    from .adapter import Allocate

BY_TYPESTR = {
    order + dtype.typestr: sys.intern(dtype.name) for dtype in DTYPES.values() if dtype.typestr for order in "<|="
}
STREAMS = CuPy()


class Nameless(Told):
    """What holds for arrays that name no library."""

    def current_stream(self, device: int) -> int:
        """Return the handle of CuPy's current stream."""
        return STREAMS.current_stream(device)

    def stream_of(self, stream: Foreign) -> tuple[int, int | None] | None:
        """Return the handle of a stream with __cuda_stream__, which has no device."""
        return (int(stream.__cuda_stream__()[1]), None) if hasattr(stream, "__cuda_stream__") else None

    def on(self, device: int, stream: int | None) -> AbstractContextManager[None]:
        """Make a device, and a stream if one is given, those that CuPy works on."""
        return STREAMS.on(device, stream)

    def allocating(self, where: str, device: int, stream: int | None) -> AbstractContextManager[Allocate]:
        """Give what makes a new array of CuPy's."""
        return STREAMS.allocating(where, device, stream)

    def taken_in(self, value: Foreign) -> Foreign:
        """Return the array as it is."""
        return value

    def empty(self, shape: tuple[int, ...], dtype: str) -> Foreign:
        """Return a new array of CuPy's; raises AttributeError where it is not imported yet."""
        return made(sys.modules.get(CUPY), CUPY, shape, dtype)

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Foreign]:
        """Return what makes such an array of CuPy's."""
        cupy = sys.modules.get(CUPY)
        return super().maker(shape, dtype) if cupy is None else making(cupy, CUPY, shape, dtype)

    def names(self) -> Mapping[str, Foreign]:
        """Return what CuPy asks itself, where it is imported."""
        cupy = sys.modules.get(CUPY)
        return {} if cupy is None else {"current_device": cupy.cuda.runtime.getDevice}
