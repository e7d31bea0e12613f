"""The names that every generated package binds for itself, which no kernel may take."""

from __future__ import annotations

from typing import Final

_RUNTIME: Final = {"Array", "Buffer", "Kernel", "Launch", "Scalar", "Way", "ceil_div", "power", "sizeof"}
_MODULE: Final = {"DEVICES", "TABLE", "PretunedError", "annotations", "explain", "kernels", "using"}
_TYPES: Final = {"Devices", "Explanation", "Modules", "Shipped", "Stream", "TYPE_CHECKING", "Table", "ndarray"}
_BUILTINS: Final = {"bool", "dict", "float", "int", "max", "min", "object", "str", "tuple"}
RESERVED: Final = frozenset(_RUNTIME | _MODULE | _TYPES | _BUILTINS)
