"""tvm-ffi: its tensors, and the stream that its environment names (`tvm_ffi.use_raw_stream`, `use_torch_stream`).

It allocates nothing from Python: an output is made by PyTorch, where that is imported, or by CuPy, on the environment's
stream, and handed over.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager

from ..driver import driver
from ..errors import ArgumentTypeError
from ..types import DTYPES
from .cupy import CuPy
from .dlpack import CUDA_DEVICES, told_by
from .told import Told, elsewhere
from .torch import NAME as TORCH
from .torch import PyTorch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from ..table import Foreign
    from .adapter import Adapter, Allocate, Expressions
    from .told import Facts

NAME = "tvm_ffi"
_cupy, _torch = CuPy(), PyTorch()


class TvmFfi(Told):
    """tvm-ffi's tensors on a GPU."""

    name = NAME

    def __init__(self, adapter_of: Callable[[object], Adapter | None]) -> None:
        super().__init__(adapter_of)
        self._asked: dict[str, Expressions] = {}  # how what makes tensors makes its own

    def owns(self, value: object) -> bool:
        """Return whether a value is a tensor."""
        module = sys.modules.get(NAME)
        return module is not None and isinstance(value, getattr(module, "Tensor", ()))

    def facts(self, value: Foreign) -> Facts:
        """Return what a tensor tells; raises AttributeError for one that is not on a GPU, or whose type has no name.

        It makes a capsule in less time than the object that is its dtype.
        """
        return told_by(value.__dlpack__(), None)

    def demand(self, where: str, value: Foreign, *, written: bool) -> None:
        """Raise ArgumentTypeError for a tensor that is not on a GPU, or whose elements are of no known type."""
        del written
        if value.__dlpack_device__()[0] not in CUDA_DEVICES:
            raise elsewhere(where, value, value.device, "torch.from_dlpack({}).cuda()")
        if str(value.dtype) not in DTYPES:
            raise ArgumentTypeError(f"{where}: expected elements of one of {', '.join(DTYPES)}, found {value.dtype}")

    def device_of(self, value: Foreign) -> int | None:
        """Return the ordinal of a tensor's device; None for one that is not on a GPU."""
        kind, ordinal = value.__dlpack_device__()
        return int(ordinal) if kind in CUDA_DEVICES else None

    def current_stream(self, device: int) -> int:
        """Return the handle of the stream that tvm-ffi's environment names."""
        library = sys.modules[NAME]
        return int(library.get_raw_stream(library.device("cuda", device)) or 0)

    def stream_of(self, stream: Foreign) -> tuple[int, int | None] | None:
        """Return None: its streams are handles."""
        del stream
        return None

    def on(self, device: int, stream: int | None) -> AbstractContextManager[None]:
        """Make a device, and a stream if one is given, those that what allocates works on."""
        return self._making().on(device, stream)

    @contextmanager
    def allocating(self, where: str, device: int, stream: int | None) -> Iterator[Allocate]:
        """Give what makes a new tensor."""
        take = sys.modules[NAME].from_dlpack
        order = self.current_stream(device) if stream is None else stream
        with self._making().allocating(where, device, order) as empty:
            yield lambda shape, dtype: take(empty(shape, dtype))

    def taken_in(self, value: Foreign) -> Foreign:
        """Return an array of another library as a tensor, over the same memory."""
        return sys.modules[NAME].from_dlpack(value)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Foreign:
        """Return a new tensor on the current device of what makes it."""
        making, ordinal = self._making(), driver("").current()
        if making.current_stream(ordinal) != self.current_stream(ordinal):
            with self.allocating(NAME, ordinal, None) as empty:
                return empty(shape, dtype)
        ask = self._asked.get(making.name) or self._asked.setdefault(making.name, making.expressions())
        return sys.modules[NAME].from_dlpack(ask.maker(shape, ask.type_of(dtype))())

    def _making(self) -> CuPy | PyTorch:
        """Return the adapter of the library that allocates."""
        return _torch if sys.modules.get(TORCH) is not None else _cupy
