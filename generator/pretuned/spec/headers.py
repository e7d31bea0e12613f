"""A project's own headers: which of them a text includes, found by reading its `#include` lines.

A compiler is never given the folders, but the headers that were found, as pairs of name and text. So it can see nothing
that is not part of a source's key: an `#include` that this module does not understand (a computed name) does not
compile, rather than being missed. Every include is read, also one that a condition leaves out; one that is in no folder
of the project is left to the compiler, which finds CUDA's own.

`#include "x"` is looked for beside the file that includes it, then in the folders, `#include <x>` in the folders alone,
in their order. Each header has one name for everybody that includes it, its folder's name in front, and the lines that
include it are rewritten to that: `#include "load.cuh"` becomes `#include <include/vec/load.cuh>`. Lines keep their
numbers.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

_BLANKS: Final = r"(?:[ \t]|/\*[^\n]*?\*/|\\\n)*"
_INCLUDE: Final = re.compile(
    rf"(?P<before>^{_BLANKS}\#{_BLANKS}include{_BLANKS}|\b__has_include{_BLANKS}\({_BLANKS})"
    r"(?P<name>\"[^\"\n]+\"|<[^>\n]+>)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A header of the project: the name by which sources include it, and its text."""

    name: str
    text: str


class HeaderError(ValueError):
    """The headers of a source cannot be told apart, or not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderFolders:
    """Where the includes of a template are looked for: beside it, and in folders.

    `named` has the folders as the spec writes them, which is what header names begin with.
    """

    beside: Path
    named: tuple[tuple[str, Path], ...] = ()

    def find(self, written: str, beside: Path) -> tuple[str, Path] | None:
        """Return the name and the file of `"x"` or `<x>` in a file that lies in `beside`; None if it is not ours."""
        places = [beside] if written.startswith('"') else []
        for place in (*places, *(folder for _, folder in self.named)):
            file = Path(os.path.normpath(place / written[1:-1]))
            if file.is_file() and (name := self._name(file)) is not None:
                return name, file
        return None

    def _name(self, file: Path) -> str | None:
        """Return the name of a header; None for a file outside of all folders."""
        for prefix, folder in (*self.named, ("", self.beside)):
            if file.is_relative_to(folder):
                return f"{prefix}{file.relative_to(folder).as_posix()}"
        return None


def header_folders(folder: Path, template: str, include: Iterable[str]) -> HeaderFolders:
    """Return where the includes of a template are looked for; `include` are folders relative to the spec's."""
    return HeaderFolders(
        beside=plain(folder / template).parent,
        named=tuple((_prefix(name), plain(folder / name)) for name in include),
    )


def plain(path: Path) -> Path:
    """Return a path from the root on without `..`; links stay what they are."""
    return Path(os.path.normpath(path.absolute()))


def _prefix(name: str) -> str:
    """Return `include/` for `../include`: the same wherever a project lies."""
    parts = [part for part in PurePosixPath(name).parts if part not in {".", ".."}]
    return "".join(f"{part}/" for part in parts)


def with_headers(text: str, folders: HeaderFolders) -> tuple[str, tuple[Header, ...]]:
    """Return a text whose includes of the project's headers have their names, and those headers, sorted.

    Headers of headers are among them. Raises HeaderError for two that would have one name, and for one that cannot be
    read.
    """
    if "include" not in text:
        return text, ()
    rewritten, included = _rewritten(text, folders.beside, folders)
    waiting = list(included)
    files: dict[str, Path] = {}
    found: list[Header] = []
    while waiting:
        name, file = waiting.pop()
        if files.setdefault(name, file) != file:
            raise HeaderError(f"{files[name]} and {file} would both be included as '{name}'; rename one of them")
        if not any(header.name == name for header in found):
            content, included = _rewritten(_read(file), file.parent, folders)
            found.append(Header(name=name, text=content))
            waiting += included
    return rewritten, tuple(sorted(found, key=lambda header: header.name))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HeaderError(f"{file.name}: cannot be read: {error}") from None


def _rewritten(text: str, beside: Path, folders: HeaderFolders) -> tuple[str, list[tuple[str, Path]]]:
    """Return a text with the names of the project's headers, and these with their files."""
    found: list[tuple[str, Path]] = []

    def named(match: re.Match[str]) -> str:
        ours = folders.find(match["name"], beside)
        if ours is None:
            return match.group()
        found.append(ours)
        return f"{match['before']}<{ours[0]}>"

    return _INCLUDE.sub(named, text), found


def included_names(texts: Iterable[str]) -> Iterator[str]:
    """Yield what texts include, as it is written between the quotes or brackets, whoever has it."""
    for text in texts:
        for match in _INCLUDE.finditer(text):
            yield match["name"][1:-1]


def named_folders(kernels: Path) -> Iterator[Path]:
    """Yield the folders of headers that the specs in a folder name, also those of specs with faults elsewhere."""
    for file in kernels.glob("*.toml"):
        with suppress(OSError, ValueError, RecursionError, AttributeError, TypeError):
            document = tomllib.loads(file.read_text(encoding="utf-8"))
            for entry in (document, *document.get("implementations", {}).values()):
                yield from (plain(kernels / name) for name in entry.get("compile", {}).get("include", ()))


def folder_files(folder: Path) -> Iterator[Path]:
    """Yield the files of an include folder: what an sdist carries of it."""
    for file in folder.rglob("*"):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(folder).parts)
        if file.is_file() and not hidden:
            yield file
