"""How CuPy's and PyTorch's arrays are asked what a call needs to know, as expressions that lanes are written from.

Public names, but for two that cost too much: CuPy's contiguity flag and PyTorch's current stream are asked where the
libraries themselves ask them, as long as they are there, and else by their public names.
"""

from __future__ import annotations

import sys
from functools import partial

from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from . import Foreign


class Dialect:
    """Expressions of `{a}`, an array, and the names that they use.

    What no array of the library has raises AttributeError where another library's is asked. `each` is asked of every
    array, where it says something; `device` and `current_device` are compared where a process has several GPUs;
    `stream` is the current one's handle. `type_of` gives a type by name as the library has it.
    """

    address: str
    device: str
    stream: str
    contiguous: str
    library: str
    type_of: Callable[[str], Foreign]
    each = ""
    dtype = "{a}.dtype"
    current_device = "get_device()"

    def __init__(self) -> None:
        self.names: dict[str, Foreign] = {}

    def extent(self, rank: int) -> tuple[str, str]:
        """Return the expressions of what tells a shape, and of what has to hold for it to do so."""
        del rank
        return "{a}.shape", ""

    def told(self, shape: tuple[int, ...]) -> Foreign:
        """Return what `extent` gives for a shape."""
        return shape


class Cupy(Dialect):
    """CuPy's arrays. Their shape is a tuple made at every question, so vectors are told by their size."""

    library = "cupy"
    address = "{a}.data.ptr"
    device = "{a}.data.device_id"
    stream = "current().ptr"

    def __init__(self) -> None:
        super().__init__()
        cupy, self.type_of = sys.modules["cupy"], lambda dtype: DTYPES[dtype].numpy()
        self.contiguous = "{a}._c_contiguous" if hasattr(cupy.ndarray, "_c_contiguous") else "{a}.flags.c_contiguous"
        self.names = {
            "get_device": cupy.cuda.runtime.getDevice,
            "current": cupy.cuda.get_current_stream,
            "empty": cupy.empty,
        }

    def extent(self, rank: int) -> tuple[str, str]:
        """Return the expressions of what tells a shape, and of what has to hold for it to do so."""
        return ("{a}.size", "{a}.ndim == 1") if rank == 1 else ("{a}.shape", "")

    def told(self, shape: tuple[int, ...]) -> Foreign:
        """Return what `extent` gives for a shape."""
        return shape[0] if len(shape) == 1 else shape


class Torch(Dialect):
    """PyTorch's tensors; `torch.Size` equals a tuple, and hashes as one."""

    library = "torch"
    address = "{a}.data_ptr()"
    device = "{a}.get_device()"
    contiguous = "{a}.is_contiguous()"
    each = "{a}.is_cuda"

    def __init__(self) -> None:
        super().__init__()
        torch = sys.modules["torch"]
        self.type_of = partial(getattr, torch)
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # noqa: SLF001 - guarded; see above
        self.stream = "stream_of().cuda_stream" if raw is None else "raw(ordinal)"
        self.names = {
            "get_device": torch.cuda.current_device,
            "stream_of": torch.cuda.current_stream,
            "raw": raw,
            "empty": lambda shape, dtype: torch.empty(shape, dtype=dtype, device="cuda"),
        }


def dialect_of(library: str) -> Dialect | None:
    """Return how arrays of a library are asked; None for one that has no lane."""
    return Cupy() if library == "cupy" else Torch() if library == "torch" else None
