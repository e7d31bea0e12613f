"""The element types a kernel can have: NumPy's name, CUDA's name, size in bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DType:
    """An element type. `name` is NumPy's (or ml_dtypes') name, `cuda` the type as CUDA C++ spells it."""

    name: str
    cuda: str
    size: int
    floating: bool


DTYPES: dict[str, DType] = {
    name: DType(name=name, cuda=cuda, size=size, floating="float" in name)
    for name, cuda, size in (
        ("float64", "double", 8),
        ("float32", "float", 4),
        ("float16", "__half", 2),
        ("bfloat16", "__nv_bfloat16", 2),
        ("int64", "long long", 8),
        ("int32", "int", 4),
        ("int16", "short", 2),
        ("int8", "signed char", 1),
        ("uint64", "unsigned long long", 8),
        ("uint32", "unsigned int", 4),
        ("uint16", "unsigned short", 2),
        ("uint8", "unsigned char", 1),
        ("bool", "bool", 1),
    )
}

# A few units in the last place of the output: one rounding of the result, and slack for another summation order.
DEFAULT_RTOL = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}

# What a scalar passed by value can hold; the other types have no exact Python counterpart to pack.
SCALAR_DTYPES = frozenset(DTYPES) - {"float16", "bfloat16"}

INTEGER_RANGES = {
    f"{sign}int{bits}": (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}
