"""The element types, one record each: the only place that knows a type by its name.

The builder reads them here as well: what a spec may say, how inputs are drawn and results judged, what CUDA includes.
Everything else about a type follows from its record. Nothing is computed before it is asked for.
"""

from __future__ import annotations

import importlib
import math
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INVALID = (struct.error, OverflowError, TypeError)  # what packing raises for a number that cannot be passed
ML = "ml_dtypes"  # gives NumPy what it has not by itself
DLPACK_KINDS = {"int": 0, "uint": 1, "float": 2, "complex": 5, "bool": 6}


class DType:
    """An element type.

    Attributes:
        name: What NumPy, ml_dtypes, PyTorch and JAX call it, and specs and tables too.
        cuda: The type as CUDA C++ spells it.
        kind: float, complex, int, uint or bool.
        size_bytes: Bytes of one element.
        fraction_bits: Of a floating type, or of each part of a complex one, as they are stored; the exponent has the
            others but for the sign, and a bias of `2 ** (exponent_bits - 1) - 1`.
        code: The struct module's code for a scalar that is passed by value: of a floating type that the module does not
            know, that of its bits; of a complex one, that of its bytes.
        header: CUDA's header that declares `cuda`; empty for what C++ has by itself.
        module: The package that gives NumPy the type.
        infinite: Whether a floating type has infinities, as IEEE 754 has. If not, the largest exponent holds numbers,
            and the one code of all ones is NaN.
        rtol: How far a result may be off, relative to its reference, where a spec says nothing: one rounding of the
            result is `2 ** -(fraction_bits + 1)`, and the rest is slack for another order of summation. 0 for types
            without rounding.
        xla: Its number in XLA (XLA_FFI_DataType).
        dlpack: Its code in DLPack (DLDataTypeCode), which knows most types by their kind.
        aliases: What it is called elsewhere, besides `cuda`: messages translate these, and nothing else accepts them.
    """

    __slots__ = (
        *("aliases", "code", "cuda", "dlpack", "fraction_bits", "header", "infinite"),
        *("kind", "module", "name", "rtol", "size_bytes", "xla"),
    )

    def __init__(  # noqa: PLR0913, PLR0917 - a record
        self,
        name: str,
        cuda: str,
        kind: str,
        size_bytes: int,
        fraction_bits: int = 0,
        code: str = "",
        header: str = "",
        module: str = "numpy",
        infinite: bool = True,
        rtol: float = 0.0,
        xla: int = 0,
        dlpack: int | None = None,
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.name, self.cuda, self.kind, self.size_bytes, self.fraction_bits = (
            name,
            cuda,
            kind,
            size_bytes,
            fraction_bits,
        )
        self.code, self.header, self.module, self.infinite, self.rtol = code, header, module, infinite, rtol
        self.xla, self.aliases = xla, aliases
        self.dlpack = DLPACK_KINDS[kind] if dlpack is None else dlpack

    @property
    def floating(self) -> bool:
        """Whether results are rounded, and so judged by a tolerance."""
        return self.kind in {"float", "complex"}

    @property
    def parts(self) -> int:
        """How many numbers an element has: a complex one is its real part, then its imaginary part."""
        return 2 if self.kind == "complex" else 1

    @property
    def part(self) -> str:
        """The type of the parts of a complex type; else the type itself."""
        return f"float{4 * self.size_bytes}" if self.kind == "complex" else self.name

    @property
    def wide(self) -> str:
        """The type in which references are computed: of twice 64 bits for complex types, 64 for floating ones."""
        return {"float": "float64", "complex": "complex128"}.get(self.kind, self.name)

    @property
    def exponent_bits(self) -> int:
        """The bits of a floating type's exponent."""
        return 8 * self.size_bytes // self.parts - 1 - self.fraction_bits

    @property
    def range(self) -> tuple[int, int] | None:
        """The least and the greatest integer; None for types that are not integers."""
        bits = 8 * self.size_bytes
        return {"int": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), "uint": (0, 2**bits - 1)}.get(self.kind)

    @property
    def largest(self) -> float:
        """The largest finite number of a floating type."""
        exponent = (1 << (self.exponent_bits - 1)) - self.infinite
        return (2.0 - 2.0 ** -(self.fraction_bits - (not self.infinite))) * 2.0**exponent

    @property
    def values(self) -> str:
        """What a scalar of the type may be, in words."""
        if self.range is not None:
            return f"an integer from {self.range[0]} to {self.range[1]}"
        if self.kind == "complex":
            return f"a complex number of parts up to {self.largest:.1e}".replace("+", "")
        return f"a number up to {self.largest:.1e}".replace("+", "") if self.floating else "True or False"

    @property
    def as_bits(self) -> bool:
        """Whether a scalar is rounded to its bits by `code_of`, since the struct module does not know the type."""
        return self.kind == "complex" or (self.kind == "float" and self.code not in {"d", "f", "e"})

    def code_of(self, value: Any) -> Any:  # noqa: ANN401 - a number, and what the struct module takes for it
        """Return a number as a floating type stores it: rounded to nearest, ties to even, as CUDA converts.

        Of a complex type these are its bytes, which are taken as they are. Raises OverflowError for one beyond the
        largest number, and for an infinity where the type has none; TypeError for what is not a number.
        """
        if self.kind == "complex":
            if type(value) is bytes and len(value) == self.size_bytes:
                return value
            if isinstance(value, str):  # which `complex` would read
                raise TypeError(value)
            found = complex(value)
            return struct.pack("=2f" if self.size_bytes == 8 else "=2d", found.real, found.imag)  # noqa: PLR2004
        codes = 1 << (8 * self.size_bytes - 1)  # of either sign
        top = codes - (1 << self.fraction_bits) if self.infinite else codes - 1
        sign = codes if math.copysign(1.0, value) < 0 else 0
        if math.isnan(value):
            return sign | top | 1 << (self.fraction_bits - 1)
        if math.isinf(value) and self.infinite:
            return sign | top
        if not value:
            return sign
        least = 2 - (1 << (self.exponent_bits - 1))  # exponent of the least normal number
        binade = max(math.frexp(value)[1] - 1 - least, 0)
        code = round(math.ldexp(abs(value), self.fraction_bits - least - binade)) + (binade << self.fraction_bits)
        if code >= top:
            raise OverflowError(f"{value} is beyond {self.largest}")
        return sign | code

    def packed(self, value: complex) -> bytes:
        """Return a number as the type has it; raises one of INVALID."""
        return struct.pack(f"={self.code}", self.code_of(value) if self.as_bits else value)

    def packs(self, value: Any) -> bool:  # noqa: ANN401 - whatever a call brings
        """Return whether a number can be passed; anything has a truth, but only a bool, or 0 or 1, is meant."""
        try:
            if self.kind == "bool":
                return value in {True, False}
            return bool(self.packed(value)) and not isinstance(value, bytes)
        except INVALID:
            return False

    def fault(self, value: object) -> tuple[str, str]:
        """Return what is wrong with a number that the type does not hold: no field, and the message."""
        from .text import shown  # noqa: PLC0415 - needed for an error alone

        return "", f"expected {self.name} ({self.values}), found {shown(value)}"

    @property
    def slot(self) -> str:
        """The struct module's code for a scalar in a slot of 8 bytes."""
        padding = -self.size_bytes % 8
        return f"{self.code}{padding}x" if padding else self.code

    @property
    def typestr(self) -> str:
        """Kind and size as the array interface has them; empty for a type that the interface cannot name."""
        return f"{self.kind[0]}{self.size_bytes}" if self.module == "numpy" else ""

    @property
    def bits(self) -> str:
        """The unsigned type of the same size."""
        return f"uint{8 * self.size_bytes}"

    @property
    def storage(self) -> str:
        """The type that holds the elements where NumPy is alone: the type itself, or that of its bits."""
        return self.name if self.module == "numpy" else self.bits

    def numpy(self) -> Any:  # noqa: ANN401 - numpy.dtype, which is not imported for its sake
        """Return NumPy's type; raises ImportError where `module` is not installed."""
        importlib.import_module(self.module)  # it registers what it gives
        return importlib.import_module("numpy").dtype(self.name)


