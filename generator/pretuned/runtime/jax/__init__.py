"""The kernels for JAX: handlers of XLA's FFI in Python, by ctypes, and functions that JAX transforms.

Importing this needs JAX, and registers a handler for each kernel of the package. Nothing else here imports it.

- `frame` is the layout of what XLA passes, `handler` what XLA calls, `register` how XLA learns of it.
- `signature` is what a traced call keeps; `tracing` makes it from shapes.
- `transforms` has the rules of `grad` and `vmap`; `functions` is what the package's functions call.
"""

from __future__ import annotations

from .functions import call
from .register import register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    JaxArray = Any  # of JAX, or a tracer, or what JAX makes an array of
    ShapeDtype = Any  # a jax.ShapeDtypeStruct, or anything with shape and dtype

__all__ = ["call"]

register()
