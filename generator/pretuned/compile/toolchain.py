"""The compilers that binaries are made with: NVRTC for GPUs, the machine's C++ compiler for the host device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from pretuned.compile import host
from pretuned.runtime.cuda_majors import CUDA_MAJORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A compiler as workers run it.

    `worker` is a target of `pretuned.child`. `installed` returns the version without starting one, or None.
    `any_architecture` is one that every version of it compiles for.
    """

    worker: str
    installed: Callable[[], str | None]
    any_architecture: str


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
    worker="pretuned.compile.nvrtc:serve", installed=installed_nvrtc, any_architecture="compute_80"
)
CPP: Final = Toolchain(worker="pretuned.compile.host:serve", installed=host.version, any_architecture=host.HOST)
