"""Loading: the best binary of a source that the device and its driver can take.

In order: the cubin of the device's architecture, one of an older minor version (compatible by CUDA's rules), PTX by
way of the driver, NVRTC from the source that ships, with a warning. A binary of a newer CUDA than the driver knows is
skipped: cubins need the driver's major version, PTX its minor version as well. The error lists what was tried.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from contextlib import suppress
from ctypes import addressof, create_string_buffer

from .devices import runs
from .driver import MAX_DYNAMIC_SHARED_BYTES, NON_PORTABLE_CLUSTER, STATIC_SHARED_BYTES, DriverError
from .errors import CaptureError, LoadError, RecompiledWarning, qualified, warn
from .launching import ATTRIBUTE_BYTES, CONFIGURATION, attributes
from .limits import CLUSTERS_FROM, MAX_STATIC_SHARED_BYTES, PORTABLE_CLUSTER
from .table import PACKAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .devices import Device
    from .driver import Driver
    from .problem import Extent
    from .refusal import Residency
    from .table import Foreign, Kernel, Launch

_lock = threading.RLock()
_libraries: dict[str, int] = {}  # by file: a library is loaded once for all devices
_chosen: dict[tuple[int, str], int] = {}  # the library of a source, by device
_functions: dict[tuple[int, str, str], int] = {}


def function(driver: Driver, kernel: Kernel, source: str, name: str, device: Device, stream: int) -> int:
    """Return the handle of an entry point in the current context.

    Raises LoadError that lists what was tried, and CaptureError where it would have to be loaded while `stream` is
    being captured into a graph.
    """
    key = device.ordinal, source, name
    if key in _functions:
        return _functions[key]
    with _lock:
        if (device.ordinal, source) not in _chosen:
            if driver.capturing(stream):
                raise CaptureError(
                    f"{qualified(kernel.name)}: its code has to be loaded, which cannot be done while a graph is "
                    f"captured; call {kernel.name}.prepare() before the capture, or {kernel.name} once"
                )
            _chosen[device.ordinal, source] = _load(driver, kernel, source, name, device)
        handle = driver.function(_chosen[device.ordinal, source], name)
        static_bytes = driver.function_attribute(STATIC_SHARED_BYTES, handle)
        if device.shared_bytes > MAX_STATIC_SHARED_BYTES:  # a limit only: what a launch takes is the launch's
            driver.set_function_attribute(MAX_DYNAMIC_SHARED_BYTES, handle, device.shared_bytes - static_bytes)
        _functions[key] = handle
    return handle


def residency(driver: Driver, kernel: Kernel, device: Device, stream: int) -> Residency:
    """Return what asks the driver how many blocks of a launch the device holds at once; loads what it asks about.

    Clusters of more blocks than every GPU takes are allowed on the way.
    """

    def held(source: str, launch: Launch, block: Extent, shared_bytes: int, cluster: Extent) -> int:
        with driver.on(device.ordinal):
            handle, together = function(driver, kernel, source, launch.function, device, stream), math.prod(cluster)
            if together == 1:
                return driver.resident_blocks(handle, math.prod(block), shared_bytes) * device.sm_count
            if together > PORTABLE_CLUSTER:
                driver.set_function_attribute(NON_PORTABLE_CLUSTER, handle, 1)
            listed = attributes(cluster, cooperative=False, overlap=False)
            content = create_string_buffer(listed, len(listed))
            found = (addressof(content), len(listed) // ATTRIBUTE_BYTES)
            configuration = CONFIGURATION.pack(*cluster, *block, shared_bytes, 0, *found)
            return driver.resident_clusters(handle, configuration) * together

    return held


def prepare(driver: Driver, kernel: Kernel, device: Device) -> None:
    """Load what the kernel ships for a device, in whose context the caller is: binaries that fit, and the defaults."""
    defaults = {one.source for shipment in kernel.shipments.values() for one in shipment.defaults}
    for one in kernel.shipped:
        fitting = [file for file, skip in images(kernel, one.source, device) if not skip] if one.source else []
        implementation = kernel.implementations[one.implementation]
        launches = implementation.launches
        newer = implementation.tensor_maps or any(launch.cluster is not None for launch in launches)
        if fitting or (one.source in defaults and not (newer and device.compute_capability < CLUSTERS_FROM)):
            for launch in launches:
                function(driver, kernel, one.source, launch.function, device, 0)


def _load(driver: Driver, kernel: Kernel, source: str, name: str, device: Device) -> int:
    """Return the library of a source whose entry point `name` the device takes."""
    tried: list[str] = []
    for file, skip in images(kernel, source, device):
        if skip:
            tried.append(f"{file}: {skip}")
            continue
        try:
            if file not in _libraries:
                _libraries[file] = _taken(driver, _read(file) + b"\0", name)  # PTX is read as a C string
            driver.function(_libraries[file], name)  # which another device has loaded, maybe
            return _libraries[file]
        except (OSError, DriverError) as error:
            tried.append(f"{file}: {error}")
    from .recompile import recompiled  # noqa: PLC0415 - a last resort, and slow to import

    try:
        binaries = kernel.binaries[source]
        headers = {name: _read(file) for name, file in binaries.headers.items()}
        image, compiled = recompiled(_read(f"{source}.cu"), headers, binaries, device)
        library = _taken(driver, image, name)
    except Exception as error:  # noqa: BLE001 - whatever NVRTC's absence or refusal raises, it ends in one clear error
        tried.append(f"{source}.cu: {type(error).__name__}: {error}")
        listed = "".join(f"\n  {line}" for line in tried)
        raise LoadError(
            f"{qualified(kernel.name)}: nothing shipped runs on '{device.name}' (compute capability "
            f"{device.compute_capability / 10:.1f}, driver for CUDA {_version(device.cuda)}); tried:{listed}"
        ) from None
    if compiled:
        reasons = "; ".join(tried) or "no binary is shipped"
        warn(
            f"{qualified(kernel.name)}: {source}.cu was compiled for '{device.name}' while the program runs "
            f"({reasons}); it is kept for the next time. Build on such a device, or with its architecture in "
            "`architectures`, to ship it; `pretuned tune` there gives it rows of its own",
            RecompiledWarning,
        )
    return library


def _taken(driver: Driver, image: bytes, name: str) -> int:
    """Return the library of an image with the entry point `name`; raises DriverError where the device refuses it."""
    library = driver.load(image)
    try:
        driver.function(library, name)
    except DriverError:
        with suppress(DriverError):
            driver.unload(library)
        raise
    return library


def images(kernel: Kernel, source: str, device: Device) -> list[tuple[str, str]]:
    """Return (file, why it is skipped or an empty string) for the binaries of a source, the best first."""
    have = device.compute_capability
    found = []
    for image in kernel.binaries[source].images:
        architecture = image.architecture
        made_for, ptx = int(architecture.partition("_")[2].rstrip("a")), architecture.startswith("compute_")
        if runs(architecture, have):
            file = f"{source}.{architecture}.{'ptx' if ptx else 'cubin'}"
            found.append(((ptx, -made_for, file), (file, _too_new(image.compiler, device.cuda, ptx=ptx))))
    return [entry for _, entry in sorted(found)]


def _too_new(compiler: str, cuda: int, *, ptx: bool) -> str:
    """Why the driver cannot take what this compiler wrote, or an empty string."""
    parts = compiler.split(".")
    if not cuda or not parts[0].isdigit():
        return ""
    minor = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
    needs = (int(parts[0]), minor if ptx else 0)
    if needs <= (cuda // 1000, cuda % 1000 // 10):
        return ""
    return f"compiled by CUDA {compiler}, and the driver supports CUDA {_version(cuda)}"


def _version(cuda: int) -> str:
    return f"{cuda // 1000}.{cuda % 1000 // 10}"


def _read(file: str) -> bytes:
    package = sys.modules[PACKAGE]
    loader: Foreign = package.__spec__.loader if package.__spec__ else None
    if not hasattr(loader, "get_data"):
        raise OSError("this package's loader cannot read data files")
    path = os.path.join(os.path.dirname(package.__file__ or ""), "kernels", file)  # noqa: PTH118, PTH120 - cheap to import
    data: bytes = loader.get_data(path)
    return data
