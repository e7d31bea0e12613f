"""The last resort: a source that ships, compiled by NVRTC for the device at hand, once on each machine.

What was compiled is kept in the user's cache, under a name that its source, options, architecture and compiler decide.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from .adapters import nvrtc as find_nvrtc
from .prelude import FLAGS, named_headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .devices import Device
    from .records import SourceBinaries
    from .table import Foreign


def recompiled(
    source: bytes, headers: dict[str, bytes], binaries: SourceBinaries, device: Device
) -> tuple[bytes, bool]:
    """Return a cubin of `source` for the device, and whether it was compiled now rather than kept from before.

    `headers` are the project's own that it includes, by name.

    Raises ImportError or RuntimeError where NVRTC is missing or refuses.
    """
    nvrtc = find_nvrtc()
    architecture = f"sm_{device.compute_capability}{'a' if binaries.arch_specific else ''}"
    flags = (f"-arch={architecture}", *FLAGS, *binaries.options)
    texts, names = named_headers({name: text.decode() for name, text in headers.items()})
    parts = (source, *(flag.encode() for flag in flags), ".".join(map(str, nvrtc.getVersion())).encode())
    key = hashlib.sha256(b"\0".join((*parts, *texts, *names))).hexdigest()
    kept = _folder() / f"{key}.cubin"
    with suppress(OSError):
        return kept.read_bytes(), False
    image = _compile(nvrtc, source.decode(), (texts, names), (*flags, *_found_headers()))
    with suppress(OSError):
        _keep(kept, image)
    return image, True


def _compile(
    nvrtc: Foreign, source: str, headers: tuple[tuple[bytes, ...], tuple[bytes, ...]], flags: tuple[str, ...]
) -> bytes:
    program = nvrtc.createProgram(source, "kernel.cu", *headers)
    try:
        nvrtc.compileProgram(program, flags)
        return bytes(nvrtc.getCUBIN(program)) + b"\0"  # the binding takes the last byte for a C string's end
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"{error}: {nvrtc.getProgramLog(program).strip()}") from None
    finally:
        nvrtc.destroyProgram(program)


def _found_headers() -> tuple[str, ...]:
    try:
        return include_flags()
    except ImportError:  # a source without includes compiles all the same
        return ()


@cache
def include_flags() -> tuple[str, ...]:
    """Return the flags that find CUDA's own headers (cuda_fp16.h); raises ImportError without CuPy's companion."""
    pathfinder = importlib.import_module("cuda.pathfinder")
    folders = (pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl"))
    existing = dict.fromkeys(str(folder) for folder in folders if folder and Path(folder).is_dir())
    return tuple(f"-I{folder}" for folder in existing)


def _folder() -> Path:
    """Return the user's cache folder: PRETUNED_CACHE_DIR's, or the platform's."""
    if chosen := os.environ.get("PRETUNED_CACHE_DIR"):
        return Path(chosen, "recompiled")
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pretuned" / "recompiled"


def _keep(path: Path, image: bytes) -> None:
    """Write a file whole or not at all, even if another process writes it too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(image)
        Path(partial).replace(path)
    except OSError:
        Path(partial).unlink()
        raise
