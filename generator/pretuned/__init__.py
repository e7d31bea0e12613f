"""pretuned: CUDA kernels that are tuned while a Python package is built, and shipped in a dispatch table.

The names below are the Python API of kernel specs. They are imported when they are first asked for: this package is
also the home of `pretuned.kernels`, the generated package of the bundled kernels, which needs none of the builder's
dependencies.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers read it; importing typing would cost more than all of this package
if TYPE_CHECKING:
    from pretuned.errors import Error, SpecError
    from pretuned.spec.launch import LaunchSpec
    from pretuned.spec.loader import checked, load, load_folder
    from pretuned.spec.model import (
        Argument,
        Compile,
        Constraints,
        Dim,
        ImplementationSpec,
        KernelSpec,
        Scratch,
        Specialisation,
    )
    from pretuned.spec.parts import Verify

    __version__: str

__all__ = [
    "Argument",
    "Compile",
    "Constraints",
    "Dim",
    "Error",
    "ImplementationSpec",
    "KernelSpec",
    "LaunchSpec",
    "Scratch",
    "SpecError",
    "Specialisation",
    "Verify",
    "__version__",
    "checked",
    "load",
    "load_folder",
]

_MODULES = {
    "pretuned.errors": ("Error", "SpecError"),
    "pretuned.spec.launch": ("LaunchSpec",),
    "pretuned.spec.loader": ("checked", "load", "load_folder"),
    "pretuned.spec.parts": ("Verify",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'pretuned' has no attribute '{name}'")
    value = (
        _version() if name == "__version__" else getattr(import_module(_HOMES.get(name, "pretuned.spec.model")), name)
    )
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
