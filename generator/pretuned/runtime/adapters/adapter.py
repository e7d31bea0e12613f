"""What an adapter of an array library does: the seam between calls and the arrays that they bring."""

from __future__ import annotations

import sys
from functools import partial

from ..errors import ArgumentTypeError
from ..types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from typing import Protocol

    from ..table import Foreign
    from ..types import DType

    Allocate = Callable[[tuple[int, ...], str], Foreign]
else:
    Protocol = object  # importing typing would take longer than all else here


class ArrayView:
    """An array as launches see it: memory on a GPU. `owner`, and what is `kept`, have to live until the launch.

    `strides`, in bytes, are None for a C-contiguous array; `nbytes` is from its first byte to its last.
    """

    __slots__ = ("address", "device", "dtype", "kept", "nbytes", "owner", "shape", "strides")

    def __init__(
        self,
        address: int,
        dtype: str,
        shape: tuple[int, ...],
        device: int,
        nbytes: int,
        owner: Foreign,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.address, self.dtype, self.shape, self.device, self.nbytes = address, dtype, shape, device, nbytes
        self.owner, self.strides = owner, strides
        self.kept: Foreign = None


class Expressions:
    """How the fast path asks an array of a library: Python expressions, in which `{a}` is the array.

    An expression raises AttributeError for arrays of another library; the call then takes the slow path.

    Attributes:
        facts: What is asked of the array that leads a call first, and once; in all others `{a}` is then the answer. May
            be empty: for a library whose arrays are cheap to ask.
        beside: The same for the other arrays, which may be of other libraries.
        address: Its address.
        shape: Its shape, a tuple or what equals one.
        dtype: Its type. It is compared with `is`.
        device: The ordinal of its device; asked where a process has several GPUs. Negative for one on none.
        contiguous: Whether it is C-contiguous.
        each: A condition that every array has to meet besides, in which `handle` is the call's stream; may be empty.
        written: A condition that every array has to meet that is written; may be empty.
        on_gpu: A condition that an array on a GPU meets, where a library has others; asked where `device` is not.
        lazy: A condition that one of a complex type, or whose rows may lie apart, must not meet; may be empty.
        once: A condition of every call, which does not name an array; it is asked first, and may be empty.
        before: A condition that every array has to meet before an output is allocated; may be empty.
        stream: The handle of the library's current stream on the device `ordinal`.
        current_device: The ordinal of the library's current device.
        names: The objects that the expressions name, `empty`, which makes an array from (shape, dtype), and
            `strides_of`, which gives an array's strides; without it only C-contiguous arrays take the fast path.
        maker: Gives, for a shape and a type, what makes such an array on the current device; by `empty` if not given.
        type_of: Gives a type by its name, as the library has it.
        vector_extent: The extent of an array of one dimension, and the condition under which that determines the shape.
        extent_of: Gives what `vector_extent`, or the shape, is for a shape.
    """

    __slots__ = (
        "address",
        "before",
        "beside",
        "contiguous",
        "current_device",
        "device",
        "dtype",
        "each",
        "extent_of",
        "facts",
        "lazy",
        "maker",
        "names",
        "on_gpu",
        "once",
        "shape",
        "stream",
        "type_of",
        "vector_extent",
        "written",
    )

    def __init__(  # noqa: PLR0913 - a record
        self,
        *,
        address: str,
        dtype: str,
        device: str,
        contiguous: str,
        stream: str,
        current_device: str,
        names: Mapping[str, Foreign],
        type_of: Callable[[str], Foreign],
        facts: str = "",
        beside: str = "",
        shape: str = "{a}.shape",
        each: str = "",
        written: str = "",
        lazy: str = "",
        on_gpu: str = "",
        maker: Callable[[tuple[int, ...], Foreign], Callable[[], Foreign]] | None = None,
        once: str = "",
        before: str = "",
        vector_extent: tuple[str, str] | None = None,
        extent_of: Callable[[tuple[int, ...]], Foreign] = tuple,
    ) -> None:
        self.address, self.dtype, self.device, self.contiguous = address, dtype, device, contiguous
        self.stream, self.current_device, self.names, self.type_of = stream, current_device, names, type_of
        self.facts, self.beside, self.shape = facts, beside, shape
        self.each, self.written, self.lazy = each, written, lazy
        self.on_gpu, self.maker = on_gpu, maker or partial(partial, names["empty"])
        self.once, self.before = once, before
        self.vector_extent, self.extent_of = vector_extent or (shape, ""), extent_of

    def extent(self, rank: int) -> tuple[str, str]:
        """Return the expression of what determines a shape, and of the condition under which it does."""
        return self.vector_extent if rank == 1 else (self.shape, "")


class Adapter(Protocol):
    """How the arrays and streams of one library are read. Only `owns` and `stream_of` meet values of other libraries.

    `where` begins a message: the kernel and the argument.
    """

    @property
    def name(self) -> str:
        """The library's name, which is that of its module."""

    def owns(self, value: object) -> bool:
        """Return whether a value is an array of the library; imports nothing."""

    def view(self, where: str, value: Foreign, stream: int, *, written: bool) -> ArrayView:
        """Return an array as launches on a stream see it; raises a PretunedError for one that they cannot use."""

    def device_of(self, value: Foreign) -> int | None:
        """Return the ordinal of an array's device; None where the array does not tell it."""

    def current_stream(self, device: int) -> int:
        """Return the handle of the stream that the library launches on now."""

    def stream_of(self, stream: Foreign) -> tuple[int, int | None] | None:
        """Return a stream's handle and device (None where it does not tell it); None for what is not a stream of it."""

    def on(self, device: int, stream: int | None) -> AbstractContextManager[None]:
        """Make a device, and a stream if one is given, those that the library works on."""

    def allocating(self, where: str, device: int, stream: int | None) -> AbstractContextManager[Allocate]:
        """Give what makes a new array of (shape, dtype), in the order of a stream, or of the library's current one."""

    def taken_in(self, value: Foreign) -> Foreign:
        """Return an array of another library as one of this library, over the same memory."""

    def expressions(self) -> Expressions | None:
        """Return how the fast path asks the library's arrays; None for a library whose calls take the slow path."""


def nameable(value: Foreign) -> tuple[Foreign, DType | None]:
    """Return an array for `__cuda_array_interface__`, and its own type where that is not the type of what is returned.

    A type that the interface cannot name goes as integers of its size.
    """
    dtype = DTYPES.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
    if dtype is None or dtype.typestr:
        return value, None
    integers = f"int{8 * dtype.size_bytes}"
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(value, torch.Tensor)
    return value.view(getattr(torch, integers) if is_tensor else integers), dtype


def reach(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> int:
    """Return the bytes from the first of an array to its last, of elements of `size` bytes."""
    if 0 in shape:
        return 0
    return size + sum((extent - 1) * abs(stride) for extent, stride in zip(shape, strides, strict=True))


def not_an_array(where: str, value: object) -> ArgumentTypeError:
    """Return the error for what is not an array on a GPU."""
    name = where.rpartition(" ")[2]
    movable = not isinstance(value, type) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))
    hint = f"; move it with cupy.asarray({name}) or torch.as_tensor({name}, device='cuda')" if movable else ""
    return ArgumentTypeError(
        f"{where}: expected an array on the GPU (CuPy, PyTorch, or one with __cuda_array_interface__ or __dlpack__), "
        f"found {kind_of(value)}{hint}"
    )


def kind_of(value: object) -> str:
    """Return what a value is, for messages: `numpy.ndarray`, `None`, `the class torch.Tensor`."""
    if value is None:
        return "None"
    kind = value if isinstance(value, type) else type(value)
    root = kind.__module__.partition(".")[0]
    name = kind.__qualname__ if root == "builtins" else f"{root}.{kind.__qualname__}"
    return f"the class {name}" if kind is value else name
