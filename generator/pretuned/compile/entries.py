"""What a binary says of its entry points: parameters, static shared memory, a barrier of the whole grid. Pure.

PTX declares an entry point with its parameters (PTX ISA, "Kernel and Function Directives: .entry"):

    .visible .entry axpy(
        .param .u64 axpy_param_0,
        .param .u64 .ptr .align 2 axpy_param_1,
        .param .f32 axpy_param_2,
        .param .align 4 .b8 axpy_param_3[12]
    )
        .shared .align 4 .b8 _ZZ4axpyE3big[80000];
        ...

Classes are arrays of bytes; newer compilers mark pointers with `.ptr`. Static shared memory is declared in the body, or
before the entry points and named in the body. `grid.sync()` of cooperative groups reads %envreg1 and %envreg2, where a
cooperative launch leaves the address of its barrier, and traps where there is none.

A cubin is an ELF of 64 bits for machine 190. The section `.nv.info.NAME` holds the attributes of the entry point NAME:
a byte with the format, a byte with the attribute, 16 bits with a value, or, in format 4, the size of what follows.
Attribute 0x17 (EIATTR_KPARAM_INFO) has 12 bytes a parameter: an index of 32 bits, 16 bits each for ordinal and offset,
and a word whose upper 14 bits are the size in bytes. Where parameters take more than 4 KB, 0x45 (EIATTR_KPARAM_INFO_V2)
has the size in the lower 24 bits of that word. 0x19 (EIATTR_CBANK_PARAM_SIZE) is where the last one ends. NVIDIA
documents none of this (the names are those of cuobjdump), so parameters that do not end there are taken as unknown.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from pretuned.compile.parameters import TakenParameter

_ENTRY: Final = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?")
_FUNCTION: Final = re.compile(r"^[ \t]*(?:\.\w+[ \t]+)*\.(?:entry|func)\b", re.MULTILINE)
_PARAMETER: Final = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(?P<type>[a-z]+\d+)\s+(?P<pointer>\.ptr\b)?[^,\[]*(?:\[(?P<count>\d+)\])?"
)
_SHARED: Final = re.compile(
    r"^\s*\.shared\s+(?:\.align\s+\d+\s+)?\.[a-z]+(\d+)\s+([\w$]+)(?:\[(\d+)\])?;", re.MULTILINE
)
_SPECIFIC: Final = re.compile(r"^\.target\s+sm_\d+[af]", re.MULTILINE)
_GRID_BARRIER: Final = re.compile(r"%envreg[12]\b")
_TRAP: Final = re.compile(r"^\s*trap;", re.MULTILINE)
_TAKES: Final = re.compile(r"\bpretuned_takes_(\w+)\[(\d+)\](?:\s*=\s*\{([^}]*)\})?")

_CUDA_MACHINE: Final = 190
_INFO: Final = b".nv.info."
_SIZED: Final = 4  # the format of attributes that are followed by so many bytes
_PARAMETER_INFO: Final = 0x17
_LARGE_PARAMETER_INFO: Final = 0x45
_PARAMETER_BYTES: Final = 0x19


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledEntry:
    """An entry point of a binary; `taken` is None where its parameters are not known.

    `shared_bytes` is its static shared memory where that has the general limit: 0 in a cubin, where the compiler has
    seen that it fits, and in PTX for one architecture alone (sm_90a), which may have more.
    `grid_barrier` says that it waits for all blocks of the grid, as far as PTX shows it.
    """

    taken: tuple[TakenParameter, ...] | None
    shared_bytes: int = 0
    grid_barrier: bool = False


@lru_cache(maxsize=4096)
def entry_points(image: bytes) -> Mapping[str, CompiledEntry] | None:
    """Return the entry points of PTX or a cubin by name; None for any other image, of which nothing is known."""
    try:
        if image.startswith(b"\x7fELF"):
            return _of_cubin(image) if struct.unpack_from("<H", image, 18) == (_CUDA_MACHINE,) else None
        text = image.rstrip(b"\0").decode()
    except (struct.error, ValueError, IndexError):
        return None
    return _of_ptx(text) if ".version" in text else None


def types_in(image: bytes) -> dict[str, tuple[TakenParameter, ...]]:
    """Return what the compiler has written of the parameters by function, in PTX with codes of parameters.h."""
    found = {}
    for match in _TAKES.finditer(image.decode(errors="replace")):
        given = bytes(int(byte) for byte in (match[3] or "").split(",") if byte.strip())
        words = given.ljust(int(match[2]), b"\0")  # zeros at the end are left out
        count, *codes = struct.unpack(f"<{len(words) // 4}i", words)
        found[match[1]] = tuple(TakenParameter.of_code(code) for code in codes[:count])
    return found


def _of_ptx(text: str) -> dict[str, CompiledEntry]:
    places = [0, *(match.start() for match in _FUNCTION.finditer(text)), len(text)]
    head, *bodies = (text[begin:end] for begin, end in pairwise(places))
    outside = dict(_shared(head))
    found = {}
    for body in bodies:
        match = _ENTRY.search(body)
        if match is None or "\n" in body[: match.start()]:  # a function, not an entry point
            continue
        within = dict(_shared(body)) | {
            n: size for n, size in outside.items() if re.search(rf"\b{re.escape(n)}\b", body)
        }
        found[match[1]] = CompiledEntry(
            taken=tuple(map(_of_parameter, _PARAMETER.finditer(match[2] or ""))),
            shared_bytes=0 if _SPECIFIC.search(head) else sum(within.values()),
            grid_barrier=bool(_GRID_BARRIER.search(body) and _TRAP.search(body)),
        )
    return found


def _of_parameter(match: re.Match[str]) -> TakenParameter:
    bits = int(re.sub(r"\D", "", match["type"]))
    if match["count"] is not None:
        return TakenParameter(kind="class", bits=bits * int(match["count"]))
    if match["pointer"] is not None:
        return TakenParameter(kind="void", bits=0, pointer=True)
    return TakenParameter(kind="float" if match["type"].startswith("f") else "integral", bits=bits)


def _shared(text: str) -> Iterator[tuple[str, int]]:
    for match in _SHARED.finditer(text):
        yield match[2], int(match[1]) // 8 * int(match[3] or 1)


def _of_cubin(image: bytes) -> dict[str, CompiledEntry]:
    return {name: CompiledEntry(taken=_parameters(content)) for name, content in _infos(image)}


def _infos(image: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the attributes of each entry point (ELF-64, little endian: the header's e_shoff, e_shentsize, ...)."""
    (table,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    sections = [struct.unpack_from("<I20xQQ", image, table + index * size) for index in range(count)]
    begin = sections[names][1]
    for name, offset, length in sections:
        at = begin + name
        if image.startswith(_INFO, at):
            yield image[at + len(_INFO) : image.index(b"\0", at)].decode(), image[offset : offset + length]


def _parameters(attributes: bytes) -> tuple[TakenParameter, ...] | None:
    """Return the parameters that the attributes of an entry point list; None if they are not all."""
    at = end = total = 0
    sizes: dict[int, int] = {}
    while at < len(attributes):
        form, attribute, size = struct.unpack_from("<BBH", attributes, at)
        at += 4
        if attribute == _PARAMETER_BYTES:
            total = size
        if form != _SIZED:
            continue
        if attribute in {_PARAMETER_INFO, _LARGE_PARAMETER_INFO}:
            _, ordinal, offset, word = struct.unpack_from("<IHHI", attributes, at)
            sizes[ordinal] = word >> 18 if attribute == _PARAMETER_INFO else word & 0xFFFFFF
            end = max(end, offset + sizes[ordinal])
        at += size
    if end != total or sorted(sizes) != list(range(len(sizes))):
        return None
    return tuple(TakenParameter(kind="unknown", bits=8 * size) for _, size in sorted(sizes.items()))
