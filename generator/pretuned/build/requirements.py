"""What a build must have installed: a pure function from the driver and the need to requirement strings.

CuPy comes as one distribution a CUDA major, without NVRTC; NVRTC has one of its own, and the headers that kernels
include (cuda_fp16.h, cuda_bf16.h) come with the runtime's, cudart, those of CUDA's C++ library (cub/, cuda/) with CCCL.
`cuda-toolkit` pairs them, but lags behind, so an exact NVRTC is asked for by its own name. Two CuPy distributions break
each other: an environment that has one keeps it, and the toolchain then follows that CuPy, not the lock.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from pretuned.device.probe import DriverVersion, too_old
from pretuned.runtime.cuda_majors import CUDA_MAJORS, NEWEST, CudaMajor

CUPY: Final = Version("14")
PORTABLE: Final = f"{NEWEST.number}.0"  # where nobody says: what it compiles runs with every driver of its major
_MAJORS: Final = {major.number: major for major in CUDA_MAJORS}
ML_DTYPES: Final = "ml_dtypes>=0.4"

_ASK: Final = "from cupy.cuda import nvrtc; print('%d.%d' % nvrtc.getVersion())"
_ASK_S: Final = 60.0
_CUDA_VERSION: Final = re.compile(r"^#define CUDA_VERSION (\d+)", re.MULTILINE)
_NUMBERS: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4})+")  # major and minor at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a build will do. `compiler` is the lock's or the table's NVRTC, as `13.0.88` or `13.0`, or None for any."""

    compile: bool = False
    tune: bool = False
    compiler: str | None = None
    ml_dtypes: bool = False  # kernels take types that NumPy has not by itself
    cccl: bool = False  # sources include headers of CUDA's C++ library
    packages: tuple[str, ...] = ()  # of the backend that it tunes on, as requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What the build's environment has: versions by canonical distribution name, and the NVRTC that CuPy finds.

    `nvrtc` is `13.0`, or None where there is none, or where a distribution already gives its version. `toolkit` is the
    version of a CUDA toolkit on this machine that has CCCL's headers, as `13.0`, or None.
    """

    distributions: Mapping[str, str]
    nvrtc: str | None = None
    toolkit: str | None = None


def installed(packages: Iterable[str] = ()) -> Installed:
    """Return what this environment has, also of `packages`.

    Asks CuPy, in a process of its own, only where no distribution brings NVRTC.
    """
    ours = [name for major in CUDA_MAJORS for name in (major.cupy, major.nvrtc, major.cudart, major.cccl)]
    names = ("cupy", "cuda-toolkit", "ml-dtypes", *ours, *map(_canonical, packages))
    distributions = {}
    for name in names:
        try:
            distributions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    listed = any(major.nvrtc in distributions for major in CUDA_MAJORS)
    return Installed(distributions=distributions, nvrtc=None if listed else _ask_cupy(), toolkit=_toolkit())


def _toolkit() -> str | None:
    """Return the version of the toolkit whose CCCL `runtime.recompile.include_flags` would find."""
    named = [os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME")]
    for root in map(Path, (*filter(None, named), "/usr/local/cuda")):
        if any((root / folder / "nv" / "target").is_file() for folder in ("include/cccl", "include")):
            with suppress(OSError):
                text = (root / "include" / "cuda.h").read_text(encoding="utf-8", errors="replace")
                if found := _CUDA_VERSION.search(text):
                    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}"
    return None


def _canonical(requirement: str) -> str:
    """Return the distribution's name in a requirement."""
    return canonicalize_name(Requirement(requirement).name)


def _ask_cupy() -> str | None:
    if importlib.util.find_spec("cupy") is None:
        return None
    command = [sys.executable, "-c", _ASK]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S, check=False)  # noqa: S603 - ours
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None


