"""The text that the host's compiler gets for a source: what NVRTC gets, with what a macro cannot give in C++ rewritten.

A source is put between the headers of `cuda_on_host`, those that NVRTC is given, and its entry points. Lines keep their
numbers, and errors name `kernel.cu` and the project's headers as NVRTC does.
"""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from pretuned.compile.host_errors import ENTRIES, LINKAGE
from pretuned.render import NAME, Source
from pretuned.runtime import prelude

_DYNAMIC: Final = re.compile(
    r"\bextern\s+__shared__\s+(?:(?:__align__|alignas)\s*\([^()]*(?:\([^()]*\))?[^()]*\)\s*)?"
    r"(?P<type>[\w:<>,\s*]+?)\s*\b(?P<name>\w+)\s*\[\s*\]\s*;"
)
_ALIGNED_DYNAMIC: Final = re.compile(
    r"\bextern\s+((?:__align__|alignas)\s*\([^()]*(?:\([^()]*\))?[^()]*\))\s+__shared__"
)
_ALIGNED: Final = re.compile(r"\b__shared__\s+(alignas\s*\([^()]*(?:\([^()]*\))?[^()]*\))")
# Headers that NVRTC is given instead of the host's: from another folder, since the host device needs its own.
_NVRTC: Final = "nvrtc"
_STANDARD: Final = re.compile(
    rf'^([ \t]*#[ \t]*include[ \t]*)[<"]({"|".join(map(re.escape, prelude.HEADERS))})[>"]', re.MULTILINE
)


def write_unit(source: Source, unit: Path) -> tuple[Path, ...]:
    """Write what is compiled for a source, and return the folders in which its headers are found."""
    unit.write_text(_unit(source), encoding="utf-8")
    return _write_headers(source, unit.with_name("headers")), _prelude()


def rewritten(source: str) -> str:
    """Return a text with the uses of `__shared__` that a macro cannot give in C++; lines stay where they are.

    `extern __shared__ float a[];` becomes a reference to the launch's dynamic memory, of the same type.
    """
    text = _ALIGNED_DYNAMIC.sub(r"extern __shared__ \1", source)
    text = _DYNAMIC.sub(
        r"static \g<type> (&\g<name>)[] = reinterpret_cast<\g<type> (&)[]>(pretuned::pretuned_dynamic_shared);", text
    )
    return _STANDARD.sub(rf"\1<{_NVRTC}/\2>", _ALIGNED.sub(r"\1 __shared__", text))


def _unit(source: Source) -> str:
    entries = "".join(f"PRETUNED_ENTRY({name})\n" for name in source.functions)
    linkage = "".join(f"PRETUNED_LINKAGE({name})\n" for name in source.functions)
    beginning = f'#include "device.h"\n#include "{_NVRTC}/{prelude.NAME}"\n'
    behind = f'#line 1 "{ENTRIES}"\n{entries}#line 1 "{LINKAGE}"\n{linkage}'
    return f'{beginning}#line 1 "{NAME}"\n{rewritten(source.text)}\n{behind}'


def _write_headers(source: Source, folder: Path) -> Path:
    """Write the project's headers for the compiler, which reports them by their names, and return their folder."""
    for header in source.headers:
        file = folder / header.name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'#line 1 "{header.name}"\n{rewritten(header.text)}', encoding="utf-8")
    return folder


@cache
def _prelude() -> Path:
    """Write the headers that NVRTC is given, once a process, and return the folder that `nvrtc/cstdint` lies in."""
    for name, text in prelude.HEADERS.items():
        file = Path(_kept().name, _NVRTC, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Path(_kept().name)


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that lives as long as this process."""
    return tempfile.TemporaryDirectory(prefix="pretuned-")
