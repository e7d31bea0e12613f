"""CuPy: its arrays and streams, its own launch, and NVRTC by way of it."""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager, nullcontext
from functools import partial
from operator import attrgetter

from ..errors import UnavailableError
from ..types import DTYPES
from .adapter import ArrayView, Expressions, nameable, reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..table import Foreign
    from .adapter import Allocate
    from .told import Facts

NAME = "cupy"
_names: dict[Foreign, str] = {}


class CuPy:
    """CuPy's arrays and streams."""

    name = NAME

    def owns(self, value: object) -> bool:
        """Return whether a value is an array of CuPy."""
        module = sys.modules.get(NAME)
        return module is not None and isinstance(value, getattr(module, "ndarray", ()))

    def view(self, where: str, value: Foreign, stream: int, *, written: bool = False) -> ArrayView:
        """Return an array as launches see it."""
        del where, stream, written
        dtype = value.dtype
        known = _names.get(dtype) or _named(dtype)
        if not value.flags.c_contiguous:
            shape, strides = value.shape, value.strides
            nbytes = reach(shape, strides, dtype.itemsize)
            return ArrayView(value.data.ptr, known, shape, value.data.device_id, nbytes, value, strides)
        return ArrayView(value.data.ptr, known, value.shape, value.data.device_id, value.nbytes, value)

    def facts(self, value: Foreign) -> Facts:
        """Return what an array tells beside one of another library."""
        contiguous = getattr(value, "_c_contiguous", None)  # as in `expressions`
        if contiguous is None:
            contiguous = value.flags.c_contiguous
        strides, dtype = None if contiguous else value.strides, value.dtype
        data = value.data
        return value.shape, _names.get(dtype) or _named(dtype), data.ptr, strides, False, None, data.device_id, None

    def device_of(self, value: Foreign) -> int | None:
        """Return the ordinal of an array's device."""
        return int(value.data.device_id)

    def current_stream(self, device: int) -> int:
        """Return the handle of CuPy's current stream; the default stream's where CuPy is not imported."""
        cupy = sys.modules.get(NAME)
        return int(cupy.cuda.get_current_stream(device).ptr) if cupy is not None else 0

    def stream_of(self, stream: Foreign) -> tuple[int, int | None] | None:
        """Return a stream's handle and device."""
        if not (hasattr(stream, "ptr") and hasattr(stream, "__enter__")):  # memory and events have a ptr, too
            return None
        owner = getattr(stream, "device_id", -1)  # -1 or None where it does not know
        return int(stream.ptr), None if owner in {-1, None} else owner

    @contextmanager
    def on(self, device: int, stream: int | None) -> Iterator[None]:
        """Make a device, and a stream if one is given, those that CuPy works on."""
        cupy = sys.modules[NAME]
        with cupy.cuda.Device(device), nullcontext() if stream is None else _stream(cupy, stream, device):
            yield

    @contextmanager
    def allocating(self, where: str, device: int, stream: int | None) -> Iterator[Allocate]:
        """Give what makes a new array, and import CuPy for it."""
        try:
            cupy = importlib.import_module(NAME)
        except ImportError as error:
            from ..cuda_majors import CUPY_WHEELS  # noqa: PLC0415 - for an error alone

            missing = isinstance(error, ModuleNotFoundError) and error.name == NAME
            raise UnavailableError(
                f"{where} needs cupy to allocate an output: install {CUPY_WHEELS}, or pass the output"
                f"{'' if missing else f' ({error})'}"
            ) from None
        with self.on(device, stream):
            yield partial(made, cupy, where)

    def taken_in(self, value: Foreign) -> Foreign:
        """Return an array of another library as one of CuPy's, over the same memory."""
        named, dtype = nameable(value)
        array = sys.modules[NAME].asarray(named)
        return array if dtype is None else array.view(_numpy(NAME, dtype.name))

    def expressions(self) -> Expressions:
        """Return how the fast path asks CuPy's arrays.

        A shape is a tuple that is made at every question, so a vector is known by its size. The contiguity flag is
        asked where CuPy itself asks it, as long as it is there, since its public name costs too much.
        """
        cupy = sys.modules[NAME]
        return Expressions(
            address="{a}.data.ptr",
            dtype="{a}.dtype",
            device="{a}.data.device_id",
            contiguous="{a}._c_contiguous" if hasattr(cupy.ndarray, "_c_contiguous") else "{a}.flags.c_contiguous",
            stream="current().ptr",
            current_device="get_device()",
            names={
                "get_device": cupy.cuda.runtime.getDevice,
                "current": cupy.cuda.get_current_stream,
                "empty": partial(_empty, cupy),
                "strides_of": attrgetter("strides"),
            },
            type_of=_type_of,
            maker=partial(_maker, cupy),
            vector_extent=("{a}.size", "{a}.ndim == 1"),
            extent_of=lambda shape: shape[0] if len(shape) == 1 else shape,
        )


