"""Library implementations: a library's function in place of launches, on arrays of whichever library."""

from __future__ import annotations

import importlib

from .adapters import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .table import Foreign, LibraryFunction


def missing(module: str, function: str) -> str | None:
    """Return why a library's function cannot be called here, or None."""
    try:
        _function(module, function)
    except (ImportError, AttributeError) as error:
        return f"{module}.{function} cannot be called here ({error})"
    return None


def call(called: LibraryFunction, arrays: Mapping[str, Foreign], out: Foreign, stream: int, device: int) -> None:
    """Call a library's function on `stream`; its result goes to the array `out`."""
    run, library = _function(called.module, called.function), named(called.module)

    def own(array: Foreign) -> Foreign:
        return array if library.owns(array) else library.taken_in(array)

    with library.on(device, stream):
        inputs = [own(arrays[name]) for name in called.arguments]
        if called.out == "keyword":
            run(*inputs, out=own(out))
        else:
            own(out)[...] = run(*inputs)


def _function(module: str, function: str) -> Foreign:
    found: Foreign = importlib.import_module(module)
    for part in function.split("."):
        found = getattr(found, part)
    return found
