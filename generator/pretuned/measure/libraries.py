"""Array libraries whose functions are candidates: which is installed, and what a call means. Imports none by itself."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import metadata
from typing import Any, Final

from pretuned.measure.machine import Refused
from pretuned.outcome import LaunchFailed
from pretuned.runtime.cuda_majors import CUDA_MAJORS
from pretuned.runtime.text import closest
from pretuned.spec.library import LibraryCall

# The distributions that provide a package; where there are several, one is installed.
DISTRIBUTIONS: Final = {
    "cupy": (*(major.cupy for major in CUDA_MAJORS), "cupy"),
    "torch": ("torch",),
}
TEXT: Final = 300  # characters of a library's message that are passed on


@cache
def release(module: str) -> str:
    """Return a library with the version that is installed, such as `cupy 14.2.0`; only its name where none is."""
    for name in DISTRIBUTIONS.get(module, (module,)):
        try:
            return f"{module} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return module


def function_of(call: LibraryCall) -> Callable[..., Any]:
    """Import a library and return the function that `call` names; raises Refused that says what is missing."""
    try:
        found = importlib.import_module(call.module)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == call.module
        message = "is not installed here" if missing else f"cannot be imported: {described(error)}"
        raise Refused(LaunchFailed(message=f"{call.module} {message}")) from None
    reached = call.module
    for part in call.function.split("."):
        known = dir(found)
        try:
            found = getattr(found, part)
        except (AttributeError, ImportError) as error:  # libraries load their parts at the first need
            message = f"has no '{part}'{closest(part, known)}" if part not in known else described(error)
            raise Refused(LaunchFailed(message=f"{reached}: {message}")) from None
        reached = f"{reached}.{part}"
    if not callable(found):
        raise Refused(LaunchFailed(message=f"{reached} is not a function"))
    function: Callable[..., Any] = found
    return function


def apply(call: LibraryCall, function: Callable[..., Any], inputs: Sequence[Any], out: Any) -> None:  # noqa: ANN401
    """Have `function` write its result for `inputs` to the array `out`, as `call` says."""
    if call.out == "keyword":
        function(*inputs, out=out)
    else:
        out[...] = function(*inputs)


def described(error: Exception) -> str:
    """Return what a library raised, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:TEXT]}"
