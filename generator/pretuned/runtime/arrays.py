"""The doors for arrays and streams: whatever a caller passes becomes a `View` or a handle here, or an error by name.

CuPy's and PyTorch's arrays are known by their types, and have lanes of their own (see `lanes`). Anything else comes in
by `__cuda_array_interface__`, or through DLPack as an array of CuPy or PyTorch, whichever is imported. Nothing is ever
copied, and a library is imported only where an output has to be allocated.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager, nullcontext

from .driver import DriverError, driver
from .errors import ArgumentError, ArgumentTypeError, UnavailableError, qualified
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from . import Foreign
    from .driver import Driver

    View = tuple[int, str, tuple[int, ...], int, int]  # address, dtype, shape, device, bytes

CUDA_DEVICES = {2, 13}  # of DLPack: kDLCUDA, kDLCUDAManaged
HANDLES = 2**64
STREAMS = "a CuPy or PyTorch stream, an object with __cuda_stream__, a handle, or None"
_INTERFACE = {dtype.typestr: dtype.name for dtype in DTYPES.values() if dtype.typestr}
_names: dict[Foreign, str] = {}


def library_of(value: object) -> str:
    """Return `cupy`, `torch`, `interface`, `dlpack`, or an empty string for what is no array on a GPU."""
    for name, kind in (("cupy", "ndarray"), ("torch", "Tensor")):
        module = sys.modules.get(name)
        if module is not None and isinstance(value, getattr(module, kind, ())):
            return name
    if isinstance(value, type):  # a class has what its objects have
        return ""
    if hasattr(value, "__cuda_array_interface__"):
        return "interface"
    if hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) in CUDA_DEVICES:
        return "dlpack"
    return ""


def view(kernel: str, name: str, value: Foreign, stream: int, *, written: bool = False) -> tuple[View, Foreign]:
    """Return `value` as (address, dtype, shape, device, bytes), and what has to live until the launch.

    C-contiguous, and nothing else is asked yet. An array that names a stream of its own is waited for on `stream`.
    """
    library = library_of(value)
    if library == "dlpack":
        value = _taken_in(kernel, name, value)
        library = library_of(value)
    look = {"cupy": _of_cupy, "torch": _of_torch, "interface": _of_interface}.get(library)
    if look is None:
        raise no_array(kernel, name, value)
    seen = look(kernel, name, value, stream)
    if written and library == "interface" and value.__cuda_array_interface__["data"][1]:
        raise ArgumentError(
            f"{qualified(kernel)}: {name}: expected an array that may be written, found a read-only one"
        )
    return seen, value


def _of_cupy(kernel: str, name: str, value: Foreign, _stream: int) -> View:
    if not value.flags.c_contiguous:
        raise _strided(kernel, name, value.strides, value.shape, f"cupy.ascontiguousarray({name})")
    dtype = value.dtype
    if (known := _names.get(dtype)) is None:
        known = _names[dtype] = dtype.name if dtype.isnative else dtype.str
    return value.data.ptr, known, value.shape, value.data.device_id, value.nbytes


def _of_torch(kernel: str, name: str, value: Foreign, _stream: int) -> View:
    if not value.is_cuda:
        raise ArgumentTypeError(
            f"{qualified(kernel)}: {name}: expected an array on the GPU, found a torch.Tensor on {value.device}; "
            f"move it with {name}.cuda()"
        )
    if not value.is_contiguous():
        strides = tuple(size * value.element_size() for size in value.stride())
        raise _strided(kernel, name, strides, tuple(value.shape), f"{name}.contiguous()")
    dtype = str(value.dtype).removeprefix("torch.")
    nbytes = value.numel() * value.element_size()
    return value.data_ptr(), dtype, tuple(value.shape), value.get_device(), nbytes


def _of_interface(kernel: str, name: str, value: Foreign, stream: int) -> View:
    """Read the CUDA array interface, version 2 or 3: numba.readthedocs.io, "CUDA Array Interface"."""
    facts = value.__cuda_array_interface__
    try:
        shape, (address, _), order = tuple(facts["shape"]), facts["data"], facts["typestr"]
        size = int(order[2:])
    except (KeyError, IndexError, TypeError, ValueError):
        raise ArgumentTypeError(
            f"{qualified(kernel)}: {name}: expected a __cuda_array_interface__ with shape, data and a typestr such as "
            f"'<f4', found {facts!r}"
        ) from None
    swapped = size > 1 and order[0] not in {"=", "|", "<" if sys.byteorder == "little" else ">"}
    dtype = order if swapped else _INTERFACE.get(order[1:], order)
    dense: list[int] = []
    nbytes = size
    for extent in reversed(shape):
        dense.insert(0, nbytes)
        nbytes *= extent
    strides = facts.get("strides")
    if (
        strides is not None
        and nbytes
        and any(extent > 1 and found != wanted for extent, found, wanted in zip(shape, strides, dense, strict=True))
    ):
        raise _strided(kernel, name, tuple(strides), shape, "its library")
    found = driver(qualified(kernel))
    try:
        ordinal = found.device_of(address) if address else found.current()
    except DriverError as error:
        raise ArgumentError(
            f"{qualified(kernel)}: {name}: expected memory of a GPU, found the address {address:#x} ({error})"
        ) from None
    theirs = facts.get("stream")
    if theirs is not None and theirs != stream:
        with found.on(ordinal):
            found.wait(stream, theirs)
    return address, dtype, shape, ordinal, nbytes


def _taken_in(kernel: str, name: str, value: Foreign) -> Foreign:
    library = next((library for library in ("cupy", "torch") if library in sys.modules), "cupy")
    try:
        return importlib.import_module(library).from_dlpack(value)
    except ImportError:
        raise UnavailableError(
            f"{qualified(kernel)}: {name}: a {_kind(value)} is read through DLPack, which needs CuPy or PyTorch"
        ) from None
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"{qualified(kernel)}: {name}: a {_kind(value)} is read through DLPack, and {library} cannot: {error}"
        ) from None


def _kind(value: object) -> str:
    if value is None:
        return "None"
    kind = value if isinstance(value, type) else type(value)
    root = kind.__module__.partition(".")[0]
    name = kind.__qualname__ if root == "builtins" else f"{root}.{kind.__qualname__}"
    return f"the class {name}" if kind is value else name


def no_array(kernel: str, name: str, value: object) -> ArgumentTypeError:
    """Return the error for what is no array on a GPU."""
    movable = not isinstance(value, type) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))
    hint = f"; move it with cupy.asarray({name}) or torch.as_tensor({name}, device='cuda')" if movable else ""
    return ArgumentTypeError(
        f"{qualified(kernel)}: {name}: expected an array on the GPU (CuPy, PyTorch, or one with "
        f"__cuda_array_interface__ or __dlpack__), found {_kind(value)}{hint}"
    )


def _strided(kernel: str, name: str, strides: tuple[int, ...], shape: tuple[int, ...], remedy: str) -> ArgumentError:
    return ArgumentError(
        f"{qualified(kernel)}: {name}: expected a C-contiguous array, found strides {strides} for shape {shape}; "
        f"copy it with {remedy}"
    )


def device_at_hand(driver: Driver, library: str, value: Foreign) -> int:
    """Return the ordinal of the device that an array lies on, or of the thread's current one where it does not tell."""
    if library == "cupy":
        return int(value.data.device_id)
    if library == "torch" and value.is_cuda:
        return int(value.get_device())
    return driver.current()


