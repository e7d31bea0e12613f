"""The door for arrays: whatever a caller passes becomes a `View` here, or an error that names the argument."""

from __future__ import annotations

import importlib
import threading

from .errors import ArgumentError, ArgumentTypeError, UnavailableError, qualified

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Foreign

    View = tuple[int, str, tuple[int, ...], int, int]  # address, dtype, shape, device, bytes

_names: dict[Foreign, str] = {}
_cupy: list[Foreign] = []
_lock = threading.Lock()


def cupy(kernel: str) -> Foreign:
    """Return CuPy on a machine with a GPU; raises UnavailableError in `kernel`'s name."""
    if _cupy:
        return _cupy[0]
    with _lock:
        try:
            module = importlib.import_module("cupy")
        except ImportError as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == "cupy"
            reason = "" if missing else f" ({error})"
            raise UnavailableError(
                f"{qualified(kernel)} needs CuPy to run: install cupy-cuda13x (or cupy-cuda12x){reason}"
            ) from None
        runtime = module.cuda.runtime
        try:
            found = runtime.getDeviceCount()
            reason = "no device found"
        except runtime.CUDARuntimeError as error:
            found = 0
            reason = str(error) if runtime.driverGetVersion() else f"no driver is installed ({error})"
        if not found:
            raise UnavailableError(f"{qualified(kernel)} needs an NVIDIA GPU: {reason}")
        if not _cupy:
            _cupy.append(module)
    return module


def view(cupy: Foreign, kernel: str, name: str, value: Foreign) -> View:
    """Return `value` as (address, dtype, shape, device, bytes): a C-contiguous CuPy array, and nothing else yet."""
    if not isinstance(value, cupy.ndarray):
        kind = type(value)
        found = (
            f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
            if kind.__module__ != "builtins"
            else kind.__qualname__
        )
        hint = (
            f"; move it with cupy.asarray({name})"
            if hasattr(value, "__array__") or hasattr(value, "__dlpack__")
            else ""
        )
        raise ArgumentTypeError(f"{qualified(kernel)}: {name}: expected a cupy.ndarray, found {found}{hint}")
    if not value.flags.c_contiguous:
        raise ArgumentError(
            f"{qualified(kernel)}: {name}: expected a C-contiguous array, found strides {value.strides} for shape "
            f"{value.shape}; copy it with cupy.ascontiguousarray({name})"
        )
    dtype = value.dtype
    if (known := _names.get(dtype)) is None:
        known = _names[dtype] = dtype.name if dtype.isnative else dtype.str
    return value.data.ptr, known, value.shape, value.data.device_id, value.nbytes


def empty(cupy: Foreign, shape: tuple[int, ...], dtype: str) -> Foreign:
    """Return a new array on the current device and stream."""
    if dtype == "bfloat16":
        importlib.import_module("ml_dtypes")  # registers the name with NumPy
    return cupy.empty(shape, dtype)
