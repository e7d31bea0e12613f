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
    from pretuned.spec.loader import checked, load, load_folder
    from pretuned.spec.model import (
        Argument,
        Compile,
        Constraints,
        Dim,
        Implementation,
        KernelSpec,
        Launch,
        Scratch,
        Specialisation,
        Verify,
    )

    __version__: str

__all__ = [
    "Argument",
    "Compile",
    "Constraints",
    "Dim",
    "Error",
    "Implementation",
    "KernelSpec",
    "Launch",
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
    "pretuned.spec.loader": ("checked", "load", "load_folder"),
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
    from importlib import metadata  # noqa: PLC0415 - takes longer to import than all of this package

    try:
        return metadata.version("pretuned")
    except metadata.PackageNotFoundError:  # run from its source tree, as its own build does
        return "0+source"
