"""Structs that are passed by value: laid out as C++ lays them out, packed from what a call brings, refused in words."""

from __future__ import annotations

import struct

from .text import closest, shown
from .types import DTYPES, INVALID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Field = tuple[str, str, int]  # name, element type, how many (0: no array)

_NUMBERS = frozenset({int, float, bool})


class Struct:
    """A struct type: fields of numbers and of arrays of numbers, each at a multiple of its element's size.

    A value is a dict of the fields, or an object with attributes of these names (a dataclass, a named tuple), or the
    bytes of the struct. It answers what is asked of a `DType` by what packs numbers.

    Attributes:
        name: What C++ calls it.
        fields: Name, element type and number of elements of each field, in order; 0 elements for what is no array.
        begins: Where each field begins, in bytes.
        size_bytes: Its size in C++.
        code: The struct module's code of a value's bytes.
        slot: The same in a multiple of 8 bytes.
    """

    kind, floating, as_bits = "struct", False, True
    __slots__ = ("_layout", "begins", "code", "fields", "name", "size_bytes", "slot")

    def __init__(self, name: str, fields: Sequence[Field]) -> None:
        self.name, self.fields = name, tuple(fields)
        codes, offset, widest, begins = "=", 0, 1, []
        for _, dtype, count in self.fields:
            record = DTYPES[dtype]
            before = -offset % record.size_bytes
            codes += f"{before}x{max(1, count)}{record.code}"
            begins.append(offset + before)
            offset += before + max(1, count) * record.size_bytes
            widest = max(widest, record.size_bytes)
        self.begins, self.size_bytes = tuple(begins), offset + -offset % widest
        self._layout = struct.Struct(f"{codes}{self.size_bytes - offset}x")
        self.code = f"{self.size_bytes}s"
        self.slot = f"{self.code}{-self.size_bytes % 8}x"

    def code_of(self, value: object) -> bytes:
        """Return the bytes of a value; raises TypeError, OverflowError or struct.error, which `fault` has in words."""
        if type(value) is bytes and len(value) == self.size_bytes:
            return value
        if isinstance(value, dict) and len(value) != len(self.fields):
            raise TypeError(self.name)
        numbers: list[Any] = []
        for name, dtype, count in self.fields:
            try:
                found = _read(value, name)
            except (AttributeError, KeyError):
                raise TypeError(self.name) from None
            if count and len(found) != count:
                raise TypeError(self.name)
            record = DTYPES[dtype]
            for number in found if count else (found,):
                plain = type(number) in _NUMBERS and record.kind != "bool"
                if not plain and (_is_array(number) or not record.packs(number)):
                    raise TypeError(self.name)
                numbers.append(record.code_of(number) if record.as_bits else number)
        return self._layout.pack(*numbers)

    def packed(self, value: object) -> bytes:
        """Return the bytes of a value, as `code_of`."""
        return self.code_of(value)

    def packs(self, value: object) -> bool:
        """Return whether a value can be passed."""
        try:
            return bool(self.code_of(value))
        except INVALID:
            return False

    def fault(self, value: object) -> tuple[str, str] | None:
        """Return what is wrong with a value: the field as `.name`, or "", and a message; None if it can be passed."""
        names = [name for name, _, _ in self.fields]
        if isinstance(value, bytes):
            wrong = len(value) != self.size_bytes
            return ("", f"expected {self.size_bytes} bytes of {self.name}, found {len(value)}") if wrong else None
        given = value.keys() if isinstance(value, dict) else names
        for name in given:
            if name not in names:
                hint = closest(str(name), names) or f"; it has {', '.join(names)}"
                return "", f"{self.name} has no field {name!r}{hint}"
        for name, dtype, count in self.fields:
            try:
                found = _read(value, name)
            except (AttributeError, KeyError):
                kind = "" if isinstance(value, dict) else f", and {shown(value)} has no such attribute"
                return f".{name}", f"missing; expected {_words(dtype, count)}{kind}"
            if (message := _wrong(found, dtype, count)) is not None:
                return f".{name}", message
        return None


def _read(value: object, name: str) -> Any:  # noqa: ANN401 - a field of whatever a call brings
    return value[name] if isinstance(value, dict) else getattr(value, name)


def _is_array(number: object) -> bool:
    """Return whether what stands for a number is an array: reading one on a GPU would wait for what was launched."""
    return hasattr(number, "__dlpack_device__") or hasattr(number, "__cuda_array_interface__")


def _words(dtype: str, count: int) -> str:
    several = f"{count} of " if count else ""
    return f"{several}{dtype} ({DTYPES[dtype].values})"


def _shown(value: object) -> str:
    """Return a value as messages show it; not an array, whose text would be a copy from the GPU."""
    return "an array" if _is_array(value) else shown(value)


def _wrong(found: Any, dtype: str, count: int) -> str | None:  # noqa: ANN401 - as above
    if count and (isinstance(found, str | bytes) or not hasattr(found, "__len__") or len(found) != count):
        many = f"{len(found)} numbers" if isinstance(found, list | tuple) else _shown(found)
        return f"expected {_words(dtype, count)}, found {many}"
    for place, number in enumerate(found if count else (found,)):
        if _is_array(number) or not DTYPES[dtype].packs(number):
            at = f" at [{place}]" if count else ""
            return f"expected {_words(dtype, count)}, found {_shown(number)}{at}"
    return None