@contextmanager
def allocating(kernel: str, library: str, device: int, stream: int | None) -> Iterator[Callable[..., Foreign]]:
    """Yield what makes a new array of (shape, dtype) of `library`, or of CuPy for arrays of other libraries.

    Its memory is taken in the order of `stream`, or of the library's current one.
    """
    if library == "torch":
        torch = sys.modules["torch"]
        with on_stream("torch", device, stream):
            yield lambda shape, dtype: torch.empty(shape, dtype=getattr(torch, dtype), device=device)
    else:
        cupy = imported(kernel, "cupy")
        with on_stream("cupy", device, stream):
            yield lambda shape, dtype: cupy.empty(shape, DTYPES[dtype].numpy())


@contextmanager
def on_stream(library: str, device: int, stream: int | None) -> Iterator[None]:
    """Make a device, and a stream if one is given, those that a library works on."""
    if library == "torch":
        torch = sys.modules["torch"]
        stream_of = torch.cuda.ExternalStream(stream, device=device) if stream is not None else None
        with torch.cuda.device(device), torch.cuda.stream(stream_of):
            yield
    else:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device), nullcontext() if stream is None else _cupy_stream(cupy, stream, device):
            yield


def _cupy_stream(cupy: Foreign, stream: int, device: int) -> Foreign:
    """Return a stream of CuPy's over a handle, by the name that its version has for that."""
    made = getattr(cupy.cuda.Stream, "from_external", None)
    if made is None:
        return cupy.cuda.ExternalStream(stream, device)
    return made(_Handle(stream))


class _Handle:
    """A handle as the protocol for streams has it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def imported(kernel: str, library: str) -> Foreign:
    """Return an array library; raises UnavailableError where it is not installed."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == library
        wheel = "cupy-cuda13x (or cupy-cuda12x)" if library == "cupy" else library
        raise UnavailableError(
            f"{qualified(kernel)} needs {library} to allocate an output: install {wheel}, or pass the output"
            f"{'' if missing else f' ({error})'}"
        ) from None


def current_stream(library: str, device: int) -> int:
    """Return the handle of the stream that `library` launches on now on a device; CuPy's for other libraries."""
    if library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)
    cupy = sys.modules.get("cupy")
    return int(cupy.cuda.get_current_stream(device).ptr) if cupy is not None else 0


def handle_of(kernel: str, stream: Foreign, device: int) -> int:
    """Return a stream's handle; raises ArgumentTypeError for what is none, or one of another device."""
    if type(stream) is int:
        if 0 <= stream < HANDLES:
            return stream
        raise ArgumentError(
            f"{qualified(kernel)}: stream: expected a handle from 0 to {HANDLES - 1:#x}, found {stream:#x}"
        )
    owner = getattr(stream, "device_id", -1)  # CuPy's; -1 or None where it does not know
    if hasattr(stream, "cuda_stream"):  # PyTorch's
        handle, owner = stream.cuda_stream, stream.device_index
    elif hasattr(stream, "ptr") and hasattr(stream, "__enter__"):  # memory and events have a ptr, too
        handle = stream.ptr
    elif hasattr(stream, "__cuda_stream__"):
        handle = stream.__cuda_stream__()[1]
    else:
        raise ArgumentTypeError(f"{qualified(kernel)}: stream: expected {STREAMS}, found {_kind(stream)}")
    if owner not in {-1, None, device}:
        raise ArgumentTypeError(
            f"{qualified(kernel)}: stream: expected device {device} as the arrays have, found device {owner}"
        )
    return int(handle)
