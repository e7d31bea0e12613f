"""Backends: what finds devices, compiles for them, and runs candidates on them.

A backend is one object in one file. Those of this folder go by the names in `_registered`. Others are registered by
`register`, or by an entry point of the group `pretuned.backends` whose name is the backend's. Their devices are named
after them in rows, and their rows stand in a lock of their own beside the GPUs' one.

Nothing here imports CuPy or NumPy, since a build asks the backend which of them to install.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from pretuned.compile.result import Toolchain
from pretuned.config.settings import BACKEND_GROUP, backend_names, name_backend
from pretuned.errors import Error, ExitCode
from pretuned.runtime.text import no_such

if TYPE_CHECKING:
    from pretuned.device.monitor import DeviceMonitor
    from pretuned.measure.runner import Runner
    from pretuned.record.rows import TunedDevice
    from pretuned.render import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDevice:
    """A device as rows record it, and the version of its driver, or what stands for one."""

    record: TunedDevice
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentDevice:
    """A device that is there and cannot be used, for a `reason`; `remedy` says what to do about it, if anything."""

    reason: str
    remedy: str = ""


class Backend(Protocol):
    """What runs candidates: its devices, by number, and the compiler for them."""

    @property
    def name(self) -> str:
        """The name that `--on` and rows have for it: lower-case letters, digits and `_`."""
        ...

    @property
    def ships(self) -> bool:
        """Whether times on it are times that users see: it is measured thoroughly, and its rows are baked unasked."""
        ...

    @property
    def toolchain(self) -> Toolchain:
        """The compiler, whose workers make binaries for its devices."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """What a build that tunes on it must have installed, as requirements, besides what compiling needs."""
        ...

    def label(self, index: int) -> str:
        """Return what messages call a device, such as `GPU 0`."""
        ...

    def find(self, index: int) -> FoundDevice | SilentDevice | None:
        """Return a device, or None if there is none of that number or of a higher one."""
        ...

    def lock_name(self, index: int) -> str:
        """Return a name that is the device's own on this machine, by which sessions take turns on it."""
        ...

    def require(self) -> None:
        """Raise DeviceError that says what to install, if something is missing."""

    def runner(self, index: int) -> Runner:
        """Return what runs candidates on a device, in processes of its own."""
        ...

    def monitor(self, index: int) -> DeviceMonitor | None:
        """Return what reads the device's clocks while races run, or None if nothing does."""
        ...

    def refusal(self, source: Source) -> str | None:
        """Return why no device can run a source, as `kernel.cu:LINE: ...`, or None if one may."""
        ...


class BackendError(Error):
    """No backend has that name, or it cannot be loaded."""

    exit_code = ExitCode.INPUT


_registered: Final[dict[str, str | Backend]] = {
    "cuda": "pretuned.backends.cuda:BACKEND",
    "host": "pretuned.backends.host:BACKEND",
}


def register(name: str, backend: str | Backend) -> None:
    """Have `named(name)` find a backend: the object, or `PACKAGE.MODULE:OBJECT`, imported when it is used."""
    if name in _registered:
        raise ValueError(f"there is a backend '{name}' already")
    name_backend(name)
    _registered[name] = backend


def named(name: str) -> Backend:
    """Return the backend of a name; raises BackendError if there is none."""
    known = _registered.get(name)
    if known is None:
        known = next((entry.value for entry in importlib.metadata.entry_points(group=BACKEND_GROUP, name=name)), None)
    if known is None:
        raise BackendError(no_such("backend", name, backend_names()))
    if not isinstance(known, str):
        return known
    module, _, attribute = known.partition(":")
    try:
        return cast("Backend", getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise BackendError(f"backend '{name}' cannot be loaded: {type(error).__name__}: {error}") from error


def lock_path(lock: Path, backend: str) -> Path:
    """Return the lock of a backend's rows: that of GPUs, or one beside it, such as `pretuned.lock.host.json`."""
    return lock if named(backend).ships else lock.with_suffix(f".{backend}{lock.suffix}")
