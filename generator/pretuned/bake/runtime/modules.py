"""Loading: the best binary of a module that the device and its driver can take.

In order: the cubin of the device's architecture, one of an older minor version (compatible by CUDA's rules), PTX by
way of the driver, NVRTC from the shipped source, with a warning. A binary of a newer CUDA than the driver knows is
skipped: cubins need the driver's major version, PTX its minor version as well. What was tried stands in the error.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading

from . import PACKAGE
from .errors import LoadError, RecompiledWarning, qualified, warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Foreign, Kernel
    from .devices import Device

STANDARD = "--std=c++17"  # as the cubins are compiled
STATIC_LIMIT = 48 * 1024  # a block's shared memory beyond this has to be asked for
_lock = threading.RLock()
_modules: dict[tuple[int, str], int] = {}
_functions: dict[tuple[int, str, str], int] = {}


def function(cupy: Foreign, kernel: Kernel, module: str, name: str, device: Device, ordinal: int) -> int:
    """Return the handle of an entry point on the current device; raises LoadError that lists what was tried."""
    key = ordinal, module, name
    if key in _functions:
        return _functions[key]
    with _lock:
        if (ordinal, module) not in _modules:
            _modules[ordinal, module] = _load(cupy, kernel, module, device)
        driver = cupy.cuda.driver
        handle: int = driver.moduleGetFunction(_modules[ordinal, module], name)
        static_bytes = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, handle)
        if device.shared_bytes > STATIC_LIMIT:  # a limit only: what a launch takes is the launch's
            most = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(handle, most, device.shared_bytes - static_bytes)
        _functions[key] = handle
    return handle


def _load(cupy: Foreign, kernel: Kernel, module: str, device: Device) -> int:
    driver = cupy.cuda.driver
    tried: list[str] = []
    for file, skip in images(kernel, module, device):
        if skip:
            tried.append(f"{file}: {skip}")
            continue
        try:
            handle: int = driver.moduleLoadData(_read(file))
        except (OSError, driver.CUDADriverError) as error:
            tried.append(f"{file}: {error}")
        else:
            return handle
    file = f"{module}.cu"
    try:
        handle = driver.moduleLoadData(_compile(cupy, kernel, module, device))
    except Exception as error:  # noqa: BLE001 - whatever NVRTC's absence or refusal raises, it ends in one clear error
        tried.append(f"{file}: {type(error).__name__}: {error}")
        listed = "".join(f"\n  {line}" for line in tried)
        raise LoadError(
            f"{qualified(kernel.name)}: nothing shipped runs on '{device.name}' (compute capability "
            f"{device.compute_capability / 10:.1f}, driver for CUDA {_version(device.cuda)}); tried:{listed}"
        ) from None
    reasons = "; ".join(tried) or "no binary is shipped"
    warn(
        f"{qualified(kernel.name)}: {file} was compiled for '{device.name}' while the program runs ({reasons})",
        RecompiledWarning,
    )
    return handle


def images(kernel: Kernel, module: str, device: Device) -> list[tuple[str, str]]:
    """Return (file, why it is skipped or an empty string) for the binaries of a module, the best first."""
    have = device.compute_capability
    found = []
    for architecture, compiler, _ in kernel.modules[module][2]:
        kind, _, number = architecture.partition("_")
        made_for = int(number.rstrip("a"))
        alike = kind == "sm" and made_for // 10 == have // 10 and made_for <= have
        if made_for == have or (not number.endswith("a") and (alike or (kind == "compute" and made_for < have))):
            file = f"{module}.{architecture}.{'ptx' if kind == 'compute' else 'cubin'}"
            found.append(((kind != "sm", -made_for, file), (file, _too_new(compiler, device.cuda, ptx=kind != "sm"))))
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
    data = pkgutil.get_data(PACKAGE, f"kernels/{file}")
    if data is None:
        raise OSError("this package's loader cannot read data files")
    return data


def _compile(cupy: Foreign, kernel: Kernel, module: str, device: Device) -> bytes:
    """Compile the shipped source for the device, with the flags that the cubins had."""
    options, arch_specific, _ = kernel.modules[module]
    nvrtc = importlib.import_module("cupy.cuda.nvrtc") if not hasattr(cupy.cuda, "nvrtc") else cupy.cuda.nvrtc
    arch = f"-arch=sm_{device.compute_capability}{'a' if arch_specific else ''}"
    program = nvrtc.createProgram(_read(f"{module}.cu").decode(), "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, (arch, STANDARD, *options, *_includes()))
        return bytes(nvrtc.getCUBIN(program)) + b"\0"  # the binding takes the last byte for a C string's end
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"{error}: {nvrtc.getProgramLog(program).strip()}") from None
    finally:
        nvrtc.destroyProgram(program)


def _includes() -> tuple[str, ...]:
    """Return the flags that find CUDA's headers, where CuPy's companion can tell."""
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
    except ImportError:
        return ()
    folders = (pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl"))
    return tuple(dict.fromkeys(f"-I{folder}" for folder in folders if folder))
