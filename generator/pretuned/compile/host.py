"""One compilation with the machine's C++ compiler, for the host device: a shared library that runs without a GPU.

The text is the one that NVRTC gets. It is compiled as C++ with the headers of `cuda_on_host` in front and linked with
their runtime (see execution.h there for what they give and why). Three ways of compiling are named like
architectures: `host`; `host+memory` for AddressSanitizer and UBSan; `host+races` for the detector in races.h.

What only a GPU can run (inline PTX, tensor cores, clusters) is refused before compiling, with its line.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from filelock import FileLock

from pretuned.child import siblings_folder
from pretuned.compile.gpu_only import marked, refusal, suspicious
from pretuned.compile.host_errors import first_error
from pretuned.compile.host_text import write_unit
from pretuned.compile.result import Binary, Resources, Toolchain, Unavailable
from pretuned.config.settings import cxx
from pretuned.files import storage_error
from pretuned.outcome import CompileError
from pretuned.render import NAME, Source
from pretuned.runtime import prelude

HOST: Final = "host"
MEMORY: Final = "host+memory"
RACES: Final = "host+races"

AS_THEY_ARE: Final = 2  # sources of a process before the headers are read ahead: the first ones often fail
_HEADERS: Final = "device.h.gch"
COMPILERS: Final = ("g++", "clang++", "c++")
_VERSION_S: Final = 20.0
_PRINTED_BYTES: Final = 16 << 20  # of symbols; no compiler's errors are worth as much
_OF_THE_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EINTR)
_ROOM_BYTES: Final = 4 << 20
FOLDER: Final = Path(__file__).parent / "cuda_on_host"

# A `__shared__` array of a class becomes a static whose constructor does nothing; one thread executes everything.
_COMMON: Final = (
    *(
        "-std=c++17",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-strict-aliasing",
        "-fno-threadsafe-statics",
        "-fno-exceptions",
    ),
    *("-g1", "-w"),
)
_VARIANTS: Final = {
    HOST: ("-O1", "-fwrapv"),
    MEMORY: ("-O1", "-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=all"),
    RACES: ("-O1", "-fsanitize=thread", "-DPRETUNED_RACES"),
}
_MACRO: Final = re.compile(r"-[DU]\w|--(?:un)?define-macro=")

_sources: Final = Counter[str]()  # that this process has compiled, by architecture

# A static of a function without an initial value, in objdump's table of symbols.
_LOCAL_STATIC: Final = re.compile(
    r"^([0-9a-f]+) .{7} \.bss\s+([0-9a-f]+)\s+(?:\.hidden\s+)?(_ZZ(?!N8pretuned)\w+)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A C++ compiler: its path, and what it says it is, such as `g++ 12.2.0`."""

    path: str
    version: str

    @property
    def is_gcc(self) -> bool:
        """Whether it is GCC, by whatever name."""
        return not self.version.startswith("clang")


@cache
def compiler() -> Compiler | None:
    """Return the compiler that CXX names, or else the first of g++, clang++ and c++ that works; None without one."""
    for name in (chosen,) if (chosen := cxx()) else COMPILERS:
        path = shutil.which(name)
        if path is None:
            continue
        answered = _run([path, "--version"], limit_s=_VERSION_S)
        number = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", answered.stdout)
        if answered.returncode == 0 and number:
            family = "clang" if "clang" in answered.stdout else "g++"
            return Compiler(path=path, version=f"{family} {number.group()}")
    return None


def no_compiler() -> str:
    """Return what to do where `compiler` finds none."""
    if chosen := cxx():
        return f"CXX: '{chosen}' is not a C++ compiler here; name g++ or clang++, or unset CXX"
    return "the host device needs a C++ compiler; install g++ or clang++, or name one in CXX"


@cache
def version() -> str | None:
    """Return all that decides what a source becomes, such as `g++ 12.2.0+1f3a90c2`, or None without a compiler.

    Behind the plus stands a digest of the headers, the flags and the processor's features: what was compiled with
    others is compiled anew.
    """
    found = compiler()
    if found is None:
        return None
    content = hashlib.sha256(repr((_COMMON, _VARIANTS, _machine_flags(), prelude.VERSION)).encode())
    for file in sorted(file for file in FOLDER.rglob("*") if file.is_file()):
        content.update(file.name.encode() + file.read_bytes())
    return f"{found.version}+{content.hexdigest()[:8]}"


