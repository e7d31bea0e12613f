"""Generated packages to ask for their picks: baked from a lock into a folder, called or asked by `explain`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.build.place import place
from pretuned.compile.pool import compile_all
from pretuned.measure.launch import arrays
from pretuned.record.lock import Lock
from pretuned.spec.model import KernelSpec
from pretuned.spec.scalars import passed_values
from pretuned.spec.space import Configuration, Problem, pairs


def lock_of(tuned: Any, known: Lock | None = None) -> Lock:
    """Return a lock with what a tuning found."""
    return (known or Lock()).updated(
        {tuned.device.name: tuned.device.record}, tuned.rows, tuned.skipped, selections=tuned.selections
    )


def without(lock: Lock, device: str) -> Lock:
    """Return a lock without what was measured on `device`, which goes on knowing nothing of it."""
    left = {name: record for name, record in lock.devices.items() if name != device and record.is_gpu}
    rows = tuple(row for row in lock.rows if row.device in left)
    selections = tuple(selection for selection in lock.selections if selection.device in left)
    return replace(lock, devices=left, rows=rows, selections=selections, skipped=())


def baked(specs: Mapping[str, KernelSpec], lock: Lock, folder: Path, *, cubins: bool) -> Any:
    """Bake `specs` into a package below `folder` and import it; without `cubins` it can only be asked.

    A kernel whose gradient's kernel is not among them is baked without a gradient.
    """
    alone = {name for name, spec in specs.items() if spec.backward and spec.backward.kernel not in specs}
    specs = {name: spec.model_copy(update={"backward": None} if name in alone else {}) for name, spec in specs.items()}
    planned = plan(specs, lock.rows, lock.devices, cubins=cubins, selections=lock.selections)
    by_architecture: dict[str, list[Any]] = {}
    for source, architecture in planned.jobs:
        by_architecture.setdefault(architecture, []).append(source)
    binaries = {
        (key, architecture): binary
        for architecture, sources in by_architecture.items()
        for key, binary in compile_all(sources, architecture).items()
    }
    place({"__init__.py": b""}, folder)
    place(files(planned, binaries), folder / "tuned")
    sys.path.insert(0, str(folder.parent))
    return importlib.import_module(f"{folder.name}.tuned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What `explain` says would run, why, and which others of what ships could run."""

    pick: Configuration
    why: tuple[str, ...]
    others: tuple[Configuration, ...]


def explained(package: Any, kernel: str, problem: Problem, device: str | None = None) -> Explained:
    """Ask what would run on `device`, the current GPU without one."""
    found = package.explain(kernel, device=device, **dict(problem.dims) | dict(problem.specialisation))
    return Explained(
        pick=_configuration(found.implementation, found.configuration),
        why=tuple(found.why),
        others=tuple(
            _configuration(one.implementation, one.configuration) for one in found.alternatives if not one.refused
        ),
    )


_RAN: dict[tuple[str, str, Problem], Configuration] = {}  # by package, kernel and problem: each is decided once


@contextmanager
def calls(package: Any):
    """Give a function that makes a real call at a problem, with arrays of CuPy's, and returns what that call ran.

    What ran is what the call itself was told by the package's lookup, which it asks once a problem.
    """
    import cupy  # noqa: PLC0415 - only where there is a GPU

    of_calls = importlib.import_module(f"{package.__name__}._runtime.calls")
    decide, decided = of_calls.decide, []

    def deciding(*arguments: Any, **keywords: Any) -> Any:
        decided.append(decide(*arguments, **keywords))
        return decided[-1]

    def call(spec: KernelSpec, problem: Problem) -> Configuration:
        key = package.__name__, spec.name, problem
        if key in _RAN:
            return _RAN[key]
        decided.clear()
        given = {
            one.name: cupy.zeros(one.shape, _dtype(one.dtype)) for one in arrays(spec, problem) if one.role != "out"
        }
        known = given | passed_values(spec, problem)
        passed = {name: value for name, value in dict(problem.specialisation).items() if name in _keywords(spec)}
        getattr(package, spec.name)(**known, **passed)
        cupy.cuda.runtime.deviceSynchronize()
        del given, known
        cupy.get_default_memory_pool().free_all_blocks()
        (one,) = decided
        _RAN[key] = _configuration(one.shipped.implementation, one.shipped.configuration)
        return _RAN[key]

    of_calls.decide = deciding
    try:
        yield call
    finally:
        of_calls.decide = decide


def _keywords(spec: KernelSpec) -> frozenset[str]:
    """The specialisations that a caller gives by keyword, since no array shows them."""
    shown = {argument.dtype for argument in spec.arrays}
    return frozenset(name for name in spec.specialisations if name not in shown)


def _dtype(name: str) -> np.dtype:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: PLC0415 - only where a type is not NumPy's own

        return np.dtype(getattr(ml_dtypes, name))


def _configuration(implementation: str, values: Mapping[str, Any]) -> Configuration:
    return Configuration(implementation=implementation, values=pairs(values))