def requirements(
    needs: Needs, driver: DriverVersion | None, have: Installed, *, platform: str = sys.platform
) -> list[str]:
    """Return what must still be installed for `needs`, sorted; nothing where nothing is compiled or tuned.

    On a platform without CUDA (macOS) nothing can be, and with a driver that is too old for CuPy nothing is tuned, nor
    compiled where neither lock nor table names a compiler: the bake then goes without.
    """
    own = [package for package in needs.packages if _canonical(package) not in have.distributions]
    if driver is not None and too_old(driver):
        needs, driver = replace(needs, tune=False, compile=needs.compile and needs.compiler is not None), None
    if not (needs.compile or needs.tune) or platform == "darwin":
        return sorted(own)
    major = _kept_major(needs, driver, have) or _major(needs, driver)
    wanted = [] if _has_cupy(have, major) else [f"{major.cupy}>={CUPY}"]
    wanted += _toolchain(needs, driver, have, major)
    if needs.tune and needs.ml_dtypes and "ml-dtypes" not in have.distributions:
        wanted.append(ML_DTYPES)
    return sorted(wanted + own)


def _kept_major(needs: Needs, driver: DriverVersion | None, have: Installed) -> CudaMajor | None:
    """The CUDA major of a CuPy that is here and can do what is needed, if any."""
    runs = [major for major in CUDA_MAJORS if not (needs.tune and driver) or major.number <= driver.cuda[0]]
    kept = [major for major in runs if major.cupy in have.distributions]
    if not kept and "cupy" in have.distributions and have.nvrtc:  # built from source, against the toolkit at hand
        kept = [major for major in runs if major.number == int(have.nvrtc.partition(".")[0])]
    asked = _parts(needs.compiler)[:1]
    return next(
        (major for major in kept if asked == (major.number,)), max(kept, key=lambda major: major.number, default=None)
    )


def _has_cupy(have: Installed, major: CudaMajor) -> bool:
    found = have.distributions.get(major.cupy) or have.distributions.get("cupy")
    return found is not None and Version(found) >= CUPY


def _parts(version: str | None) -> tuple[int, ...]:
    """Return the numbers of a version; none for any other text, since a lock may hold anything."""
    return tuple(map(int, version.split("."))) if version and _NUMBERS.fullmatch(version) else ()


def _major(needs: Needs, driver: DriverVersion | None) -> CudaMajor:
    """The compiler's major, unless something must run here on a driver that is too old for it."""
    asked = _MAJORS.get(next(iter(_parts(needs.compiler)), 0))
    if asked is not None and (driver is None or not needs.tune or asked.number <= driver.cuda[0]):
        return asked
    return _MAJORS.get(driver.cuda[0], NEWEST) if driver else NEWEST


def _toolchain(needs: Needs, driver: DriverVersion | None, have: Installed, major: CudaMajor) -> list[str]:
    """NVRTC with its headers: exactly the one asked for, else any of this major that the driver knows the PTX of."""
    asked = _parts(needs.compiler)
    if asked[:1] != (major.number,):
        asked = ()
    if _has_nvrtc(have, major, asked):
        return _cccl(needs, have, major, _parts(have.distributions.get(major.nvrtc) or have.nvrtc))
    if asked:
        series = f"{asked[0]}.{asked[1]}.*"
        compiler = [f"{major.nvrtc}=={needs.compiler if asked[2:] else series}", f"{major.cudart}=={series}"]
        return compiler + _cccl(needs, have, major, asked)
    bound = f"=={PORTABLE if driver is None and major == NEWEST else major.number}.*"
    if driver and driver.cuda[0] == major.number:
        bound = f">={major.number},<{major.number}.{driver.cuda[1] + 1}"
    cccl = ",cccl" if _cccl(needs, have, major, (major.number,)) else ""
    return [f"cuda-toolkit[nvrtc,cudart{cccl}]{bound}"]


def _cccl(needs: Needs, have: Installed, major: CudaMajor, nvrtc: tuple[int, ...]) -> list[str]:
    """CCCL of the release of an NVRTC, where sources include its headers and nothing here has them."""
    if not needs.cccl or major.cccl in have.distributions:
        return []
    release = nvrtc[:2]
    if release and _parts(have.toolkit)[: len(release)] == release:
        return []
    return [f"{major.cccl}=={'.'.join(map(str, release or (major.number,)))}.*"]


def _has_nvrtc(have: Installed, major: CudaMajor, asked: tuple[int, ...]) -> bool:
    """Whether NVRTC and headers are here, as exactly as their version is known."""
    if major.nvrtc in have.distributions:
        release = Version(have.distributions[major.nvrtc]).release
        return major.cudart in have.distributions and release[: max(1, len(asked))] == (asked or (major.number,))
    return _parts(have.nvrtc)[: max(1, len(asked))] == (asked[:2] or (major.number,))
