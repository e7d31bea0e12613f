"""What a compiler is to those that use it, and what compiling a source gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

AND: Final = ","  # in `sm_90,compute_90`, which asks for the cubin and the PTX of one pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one entry point takes: registers a thread, bytes of local memory spilt, static shared bytes a block."""

    registers: int
    spill_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """A compiled module. `image` is a cubin (or PTX, where `architecture` reads `compute_90`), `digest` its SHA-256.

    `architecture` is what it was compiled for (`sm_90`, `sm_90a`, `compute_80`); `flags` are those the compiler really
    got, include folders left out; `compiler` is NVRTC's full version, such as `13.0.88`. `ptx` is that of the same pass
    for a job that asks for both.
    """

    module: str
    architecture: str
    image: bytes
    digest: str
    flags: tuple[str, ...]
    compiler: str
    resources: dict[str, Resources]
    ptx: Binary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """A worker's answer to every request if there is no compiler. `reason` says what to install."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A compiler as workers run it.

    `worker` is a target of `pretuned.child`. `installed` returns the version without starting one, or None.
    `any_architecture` is one that every version of it compiles for. One that `joins` takes `sm_90,compute_90`.
    """

    worker: str
    installed: Callable[[], str | None]
    any_architecture: str
    joins: bool = False
