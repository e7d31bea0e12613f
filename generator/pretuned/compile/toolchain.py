"""The compilers that modules are made with: NVRTC for GPUs, the machine's C++ compiler for the host device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pretuned.compile import host, version


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A compiler as workers run it.

    `worker` is a target of `pretuned.child`; `installed` tells the version without starting one, or None; `probe` is an
    architecture that every version of it compiles for.
    """

    worker: str
    installed: Callable[[], str | None]
    probe: str


NVRTC: Final = Toolchain(worker="pretuned.compile.nvrtc:serve", installed=version.installed, probe="compute_80")
CPP: Final = Toolchain(worker="pretuned.compile.host:serve", installed=host.version, probe=host.HOST)
