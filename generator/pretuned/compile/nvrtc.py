"""One compilation with NVRTC, and what its log says of registers, spills and shared memory. Needs no GPU.

`cupy.cuda.nvrtc` is the binding: CuPy's high-level path adds flags silently and wants a device. Everything here runs in
a worker (see `pretuned.compile.pool`); importing this module imports nothing of CUDA.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from dataclasses import replace
from functools import cache
from importlib import metadata
from itertools import pairwise
from typing import Any, Final

from pretuned.compile.result import AND, Binary, Resources, Toolchain, Unavailable
from pretuned.outcome import CompileError
from pretuned.render import NAME, Source
from pretuned.runtime.cuda_majors import CUDA_MAJORS, NEWEST
from pretuned.runtime.prelude import FLAGS, named_headers
from pretuned.runtime.recompile import include_flags

REPORT: Final = "--ptxas-options=-v"  # registers, spills and shared memory into the log, at no cost

INSTALL: Final = f"install pretuned[cuda{NEWEST.number}], or " + ", ".join(
    f"pretuned[cuda{older.number}] for a driver older than {newer.driver}" for newer, older in pairwise(CUDA_MAJORS)
)

_ENTRY: Final = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS: Final = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers")
_SHARED: Final = re.compile(r"(\d+) bytes smem")
_ERROR: Final = re.compile(r"\b(?:error|fatal)\b\s*(?:#\S+\s*)?:")  # no warning about a variable named error
# The release of CUDA that an architecture came with, of those that the oldest supported one does not have.
_CAME_WITH: Final = {88: (13, 0), 100: (12, 8), 103: (12, 9), 110: (13, 0), 120: (12, 8), 121: (12, 9)}
_BAD_ARCHITECTURE: Final = "invalid value for --gpu-architecture"
_VERSION: Final = re.compile(r"Cuda compilation tools, release [\d.]+, V([\d.]+)")


def _nvrtc() -> Any:  # noqa: ANN401 - CuPy ships no types
    return importlib.import_module("cupy.cuda").nvrtc


def compile_source(source: Source, architecture: str) -> Binary | CompileError:
    """Compile `source` for `architecture`: a cubin for `sm_90`, PTX for `compute_80`.

    `sm_90,compute_90` gives a cubin with its `ptx`. It is the very PTX that compiling for `compute_90` gives, without
    the time for it.
    """
    wanted, _, beside = architecture.partition(AND)
    flags = (*FLAGS, REPORT, *source.options)
    nvrtc = _nvrtc()
    texts, names = named_headers({header.name: header.text for header in source.headers})
    program = nvrtc.createProgram(source.text, NAME, texts, names)
    try:
        nvrtc.compileProgram(program, (f"-arch={wanted}", *flags, *include_flags()))
        log = nvrtc.getProgramLog(program)
        image = _ptx(nvrtc, program) if wanted.startswith("compute_") else _cubin(nvrtc, program)
        text = _ptx(nvrtc, program) if beside else b""
    except nvrtc.NVRTCError as error:
        said = first_error(nvrtc.getProgramLog(program)) or str(error)
        return CompileError(line=_unknown_architecture(wanted) if _BAD_ARCHITECTURE in said else said)
    finally:
        nvrtc.destroyProgram(program)
    binary = _binary(source, wanted, image, flags, resources(log))
    return replace(binary, ptx=_binary(source, beside, text, flags, {})) if beside else binary


def _binary(
    source: Source, architecture: str, image: bytes, flags: tuple[str, ...], used: dict[str, Resources]
) -> Binary:
    """Return a binary; `flags` are those besides that of its architecture."""
    return Binary(
        module=source.key,
        architecture=architecture,
        image=image,
        digest=hashlib.sha256(image).hexdigest(),
        flags=(f"-arch={architecture}", *flags),
        compiler=version(),
        resources=used,
    )


def _unknown_architecture(architecture: str) -> str:
    known = ", ".join(f"sm_{number}" for number in sorted(_nvrtc().getSupportedArchs()))
    wanted = architecture.replace("compute_", "sm_")
    came = f", which came with CUDA {newer}" if (newer := newer_release(wanted, version())) else ""
    return f"NVRTC {version()} has no architecture {wanted}{came}; in `architectures`, write some of {known}"


def newer_release(architecture: str, nvrtc: str) -> str:
    """Return the release of CUDA, such as `12.8`, that brought an architecture to NVRTC; empty if `nvrtc` may have it.

    `nvrtc` is a full version, such as `12.4.127`.
    """
    digits = architecture.rpartition("_")[2].rstrip("af")
    came = _CAME_WITH.get(int(digits)) if digits.isdigit() else None
    here = tuple(int(part) for part in nvrtc.split(".")[:2] if part.isdigit())
    return ".".join(map(str, came)) if came is not None and here < came else ""


def _ptx(nvrtc: Any, program: object) -> bytes:  # noqa: ANN401 - CuPy ships no types
    text = nvrtc.getPTX(program)
    return (text if isinstance(text, bytes) else text.encode()).rstrip(b"\0") + b"\0"


def _cubin(nvrtc: Any, program: object) -> bytes:  # noqa: ANN401
    return bytes(nvrtc.getCUBIN(program)) + b"\0"  # the binding takes the last byte for a C string's end


@cache
def version() -> str:
    """Return NVRTC's full version, such as `13.0.88`: the API has 13.0 only, the head of its PTX all of it."""
    nvrtc = _nvrtc()
    program = nvrtc.createProgram('extern "C" __global__ void empty() {}', NAME, (), ())
    try:
        nvrtc.compileProgram(program, ("-arch=compute_80",))
        text = nvrtc.getPTX(program)
    finally:
        nvrtc.destroyProgram(program)
    match = _VERSION.search(text.decode() if isinstance(text, bytes) else text)
    return match[1] if match else ".".join(map(str, nvrtc.getVersion()))


