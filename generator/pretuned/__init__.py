"""pretuned: CUDA kernels that are tuned while a Python package is built, and shipped in a dispatch table.

The names below are the Python API. They are imported when they are first asked for: this package is also the home of
`pretuned.kernels`, the generated package of the bundled kernels, which needs none of the builder's dependencies.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers read it; importing typing would cost more than all of this package
if TYPE_CHECKING:
    from pretuned.api.baking import WrittenPackage, bake
    from pretuned.api.checking import CheckedProject, check
    from pretuned.api.reporting import report
    from pretuned.api.tuning import TuningResult, tune
    from pretuned.diagnostics import Diagnostic
    from pretuned.errors import (
        BakeError,
        ConfigError,
        DeviceError,
        Error,
        LockError,
        SpecError,
        StorageError,
        UsageError,
    )
    from pretuned.measure.runner import TuningError
    from pretuned.report.effort import describe
    from pretuned.report.project import ProjectReport
    from pretuned.spec.declarations import checked
    from pretuned.spec.documents import ArgumentKeys, ImplementationKeys, KernelKeys, LaunchKeys
    from pretuned.spec.kernel import kernel
    from pretuned.spec.loader import load, load_folder
    from pretuned.spec.model import KernelSpec
    from pretuned.tune.events import Event
    from pretuned.version import __version__

__all__ = [
    "ArgumentKeys",
    "BakeError",
    "CheckedProject",
    "ConfigError",
    "DeviceError",
    "Diagnostic",
    "Error",
    "Event",
    "ImplementationKeys",
    "KernelKeys",
    "KernelSpec",
    "LaunchKeys",
    "LockError",
    "ProjectReport",
    "SpecError",
    "StorageError",
    "TuningError",
    "TuningResult",
    "UsageError",
    "WrittenPackage",
    "__version__",
    "bake",
    "check",
    "checked",
    "describe",
    "kernel",
    "load",
    "load_folder",
    "report",
    "tune",
]

_MODULES = {
    "pretuned.api.baking": ("WrittenPackage",),
    "pretuned.api.checking": ("CheckedProject", "check"),
    "pretuned.api.tuning": ("TuningResult",),
    "pretuned.diagnostics": ("Diagnostic",),
    "pretuned.errors": (
        "BakeError",
        "ConfigError",
        "DeviceError",
        "Error",
        "LockError",
        "SpecError",
        "StorageError",
        "UsageError",
    ),
    "pretuned.measure.runner": ("TuningError",),
    "pretuned.report.effort": ("describe",),
    "pretuned.report.project": ("ProjectReport",),
    "pretuned.spec.declarations": ("checked",),
    "pretuned.spec.documents": ("ArgumentKeys", "ImplementationKeys", "KernelKeys", "LaunchKeys"),
    "pretuned.spec.kernel": ("kernel",),
    "pretuned.spec.loader": ("load", "load_folder"),
    "pretuned.spec.model": ("KernelSpec",),
    "pretuned.tune.events": ("Event",),
    "pretuned.version": ("__version__",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
_FOLDERS = ("bake", "report", "tune")  # which are called, see `pretuned.verb`


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'pretuned' has no attribute '{name}'")
    if name in _FOLDERS:
        return import_module(f"pretuned.{name}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
