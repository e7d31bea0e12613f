"""What a kernel takes, what a launch passes, and whether the two agree. Pure.

Three sources say what a kernel takes, each in as many words as it knows:

- the compiler, NVRTC or the host's, by the codes of `cuda_on_host/parameters.h`: the C++ type, but for classes, of
  which the size is known, or nothing behind a pointer;
- PTX (`entries`): `.f32` is a float, `.b8 x[16]` a class; `.u64` is an integer, an enumeration or a pointer;
- a cubin (`entries`): sizes alone.

Where a source cannot tell, an argument is accepted: to refuse a right kernel is worse than to leave a wrong one to the
verification. So is what C++ programs do on purpose: integers without regard to their sign, enumerations, a class of the
argument's size, `void*` and `char*`, a pointer to a class (`float4*`), and one to unsigned integers for the bits of
anything of their size. const, volatile, __restrict__ and typedefs mean nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.runtime.tensor_maps import TYPE_NAME
from pretuned.runtime.types import DTYPES, DType
from pretuned.spec.lists import LIST

POINTER_BITS: Final = 64

# By the number that parameters.h gives them; behind these come the types that CUDA has in headers, which `probe` adds.
_KINDS: Final = ("class", "void", "bool", "int", "uint", "float", "enum", "pointer", "char", "byte")
CLASSES: Final = dict(enumerate((record for record in DTYPES.values() if record.header), len(_KINDS)))
_CLASSES: Final = frozenset(record.name for record in CLASSES.values())
_INTEGERS: Final = frozenset({"bool", "int", "uint", "enum", "char", "byte"})
_SIGNED: Final = {"int": "int", "uint": "uint", "enum": "enum", "float": "float"}  # whose size belongs to the name
_CPP_NAMES: Final = {"bool": "bool", "char": "char", "byte": "uint8", "void": "void", "pointer": "void*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenParameter:
    """A parameter of a kernel: its kind, its size in bits, and whether it is a pointer to that.

    Kinds besides `_KINDS`: `integral`, an integer, an enumeration or a pointer; `unknown`, anything of its size.
    """

    kind: str
    bits: int
    pointer: bool = False

    @classmethod
    def of_code(cls, code: int) -> TakenParameter:
        """Return what a code of parameters.h stands for."""
        number = code & 63
        kind = CLASSES[number].name if number in CLASSES else _KINDS[number]
        return cls(kind=kind, bits=code >> 7, pointer=bool(code & 64))

    def __str__(self) -> str:
        """Return `int32`, `*float16`, `a class of 12 bytes`, in the words of a spec where it has one."""
        if self.pointer:
            return f"*{self._value}"
        match self.kind:
            case "class":
                return f"a class of {self.bits // 8} bytes"
            case "integral":
                return f"an integer of {self.bits} bits" + (" or a pointer" if self.bits == POINTER_BITS else "")
            case "unknown":
                return f"{self.bits // 8} bytes"
        return self._value

    @property
    def _value(self) -> str:
        return f"{self.kind}{self.bits}" if self.kind in _SIGNED else _CPP_NAMES.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedArgument:
    """An argument of a launch: an array's pointer, or a scalar of `dtype`; `const` where the kernel only reads it."""

    name: str
    dtype: str
    array: bool
    const: bool = False
    struct_bytes: int = 0  # of a struct, whose name `dtype` is

    def __str__(self) -> str:
        """Return the parameter as C++ declares it."""
        by_value = self.dtype == TYPE_NAME or (self.struct_bytes and self.dtype.startswith(f"{LIST}<"))
        const = "const " if self.const else "const __grid_constant__ " if by_value else ""  # or each thread copies it
        spelled = self.dtype if self.struct_bytes else DTYPES[self.dtype].cuda
        return f"{const}{spelled}{'*' if self.array else ''} {self.name}"


def fits(taken: TakenParameter, passed: PassedArgument) -> bool:
    """Return whether a kernel that takes `taken` may be passed `passed`."""
    if passed.struct_bytes:
        return not taken.pointer and taken.kind in {"class", "unknown"} and taken.bits == 8 * passed.struct_bytes
    record = DTYPES[passed.dtype]
    if taken.pointer:
        return passed.array and _points_to(taken, record)
    bits = POINTER_BITS if passed.array else 8 * record.size_bytes
    match taken.kind:
        case "class" | "unknown":
            fitting = True
        case "integral":
            fitting = passed.array or not record.floating
        case kind if kind in _CLASSES:
            fitting = not passed.array and kind == record.name
        case _:
            fitting = not passed.array and (taken.kind in _INTEGERS) is not record.floating
    return fitting and taken.bits == bits


def _points_to(taken: TakenParameter, record: DType) -> bool:
    """Return whether a pointer may point to elements of a type."""
    if taken.kind in {"void", "class", "char", "byte"} or str(taken) == f"*{record.name}":
        return True
    if taken.bits != 8 * record.size_bytes:
        return False
    addresses = taken.kind == "pointer" and not record.floating
    return addresses or taken.kind == "uint" or (taken.kind in _INTEGERS and not record.floating)


def mismatch(function: str, taken: Sequence[TakenParameter], passed: Sequence[PassedArgument]) -> str | None:
    """Return how a kernel differs from what a launch passes; None if they agree."""
    wrong = ""
    if len(taken) != len(passed):
        wrong = f"takes {len(taken)} arguments; the launch passes {len(passed)}"
    else:
        for theirs, ours in zip(taken, passed, strict=True):
            if not fits(theirs, ours):
                has = f"{ours.dtype} of {ours.struct_bytes} bytes" if ours.struct_bytes else ours.dtype
                wrong = f"takes '{ours.name}' as {theirs}; the spec has {'*' if ours.array else ''}{has}"
                break
    return f"{function} {wrong}" if wrong else None


def declaration(function: str, passed: Sequence[PassedArgument]) -> str:
    """Return the beginning of a kernel that takes `passed`."""
    return f'extern "C" __global__ void {function}({", ".join(map(str, passed))})'