DTYPES = {
    record.name: record
    for record in (
        DType("float64", "double", "float", 8, code="d", fraction_bits=52, rtol=1e-12, xla=12, aliases=("fp64", "f64")),
        DType("float32", "float", "float", 4, code="f", fraction_bits=23, rtol=1e-5, xla=11, aliases=("fp32", "f32")),
        DType(
            "float16",
            "__half",
            "float",
            2,
            code="e",
            fraction_bits=10,
            header="cuda_fp16.h",
            rtol=2e-3,
            xla=10,
            aliases=("half", "fp16", "f16"),
        ),
        DType(
            "bfloat16",
            "__nv_bfloat16",
            "float",
            2,
            code="H",
            fraction_bits=7,
            header="cuda_bf16.h",
            module=ML,
            rtol=1.6e-2,
            xla=16,
            dlpack=4,
            aliases=("nv_bfloat16", "bf16"),
        ),
        DType(
            "float8_e4m3fn",
            "__nv_fp8_e4m3",
            "float",
            1,
            code="B",
            fraction_bits=3,
            header="cuda_fp8.h",
            module=ML,
            infinite=False,
            rtol=0.065,  # one rounding is 0.0588 at most (midway from 1 to 1.125); neighbours are 0.0667 apart
            xla=20,
            dlpack=10,
            aliases=("nv_fp8_e4m3", "fp8_e4m3", "fp8_e4m3fn", "float8_e4m3", "fp8"),
        ),
        DType(
            "float8_e5m2",
            "__nv_fp8_e5m2",
            "float",
            1,
            code="B",
            fraction_bits=2,
            header="cuda_fp8.h",
            module=ML,
            rtol=0.12,
            xla=19,
            dlpack=12,
            aliases=("nv_fp8_e5m2", "fp8_e5m2"),
        ),
        DType(
            "complex128",
            "double2",
            "complex",
            16,
            code="16s",
            fraction_bits=52,
            rtol=1e-12,
            xla=18,
            aliases=("complex", "cuDoubleComplex", "double complex", "cdouble"),
        ),
        DType(
            "complex64",
            "float2",
            "complex",
            8,
            code="8s",
            fraction_bits=23,
            rtol=1e-5,
            xla=15,
            aliases=("cuComplex", "cuFloatComplex", "float complex", "cfloat"),
        ),
        DType("int64", "long long", "int", 8, code="q", xla=5, aliases=("long", "i64")),
        DType("int32", "int", "int", 4, code="i", xla=4, aliases=("i32",)),
        DType("int16", "short", "int", 2, code="h", xla=3, aliases=("i16",)),
        DType("int8", "signed char", "int", 1, code="b", xla=2, aliases=("char", "i8")),
        DType(
            "uint64",
            "unsigned long long",
            "uint",
            8,
            code="Q",
            xla=9,
            aliases=("unsigned long", "ulonglong", "size_t", "u64"),
        ),
        DType("uint32", "unsigned int", "uint", 4, code="I", xla=8, aliases=("unsigned", "uint", "u32")),
        DType("uint16", "unsigned short", "uint", 2, code="H", xla=7, aliases=("ushort", "u16")),
        DType("uint8", "unsigned char", "uint", 1, code="B", xla=6, aliases=("uchar", "byte", "u8")),
        DType("bool", "bool", "bool", 1, code="?", xla=1, aliases=("boolean", "i1")),
    )
}
