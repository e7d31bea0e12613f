"""Whether a binary is what the launches of a spec take: entry points by name, and their parameters.

A launch finds a function by its name and copies as many bytes for each argument as the function says that it takes:
nothing at run time would report a name that C++ has mangled before the first call, or a parameter of another type ever.
So each binary is compared, whether it was just compiled or comes from a cache (`breach`). That tells names, numbers and
sizes. The C++ types come from compiling the text once more with `probe` around it, for one configuration of each
implementation and specialisation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from pretuned.compile.entries import CompiledEntry, entry_points, types_in
from pretuned.compile.parameters import CLASSES, PassedArgument, declaration, mismatch
from pretuned.render import NAME, Source
from pretuned.runtime.limits import MAX_STATIC_SHARED_BYTES
from pretuned.runtime.tensor_maps import MAP_BYTES, TYPE_NAME
from pretuned.spec import space
from pretuned.spec.cpp import without_comments
from pretuned.spec.lists import table_of
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Pairs
from pretuned.spec.structs import layouts

_HEADER: Final = Path(__file__).parent / "cuda_on_host" / "parameters.h"
_WORD: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedFunction:
    """A function that a launch names, what it is passed, and whether all its blocks are on the device at once."""

    name: str
    passed: tuple[PassedArgument, ...]
    cooperative: bool = False


def launched(spec: KernelSpec, specialisation: Pairs, implementation: str) -> tuple[LaunchedFunction, ...]:
    """Return what the launches of an implementation name and pass, in order."""
    found, structs = spec.all_implementations[implementation], layouts(spec)
    arguments = {
        argument.name: PassedArgument(
            name=argument.name,
            dtype=space.dtype_of(spec, argument.dtype, specialisation),
            array=argument.role is not None,
            const=argument.role == "in",
            struct_bytes=structs[argument.dtype].size_bytes if argument.dtype in structs else 0,
        )
        for argument in spec.arguments
    }
    for argument in spec.arguments:
        if argument.each or argument in spec.lists:
            table = table_of(argument, space.dtype_of(spec, argument.dtype, specialisation))
            arguments[argument.name] = PassedArgument(
                name=argument.name, dtype=table.name, array=False, struct_bytes=table.size_bytes
            )
    order = tuple(arguments)
    for buffer in found.scratch:
        dtype = space.dtype_of(spec, buffer.dtype, specialisation)
        arguments[buffer.name] = PassedArgument(name=buffer.name, dtype=dtype, array=True)
    for one in found.tensor_maps:
        arguments[one.name] = PassedArgument(name=one.name, dtype=TYPE_NAME, array=False, struct_bytes=MAP_BYTES)
    return tuple(
        LaunchedFunction(
            name=launch.function,
            passed=tuple(arguments[name] for name in (order if launch.arguments is None else launch.arguments)),
            cooperative=launch.cooperative,
        )
        for launch in found.launches
    )


def probe(source: Source) -> Source:
    """Return a source whose PTX says what the functions of `source` take (`types_in`).

    It does not compile where a function is a template, overloaded, or not there: `source` itself then shows why.
    """
    written = "".join(f"PRETUNED_TAKES({name})\n" for name in source.functions)
    return replace(source, text=f'{_header()}\n#line 1 "{NAME}"\n{source.text}\n{written}')


@cache
def _header() -> str:
    classes = [
        f"struct {record.cuda};\nPRETUNED_KIND({record.cuda}, {number}, {record.size_bytes})"
        for number, record in CLASSES.items()
    ]
    return "\n".join([_HEADER.read_text(encoding="utf-8").replace("#pragma once\n", ""), *classes])


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """In what a binary is not what a launch takes: the launch by its position, and `kernel.cu:LINE: ...`."""

    launch: int
    message: str


def breach(source: Source, launches: Sequence[LaunchedFunction], image: bytes) -> Breach | None:
    """Return the first thing in which a binary of `source` is not what `launches` take.

    None if it is, and for an image that says nothing of itself.
    """
    entries = entry_points(image)
    if entries is None:
        return None
    types = {} if image.startswith(b"\x7fELF") else types_in(image)
    for index, launch in enumerate(launches):
        entry = entries.get(launch.name)
        wrong: str | None
        if entry is None:
            wrong = _not_there(launch, entries)
        else:
            taken = types.get(launch.name, entry.taken)
            wrong = None if taken is None else mismatch(launch.name, taken, launch.passed)
            wrong = wrong and f"{wrong}: write `{declaration(launch.name, launch.passed)}`"
            wrong = wrong or _unlaunchable(source, launch, entry)
        if wrong is not None:
            return Breach(launch=index, message=f"{_place(source.text, launch.name)}{wrong}")
    return None


def _not_there(launch: LaunchedFunction, entries: Mapping[str, CompiledEntry]) -> str:
    """Return why a binary has no entry point of a launch's name, and what to write."""
    name, wanted = launch.name, declaration(launch.name, launch.passed)
    mangled = [entry for entry in entries if _plain(entry) == name]
    if mangled:
        return (
            f"write `{wanted}`: without `extern \"C\"` the binary calls it {min(mangled)}, and no launch finds '{name}'"
        )
    others = ", ".join(sorted(_plain(entry) for entry in entries)) or "none"
    return f"the binary has no entry point '{name}' (it has {others}): write `{wanted}`"


def _unlaunchable(source: Source, launch: LaunchedFunction, entry: CompiledEntry) -> str | None:
    """Return why a launch does not run an entry point."""
    if entry.grid_barrier and not launch.cooperative and "is_valid" not in source.text:
        return (
            f"give the launch of {launch.name} `cooperative = true`: it waits for the whole grid, and `grid.sync()` "
            "stops the kernel in any other launch"
        )
    if entry.shared_bytes > MAX_STATIC_SHARED_BYTES:
        return (
            f"{launch.name} has {entry.shared_bytes} bytes of static shared memory, of which CUDA allows "
            f"{MAX_STATIC_SHARED_BYTES}: declare it as `extern __shared__`, and give the launch `shared = "
            f'"{entry.shared_bytes}"`'
        )
    return None


def _place(text: str, name: str) -> str:
    """Return `kernel.cu:LINE: ` of the kernel, or nothing where the text does not show it."""
    quiet = without_comments(text)
    found = list(re.finditer(rf"\b{name}\s*\(", quiet))
    kernel = next(
        (match for match in found if "__global__" in quiet[_begin(quiet, match.start()) : match.start()]), None
    )
    match = kernel or (found[0] if found else None)
    return f"{NAME}:{quiet.count(chr(10), 0, match.start()) + 1}: " if match else ""


def _begin(text: str, end: int) -> int:
    """Return where the declaration that goes on at `end` begins."""
    return max(text.rfind(sign, 0, end) for sign in ";{}") + 1


def _plain(symbol: str) -> str:
    """Return the function's own name in a mangled one: `axpy` of `_Z4axpyPfx` and `_ZN2my4axpyIfEEvPT_`."""
    if not symbol.startswith("_Z"):
        return symbol
    rest, name = symbol[2:].removeprefix("N"), symbol
    while match := _WORD.match(rest):
        name = rest[match.end() : match.end() + int(match[0])]
        rest = rest[match.end() + int(match[0]) :]
    return name
