"""Our packages: what is installed, or what a lock bakes, a package for each kernel."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from pretuned.build.freshness import Freshness
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.spec.model import KernelSpec
from sizes import packages

LOCK = Path(__file__).parents[2] / "pretuned.lock.json"


def packages_of(specs: Mapping[str, KernelSpec], options: Any, device: Any) -> dict[str, Any]:
    """Return the package to call for each kernel, or the error that is in its place.

    All are baked together, or one by one where that fails.
    """
    if options.lock is None:
        try:
            installed = import_module("pretuned.kernels")
        except ImportError:
            print(f"pretuned.kernels is not installed: baked from {LOCK.name}", file=sys.stderr)
        else:
            return dict.fromkeys(specs, installed)
    lock = of_device(lockfile.read(options.lock or LOCK), device.name)
    folder = Path(tempfile.mkdtemp())
    together = _baked(specs, lock, folder / "all_kernels")
    if not isinstance(together, Exception):
        return dict.fromkeys(specs, together)
    return {name: _baked({name: spec}, lock, folder / f"of_{name}") for name, spec in specs.items()}


def _baked(specs: Mapping[str, KernelSpec], lock: Lock, folder: Path) -> Any:
    """Return the baked package, or what went wrong."""
    try:
        fresh = Freshness(specs).status(lock)
        stale = [one for one in fresh.stale if one.kernel in specs]
        if stale:
            print(f"{len(stale)} stale in the lock, such as: {stale[0]}", file=sys.stderr)
        return packages.baked(specs, fresh.baked, folder, cubins=True)
    except Exception as error:  # noqa: BLE001 - the other kernels are measured
        traceback.print_exc()
        return error


def of_device(lock: Lock, device: str) -> Lock:
    """Return what of a lock is for this device."""
    return replace(
        lock,
        devices={name: one for name, one in lock.devices.items() if name == device},
        rows=tuple(row for row in lock.rows if row.device == device),
        selections=tuple(one for one in lock.selections if one.device == device),
        skipped=(),
    )