def first_error(log: str) -> str:
    """Return the first error line of a compiler's log, or its first line."""
    lines = [line.strip() for line in log.replace("\0", "").splitlines() if line.strip()]
    return next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "")


def resources(log: str) -> dict[str, Resources]:
    """Return what each entry point takes, by function, from ptxas' verbose log.

    The functions that an entry point calls (`__noinline__` ones) stand behind it in the log; their spills are its own.
    """
    found: dict[str, Resources] = {}
    name = ""
    for part in log.replace("\0", "").split("ptxas info")[1:]:
        if match := _ENTRY.search(part):
            name = match[1]
            found[name] = Resources(registers=0, spill_bytes=0, shared_bytes=0)
        elif name and (match := _SPILLS.search(part)):
            spilt = found[name].spill_bytes + int(match[1]) + int(match[2])
            found[name] = replace(found[name], spill_bytes=spilt)
        elif name and (match := _USED.search(part)):
            shared = _SHARED.search(part)
            shared_bytes = int(shared[1]) if shared else 0
            found[name] = replace(found[name], registers=int(match[1]), shared_bytes=shared_bytes)
    return found


def serve() -> Any:  # noqa: ANN401 - the protocol of pretuned.child
    """Return the function that answers (source, architecture) requests in a compile worker."""
    try:
        version()  # loads NVRTC while the parent still renders
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent says it better than a traceback
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.filename is not None:  # CuPy makes its cache as it is imported
            reason = f"a home folder that can be written (HOME): {error.filename}: {error.strerror}"
            unwritable = Unavailable(reason=f"compiling with CuPy needs {reason}")
            return lambda _request: unwritable
        missing = Unavailable(reason=f"compiling needs CuPy and NVRTC ({reason}): {INSTALL}")
        return lambda _request: missing
    return lambda request: compile_source(*request)


def installed_nvrtc() -> str | None:
    """Return the full version of the NVRTC that the installed CuPy loads, such as `13.0.88`; None if unknown."""
    for major in CUDA_MAJORS:
        if _version(major.cupy) is not None:
            return _version(major.nvrtc)
    return None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


NVRTC: Final = Toolchain(
    worker="pretuned.compile.nvrtc:serve", installed=installed_nvrtc, any_architecture="compute_80", joins=True
)
