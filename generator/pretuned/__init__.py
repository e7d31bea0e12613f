"""pretuned: CUDA kernels that are tuned while a Python package is built, and shipped in a dispatch table.

The names below are the Python API. They are imported when they are first asked for: this package is
also the home of `pretuned.kernels`, the generated package of the bundled kernels, which needs none of the builder's
dependencies.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers read it; importing typing would cost more than all of this package
if TYPE_CHECKING:
    from pretuned.errors import Error, SpecError
    from pretuned.spec.declarations import checked
    from pretuned.spec.documents import ArgumentKeys, ImplementationKeys, KernelKeys, LaunchKeys
    from pretuned.spec.kernel import kernel
    from pretuned.spec.loader import load, load_folder
    from pretuned.spec.model import KernelSpec

    __version__: str

__all__ = [
    "ArgumentKeys",
    "Error",
    "ImplementationKeys",
    "KernelKeys",
    "KernelSpec",
    "LaunchKeys",
    "SpecError",
    "__version__",
    "checked",
    "kernel",
    "load",
    "load_folder",
]

_MODULES = {
    "pretuned.errors": ("Error", "SpecError"),
    "pretuned.spec.declarations": ("checked",),
    "pretuned.spec.documents": ("ArgumentKeys", "ImplementationKeys", "KernelKeys", "LaunchKeys"),
    "pretuned.spec.kernel": ("kernel",),
    "pretuned.spec.loader": ("load", "load_folder"),
    "pretuned.spec.model": ("KernelSpec",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'pretuned' has no attribute '{name}'")
    value = _version() if name == "__version__" else getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """Return the version that stands in the source tree, where this is one, else the installed one."""
    import tomllib  # noqa: PLC0415 - these take longer to import than all of this package
    from importlib import metadata  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    try:  # its own build runs from the source tree, and must give the same bytes whatever else is installed
        project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8"))
        if project["project"]["name"] == "pretuned":
            return str(project["project"]["version"])
    except (OSError, LookupError, TypeError, ValueError):
        pass
    return metadata.version("pretuned")
