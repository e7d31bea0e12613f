"""Library implementations: a function of CuPy or PyTorch in place of launches, on arrays of whichever library."""

from __future__ import annotations

import importlib
import sys

from .arrays import library_of, on_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from . import Foreign


def missing(module: str, function: str) -> str | None:
    """Return why a library's function cannot be called here, or None."""
    try:
        _function(module, function)
    except (ImportError, AttributeError) as error:
        return f"{module}.{function} cannot be called here ({error})"
    return None


def call(
    called: tuple[str, str, tuple[str, ...], str], arrays: Mapping[str, Foreign], out: Foreign, stream: int, device: int
) -> None:
    """Call a library's function on `stream`; its result goes to the array `out`."""
    module, function, arguments, out_by = called
    run = _function(module, function)
    with on_stream(module, device, stream):
        inputs = [_as(module, arrays[name]) for name in arguments]
        if out_by == "keyword":
            run(*inputs, out=_as(module, out))
        else:
            _as(module, out)[...] = run(*inputs)


def _function(module: str, function: str) -> Foreign:
    found: Foreign = importlib.import_module(module)
    for part in function.split("."):
        found = getattr(found, part)
    return found


def _as(module: str, array: Foreign) -> Foreign:
    """Return an array as one of the library's, over the same memory."""
    if library_of(array) == module:
        return array
    library = sys.modules[module]
    return library.asarray(array) if module == "cupy" else library.as_tensor(array, device="cuda")
