"""The names that every generated package binds for itself, which no kernel may take."""

from __future__ import annotations

from typing import Final

_RUNTIME: Final = {
    "Array",
    "Buffer",
    "Implementation",
    "Integer",
    "Kernel",
    "Launch",
    "LibraryFunction",
    "Scalar",
    "TensorMap",
    "ceil_div",
    "sizeof",
}
_OFFERED: Final = {"DEVICES", "SELECTIONS", "TABLE", "PretunedError", "explain", "prepare", "use", "using"}
_MODULE: Final = {"annotations", "kernels", "launcher"}
_TYPES: Final = {"Binaries", "Devices", "GpuArray", "Selections", "Shipped", "Stream", "Table"}
_TYPING: Final = {"Literal", "TYPE_CHECKING"}
_BUILTINS: Final = {"bool", "dict", "float", "int", "max", "min", "object", "str", "tuple"}
RESERVED: Final = frozenset(_RUNTIME | _OFFERED | _MODULE | _TYPES | _TYPING | _BUILTINS)