def _maker(cupy: Foreign, shape: tuple[int, ...], dtype: Foreign) -> Callable[[], Foreign]:
    """Return what makes an array; `cupy.empty` itself takes half as long again as the array that it makes."""
    plain = getattr(dtype, "kind", "V") in "biufc"
    return partial(cupy.ndarray, shape, dtype) if plain else partial(_empty, cupy, shape, dtype)


def _named(dtype: Foreign) -> str:
    """Return what a type is called, and note it."""
    found = _names[dtype] = sys.intern(dtype.name if dtype.isnative else dtype.str)
    return found


def _numpy(where: str, dtype: str) -> Foreign:
    """Return a type as NumPy has it; raises UnavailableError where the package that gives it is not installed."""
    try:
        return DTYPES[dtype].numpy()
    except ImportError as error:
        package = DTYPES[dtype].module
        raise UnavailableError(
            f"{where} needs {package} for a CuPy array of {dtype}: install {package}, or pass an array of PyTorch "
            f"({error})"
        ) from None


def _type_of(dtype: str) -> Foreign:
    """Return a type as NumPy has it; None where no array of CuPy can have it, since its package is not installed."""
    try:
        return DTYPES[dtype].numpy()
    except ImportError:
        return None


def made(cupy: Foreign, where: str, shape: tuple[int, ...], dtype: str) -> Foreign:
    """Return a new array of a type by its name; raises UnavailableError where NumPy does not have it here."""
    return _empty(cupy, shape, _numpy(where, dtype))


def making(cupy: Foreign, where: str, shape: tuple[int, ...], dtype: str) -> Callable[[], Foreign]:
    """Return what makes such arrays, for calls that come again."""
    return partial(_empty, cupy, shape, _numpy(where, dtype))


def _empty(cupy: Foreign, shape: Foreign, dtype: Foreign) -> Foreign:
    """Return a new array; CuPy has views of some types that it does not make arrays of."""
    try:
        return cupy.empty(shape, dtype)
    except ValueError:
        return cupy.empty(shape, f"u{dtype.itemsize}").view(dtype)


def launch_kernel() -> tuple[Foreign, type[Exception]] | None:
    """Return CuPy's own `launchKernel` and what it raises, where CuPy is imported and still has it.

    It is not a public name, but a quarter of a microsecond cheaper than a launch through ctypes.
    """
    driver = _driver()
    launch, error = getattr(driver, "launchKernel", None), getattr(driver, "CUDADriverError", None)
    return None if launch is None or error is None else (launch, error)


def thread_context() -> Callable[[], int] | None:
    """Return what CuPy asks the thread's context with, where CuPy is imported and still has it: cheaper than ctypes."""
    found: Callable[[], int] | None = getattr(_driver(), "ctxGetCurrent", None)
    return found


def _driver() -> Foreign:
    return getattr(getattr(sys.modules.get(NAME), "cuda", None), "driver", None)


def nvrtc() -> Foreign:
    """Return CuPy's binding of NVRTC; raises ImportError where there is none."""
    try:
        return importlib.import_module("cupy.cuda").nvrtc  # an attribute: it is not a module of that name
    except (AttributeError, ImportError) as error:
        from ..cuda_majors import NEWEST  # noqa: PLC0415 - for an error alone

        raise ImportError(f"compiling needs NVRTC by way of CuPy (install {NEWEST.cupy}[ctk]): {error}") from None


def _stream(cupy: Foreign, stream: int, device: int) -> Foreign:
    """Return a stream of CuPy's over a handle, by the name that its version has for that."""
    made = getattr(cupy.cuda.Stream, "from_external", None)
    return cupy.cuda.ExternalStream(stream, device) if made is None else made(_Handle(stream))


class _Handle:
    """A handle as the protocol for streams has it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle
