"""The CUDA driver through ctypes: what a call needs of it, and nothing of any array library's insides.

`cuLaunchKernelEx` takes four arguments where `cuLaunchKernel` takes eleven, which makes it the cheapest public way to
launch from Python: the rest stands in a block of memory that is prepared ahead (see `plans`). Contexts are the primary
ones, which CuPy, PyTorch and the CUDA runtime share. Names and numbers are those of cuda.h.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from ctypes import CDLL, byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_void_p, create_string_buffer
from functools import partial

from .errors import LaunchError, UnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .table import Foreign

# CUdevice_attribute
MAX_BLOCK_THREADS = 1
SHARED_BYTES = 8
MAX_BLOCK_REGISTERS = 12
SM_COUNT = 16
MEMORY_CLOCK_KHZ = 36
MEMORY_BUS_BITS = 37
L2_BYTES = 38
CAPABILITY_MAJOR = 75
CAPABILITY_MINOR = 76
SHARED_OPTIN_BYTES = 97
# CUfunction_attribute
STATIC_SHARED_BYTES = 1
MAX_DYNAMIC_SHARED_BYTES = 8
NON_PORTABLE_CLUSTER = 14
# CUresult
_INVALID_CLUSTER_SIZE = 912

_lock = threading.RLock()
_loaded: list[Driver] = []


class DriverError(Exception):
    """The driver refused; the message names the call and the CUresult."""


class DeviceQueries:
    """What a loaded libcuda says of devices by their ordinals; needs no context. `library` has its functions."""

    __slots__ = ("_library",)

    def __init__(self, library: Foreign) -> None:
        self._library = library

    def _find(self, name: str) -> Foreign:
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise DriverError(f"{name} is missing: the driver is older than CUDA 12.0") from None

    def ask(self, name: str, *arguments: Foreign) -> None:
        """Call a function of the driver; raises DriverError where it does not answer success."""
        if status := self._find(name)(*arguments):
            raise DriverError(f"{name}: {self.named(status)}")

    def named(self, status: int) -> str:
        """Return a CUresult's name, as `CUDA_ERROR_INVALID_VALUE`."""
        text = c_char_p()
        if self._library.cuGetErrorName(c_int(status), byref(text)) or not text.value:
            return f"CUresult {status}"
        return text.value.decode()

    def attribute(self, attribute: int, ordinal: int) -> int:
        """Return one of the device attributes above."""
        value = c_int()
        self.ask("cuDeviceGetAttribute", byref(value), c_int(attribute), c_int(self._device(ordinal)))
        return value.value

    def name(self, ordinal: int) -> str:
        """Return a device's name."""
        text = create_string_buffer(256)
        self.ask("cuDeviceGetName", text, c_int(len(text)), c_int(self._device(ordinal)))
        return text.value.decode(errors="replace")

    def memory_gbps(self, ordinal: int) -> int:
        """Return the peak bandwidth in GB/s, or 0 if the driver does not report clock and bus.

        Two transfers a clock, times the clock, times the bus in bytes: 'Theoretical Bandwidth Calculation' of the CUDA
        C++ Best Practices Guide.
        """
        try:
            khz, bits = (self.attribute(key, ordinal) for key in (MEMORY_CLOCK_KHZ, MEMORY_BUS_BITS))
        except DriverError:
            return 0
        return round(2 * khz * 1e3 * (bits / 8) / 1e9)

    def _device(self, ordinal: int) -> int:
        device = c_int()
        self.ask("cuDeviceGet", byref(device), c_int(ordinal))
        return device.value