def gpu_only(source: Source) -> str | None:
    """Return why the host cannot run a source, as `kernel.cu:LINE: ...`, or None if it may.

    It is looked for in what the preprocessor leaves: not in comments, nor in branches that are not compiled here.
    """
    found = compiler()
    if found is None or not suspicious(source):
        return None
    with tempfile.TemporaryDirectory(prefix="pretuned-") as folder:
        unit = Path(folder) / "module.cpp"
        folders = (*write_unit(marked(source), unit), FOLDER)
        flags = _flags(found, HOST, source.options)
        done = _run([found.path, *flags, *(f"-I{one}" for one in folders), "-E", str(unit)])
    return refusal(done.stdout, done.stderr, {NAME, *(header.name for header in source.headers)})


def compile_source(source: Source, architecture: str) -> Binary | CompileError:
    """Compile `source` for `architecture`, one of HOST, MEMORY and RACES."""
    if (refused := gpu_only(source)) is not None:
        return CompileError(line=refused)
    found = compiler()
    assert found is not None, "serve() has looked"
    flags = _flags(found, architecture, source.options)
    with tempfile.TemporaryDirectory(prefix="pretuned-") as folder:
        unit, made, library = (Path(folder) / name for name in ("module.cpp", "module.o", "module.so"))
        folders = (*_precompiled(found, architecture), *write_unit(source, unit), FOLDER)
        compiled = _run([found.path, *flags, *(f"-I{one}" for one in folders), "-c", str(unit), "-o", str(made)])
        if compiled.returncode == 0:
            compiled = _run(_link(found, architecture, [str(made), _runtime(architecture)], library))
        if compiled.returncode:
            for number in _OF_THE_DISK:  # not the source's fault
                if os.strerror(number) in compiled.stderr:
                    raise OSError(number, os.strerror(number), folder)
            unit.with_name("room").write_bytes(bytes(_ROOM_BYTES))  # raises where the disk is at fault
            return CompileError(line=first_error(compiled.stderr))
        image = library.read_bytes()
        shared_bytes = sum(variable.nbytes for variable in shared_variables(library))
    used = Resources(registers=0, spill_bytes=0, shared_bytes=shared_bytes)
    return Binary(
        module=source.key,
        architecture=architecture,
        image=image,
        digest=hashlib.sha256(image).hexdigest(),
        flags=flags,
        compiler=version() or found.version,
        resources=dict.fromkeys(source.functions, used),
    )


def _precompiled(found: Compiler, architecture: str) -> tuple[Path, ...]:
    """Return a folder with the headers as g++ has read them, from a worker's third source on, or once there are such.

    That takes as long as two sources, and makes each of the others twice as fast. Where they do not fit, since a
    macro changes them or the compiler is another one, the headers themselves are read.
    """
    _sources[architecture] += 1
    few = _sources[architecture] <= AS_THEY_ARE and not _made(architecture, _HEADERS).exists()
    return () if few or not found.is_gcc else _headers(found, architecture)


@cache
def _headers(found: Compiler, architecture: str) -> tuple[Path, ...]:
    flags = _flags(found, architecture, ())
    command = [found.path, *flags, f"-I{FOLDER}", "-x", "c++-header", str(FOLDER / "device.h")]
    file = _made(architecture, _HEADERS)
    return () if _make_once(file, command) else (file.parent,)


def _flags(found: Compiler, architecture: str, options: Sequence[str]) -> tuple[str, ...]:
    """Return the flags for the compiler; of a spec's own options, which are NVRTC's, macros only."""
    own = ("-fno-gnu-unique", "-fcf-protection=none") if found.is_gcc and platform.machine() == "x86_64" else ()
    macros = (option for option in options if _MACRO.match(option))
    return (*_COMMON, *own, *_machine_flags(), *_VARIANTS[architecture], *macros)


@cache
def _machine_flags() -> tuple[str, ...]:
    """Return what lets the compiler use fused multiply-add and vectors, where this processor has them.

    Not `-march=native`: binaries stay in the user cache, which may meet another processor.
    """
    info = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not info.is_file():
        return ()
    have = set(re.findall(r"^flags\s*:(.*)$", info.read_text(encoding="utf-8"), re.MULTILINE)[0].split())
    return ("-march=x86-64-v3",) if {"avx2", "fma", "f16c", "bmi2", "movbe"} <= have else ()


@cache
def _runtime(architecture: str) -> str:
    """Compile what runs kernels and return the object's path."""
    found = compiler()
    assert found is not None, "serve() has looked"
    # The runtime itself is not watched: what the detector calls would call the detector.
    watched = _VARIANTS[MEMORY][1:2] if architecture == MEMORY else ()
    races = ("-DPRETUNED_RACES",) if architecture == RACES else ()
    command = [found.path, *_COMMON, "-O2", *watched, *races, f"-I{FOLDER}", "-c", str(FOLDER / "runtime.cpp")]
    file = _made(architecture, "runtime.o")
    if (errors := _make_once(file, command)) is not None:
        raise RuntimeError(f"the host's runtime does not compile with {found.version}: {first_error(errors)}")
    return str(file)


