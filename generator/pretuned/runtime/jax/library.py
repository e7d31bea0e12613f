"""JAX itself, as it has to be. Whatever here needs it takes it from this module."""

from __future__ import annotations

import importlib
import os

from ..table import PACKAGE
from .frame import MAJOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..table import Foreign

FIRST = (0, 6)  # of JAX, from which on `jax.ffi` has what is used here
_HEADER = os.path.join("xla", "ffi", "api", "c_api.h")  # noqa: PTH118 - cheap to import


def demand_jax() -> Foreign:
    """Return JAX; raises ImportError where it is missing, is too old, or lays out frames in another way."""
    try:
        jax: Foreign = importlib.import_module("jax")
        version, shown = jax.__version_info__, jax.__version__
    except ImportError as error:
        raise ImportError(f"{PACKAGE}.jax needs JAX; install jax[cuda13] or jax[cuda12] ({error})") from None
    if version < FIRST:
        first = ".".join(map(str, FIRST))
        raise ImportError(f"{PACKAGE}.jax needs JAX {first} or newer, found {shown}; install jax>={first}")
    major = _ffi_major(importlib.import_module("jax.ffi").include_dir())
    if major not in {None, MAJOR}:
        raise ImportError(
            f"{PACKAGE}.jax is written for version {MAJOR} of XLA's FFI, and that of JAX {shown} is {major}; build the "
            "package again with a newer pretuned"
        )
    return jax


def _ffi_major(folder: str) -> int | None:
    """Return the major version that jaxlib's header names; None where it does not say one."""
    try:
        with open(os.path.join(folder, _HEADER), encoding="utf-8") as header:  # noqa: PTH118, PTH123 - as above
            lines = [line for line in header if line.startswith("#define XLA_FFI_API_MAJOR")]
        return int(lines[0].split()[-1])
    except (IndexError, OSError, ValueError):
        return None


jax = demand_jax()