class Driver(DeviceQueries):
    """A loaded libcuda, initialised. `launch(configuration, function, parameters, None)` answers 0 for success."""

    __slots__ = ("_contexts", "count", "launch", "version")

    def __init__(self, library: Foreign) -> None:
        super().__init__(library)
        number = c_int()
        self.ask("cuInit", c_uint(0))
        self.ask("cuDriverGetVersion", byref(number))
        self.version = number.value
        self.ask("cuDeviceGetCount", byref(number))
        self.count = number.value
        if not self.count:
            raise DriverError("no device found")
        self._find("cuLibraryLoadData")  # or a first call would be the first to miss it
        self.launch = self._find("cuLaunchKernelEx")
        self._contexts: dict[int, int] = {}

    def current(self) -> int:
        """Return the ordinal of the calling thread's device; 0 where it has none yet."""
        device = c_int()
        if not self.current_context():
            return 0
        self.ask("cuCtxGetDevice", byref(device))
        return next(ordinal for ordinal in range(self.count) if self._device(ordinal) == device.value)

    def device_of(self, address: int) -> int:
        """Return the ordinal of the device that an address belongs to."""
        ordinal = c_int()
        self.ask("cuPointerGetAttribute", byref(ordinal), c_int(9), c_void_p(address))  # ..._DEVICE_ORDINAL
        return ordinal.value

    def in_use(self, ordinal: int) -> bool:
        """Return whether the process has made a device's primary context."""
        flags, active = c_uint(), c_int()
        self.ask("cuDevicePrimaryCtxGetState", c_int(self._device(ordinal)), byref(flags), byref(active))
        return bool(active.value)

    @contextmanager
    def on(self, ordinal: int) -> Iterator[None]:
        """Make a device's primary context the calling thread's; a thread that had none keeps the first device's."""
        wanted, before = self.context(ordinal), self.current_context()
        if before == wanted:
            yield
            return
        self.ask("cuCtxSetCurrent", c_void_p(wanted))
        try:
            yield
        finally:
            if before or ordinal:  # without a context a thread is on the first device
                self.ask("cuCtxSetCurrent", c_void_p(before))

    def load(self, image: bytes) -> int:
        """Load a cubin or PTX for all contexts, and return the library.

        The driver may look at it no sooner than at `function`, which then refuses what it cannot take.
        """
        library, none = c_void_p(), (None, None, c_uint(0))
        self.ask("cuLibraryLoadData", byref(library), image, *none, *none)  # without options of the JIT or the library
        return library.value or 0

    def unload(self, library: int) -> None:
        """Forget a library, in all contexts."""
        self.ask("cuLibraryUnload", c_void_p(library))

    def function(self, library: int, name: str) -> int:
        """Return a library's entry point for the current context, loaded there."""
        kernel, function = c_void_p(), c_void_p()
        self.ask("cuLibraryGetKernel", byref(kernel), c_void_p(library), name.encode())
        self.ask("cuKernelGetFunction", byref(function), kernel)
        if hasattr(self._library, "cuFuncLoad"):  # CUDA 12.4: not at its first launch, which may be under capture
            self.ask("cuFuncLoad", function)
        return function.value or 0

    def function_attribute(self, attribute: int, function: int) -> int:
        """Return one of the function attributes above."""
        value = c_int()
        self.ask("cuFuncGetAttribute", byref(value), c_int(attribute), c_void_p(function))
        return value.value

    def set_function_attribute(self, attribute: int, function: int, value: int) -> None:
        """Set one of the function attributes above."""
        self.ask("cuFuncSetAttribute", c_void_p(function), c_int(attribute), c_int(value))

    def resident_blocks(self, function: int, threads: int, shared_bytes: int) -> int:
        """Return how many blocks of a function a multiprocessor of the current device holds at once."""
        count = c_int()
        asked = c_void_p(function), c_int(threads), c_size_t(shared_bytes)
        self.ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", byref(count), *asked)
        return count.value

    def resident_clusters(self, function: int, configuration: bytes) -> int:
        """Return how many clusters of a CUlaunchConfig the current device holds at once; 0 where it has none so large.

        What the configuration points to has to live until then.
        """
        count = c_int()
        most = self._find("cuOccupancyMaxActiveClusters")
        status = most(byref(count), c_void_p(function), configuration)
        if status == _INVALID_CLUSTER_SIZE:
            return 0
        if status:
            raise DriverError(f"cuOccupancyMaxActiveClusters: {self.named(status)}")
        return count.value

    def clearing(self, address: int, nbytes: int, stream: int) -> Callable[[], int]:
        """Return what sets bytes to zero, in stream order; it answers as a launch does."""
        clear = self._find("cuMemsetD8Async")
        return partial(clear, c_void_p(address), c_ubyte(0), c_size_t(nbytes), c_void_p(stream))

    def capturing(self, stream: int) -> bool:
        """Return whether `stream` is being captured into a graph."""
        query, status = self.capture_query(stream)
        if refused := query():
            raise DriverError(f"cuStreamIsCapturing: {self.named(refused)}")
        return status.value != 0

    def capture_query(self, stream: int) -> tuple[Callable[[], int], c_int]:
        """Return what asks whether `stream` is being captured, which answers as a launch does, and where it says so.

        For one thread at a time.
        """
        status = c_int()
        return partial(self._find("cuStreamIsCapturing"), c_void_p(stream), byref(status)), status

    def current_context(self) -> int:
        """Return the calling thread's context; 0 where it has none."""
        context = c_void_p()
        self.ask("cuCtxGetCurrent", byref(context))
        return context.value or 0

    def wait(self, waiting: int, other: int) -> None:
        """Have the stream `waiting` wait for all that was enqueued on `other`."""
        event = c_void_p()
        self.ask("cuEventCreate", byref(event), c_uint(2))  # CU_EVENT_DISABLE_TIMING
        try:
            self.ask("cuEventRecord", event, c_void_p(other))
            self.ask("cuStreamWaitEvent", c_void_p(waiting), event, c_uint(0))
        finally:
            self.ask("cuEventDestroy_v2", event)

    def context(self, ordinal: int) -> int:
        """Return a device's primary context."""
        with _lock:
            if ordinal not in self._contexts:
                context = c_void_p()
                self.ask("cuDevicePrimaryCtxRetain", byref(context), c_int(self._device(ordinal)))
                self._contexts[ordinal] = context.value or 0
            return self._contexts[ordinal]


def load_libcuda() -> Foreign:
    """Load the driver's library; raises OSError where there is none."""
    return CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def driver(kernel: str) -> Driver:
    """Return the driver of this machine; raises UnavailableError in `kernel`'s name where there is none, or no GPU."""
    if _loaded:
        return _loaded[0]
    with _lock:
        if not _loaded:
            try:
                _loaded.append(Driver(load_libcuda()))
            except OSError as error:
                raise UnavailableError(f"{kernel} needs an NVIDIA GPU: no driver is installed ({error})") from None
            except DriverError as error:
                raise UnavailableError(f"{kernel} needs an NVIDIA GPU: {error}") from None
    return _loaded[0]


def failed(kernel: str, name: object) -> LaunchError:
    """Return the error for a launch that the driver refused, by the name of its CUresult or what it refused before."""
    return LaunchError(f"{kernel}: the driver refused the launch: {name}")