def _made(architecture: str, name: str) -> Path:
    """Return the place of a file that all compile workers of a process use, and one of them makes."""
    compiled_by = hashlib.sha256(f"{compiler()} {version()}".encode()).hexdigest()[:8]
    return siblings_folder() / f"{architecture}-{compiled_by}" / name


def _make_once(file: Path, command: Sequence[str]) -> str | None:
    """Have a command of the compiler make `file`, unless a worker has; return the errors of one that fails."""
    file.parent.mkdir(exist_ok=True)
    with FileLock(f"{file}.lock"):
        if not file.exists():
            unfinished = file.with_name(f"{file.name}.unfinished")
            done = _run([*command, "-o", str(unfinished)])
            if done.returncode:
                return done.stderr
            unfinished.replace(file)
    return None


def _link(found: Compiler, architecture: str, objects: Sequence[str], library: Path) -> list[str]:
    """Return the command that links a binary: without C++'s library, which kernels have no use for.

    The detector of races is its own runtime, so it is not linked with ThreadSanitizer's.
    """
    libraries = [_VARIANTS[MEMORY][1]] if architecture == MEMORY else ["-nodefaultlibs", "-lm", "-lc", "-lgcc"]
    return [found.path, "-shared", *objects, *libraries, "-o", str(library)]


def symbols(library: Path) -> dict[str, int]:
    """Return what a binary exports, with the offset of each from the beginning of the image."""
    listed = _run(["nm", "-D", "--defined-only", str(library)]).stdout
    return {match[2]: int(match[1], 16) for match in re.finditer(r"^([0-9a-f]+) \w (\w+)$", listed, re.MULTILINE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVariable:
    """A static `__shared__` variable in a binary: its place from the beginning of the image, in bytes."""

    name: str
    offset: int
    nbytes: int


def shared_variables(library: Path) -> tuple[SharedVariable, ...]:
    """Return the `__shared__` variables of a binary: the statics of its functions."""
    listed = _run(["objdump", "-t", str(library)]).stdout
    return tuple(
        SharedVariable(name=_variable(match[3]), offset=int(match[1], 16), nbytes=int(match[2], 16))
        for match in _LOCAL_STATIC.finditer(listed)
    )


def _variable(mangled: str) -> str:
    """Return the last name of a mangled local: `slots` of `_ZZ10row_softmaxE5slots` (Itanium C++ ABI, 5.1.6)."""
    for match in reversed(list(re.finditer(r"E(\d+)", mangled))):
        name = mangled[match.end() : match.end() + int(match[1])]
        if len(name) == int(match[1]):
            return name
    return mangled


def place_in_source(library: Path, offset: int) -> str:
    """Return `kernel.cu:LINE` of code in a binary, or nothing where it is not known."""
    found = _run(["addr2line", "-e", str(library), hex(offset)]).stdout.strip()
    match = re.search(rf"({re.escape(NAME)}:\d+)", found)
    return match[1] if match else ""


def sanitizer_libraries() -> str:
    """Return what LD_PRELOAD must name for a process that loads binaries of MEMORY."""
    found = compiler()
    assert found is not None, "binaries of MEMORY were compiled"
    name = "libasan.so" if found.is_gcc else f"libclang_rt.asan-{platform.machine()}.so"
    return _run([found.path, f"-print-file-name={name}"], limit_s=_VERSION_S).stdout.strip()


def _run(command: Sequence[str], *, limit_s: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run one of the compiler's tools; what it prints is read up to a limit. A compilation's time is the pool's."""
    group = None if limit_s is None or sys.platform == "win32" else 0
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(  # noqa: S603 - the compiler's own tools
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=said, process_group=group
        )
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        texts = (_beginning(file) for file in (out, said))
        return subprocess.CompletedProcess(command, status, *texts)


def _beginning(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_PRINTED_BYTES).decode(errors="replace")


def serve() -> Any:  # noqa: ANN401 - the protocol of pretuned.child
    """Return the function that answers (source, architecture) requests in a compile worker."""
    if compiler() is None:
        missing = Unavailable(reason=no_compiler())
        return lambda _request: missing
    return _answer


def _answer(request: tuple[Source, str]) -> Binary | CompileError | Unavailable:
    try:
        return compile_source(*request)
    except OSError as error:
        return Unavailable(reason=str(storage_error(error, "the compiler's files (TMPDIR)")))


CPP: Final = Toolchain(worker="pretuned.compile.host:serve", installed=version, any_architecture=HOST)
