"""A project's own headers: which of them a text includes, found by reading its `#include` lines.

A compiler is never given the folders, but the headers that were found, as pairs of name and text. So it can see nothing
that is not part of a source's key: an `#include` that this module does not understand (a computed name) does not
compile, rather than being missed. Every include is read, also one that a condition leaves out; one that is in no folder
of the project is left to the compiler, which finds CUDA's own.

`#include "x"` is looked for beside the file that includes it, then in the folders, `#include <x>` in the folders alone,
in their order. Each header has one name for everybody that includes it, its folder's name in front, and the lines that
include it are rewritten to that: `#include "load.cuh"` becomes `#include <include/vec/load.cuh>`. Lines keep their
numbers. Headers of an installed package are found in the same way, and begin with its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pretuned.spec.packages import PackageError, distribution_of, is_of_package, package_folder

_BLANKS: Final = r"(?:[ \t]|/\*[^\n]*?\*/|\\\n)*"
_INCLUDE: Final = re.compile(
    rf"(?:^{_BLANKS}\#{_BLANKS}include{_BLANKS}|\b__has_include{_BLANKS}\({_BLANKS})"
    r"(?P<name>\"[^\"\n]+\"|<[^>\n]+>)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A header of the project, or of a `package`: the name by which sources include it, and its text."""

    name: str
    text: str
    package: str = ""


class HeaderError(ValueError):
    """The headers of a source cannot be told apart, or not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderFolders:
    """Where the includes of a template are looked for: beside it, and in folders.

    `named` has what header names begin with, and the folder; `installed` those of packages, by their names.
    """

    beside: Path
    named: tuple[tuple[str, Path], ...] = ()
    installed: tuple[tuple[str, Path], ...] = ()

    def find(self, written: str, beside: Path) -> tuple[str, Path] | None:
        """Return the name and the file of `"x"` or `<x>` in a file that lies in `beside`; None if it is not ours."""
        places = [beside] if written.startswith('"') else []
        for place in (*places, *(folder for _, folder in (*self.named, *self.installed))):
            file = Path(os.path.normpath(place / written[1:-1]))
            if file.is_file() and (name := self._name(file)) is not None:
                return name, file
        return None

    def _name(self, file: Path) -> str | None:
        """Return the name of a header; None for a file outside of all folders."""
        packages = ((f"{package}/", folder) for package, folder in self.installed)
        for prefix, folder in (*self.named, *packages, ("", self.beside)):
            if file.is_relative_to(folder):
                return f"{prefix}{file.relative_to(folder).as_posix()}"
        return None

    def package_of(self, file: Path) -> str:
        """Return the package that a header is of; an empty text for the project's own."""
        return next((package for package, folder in self.installed if file.is_relative_to(folder)), "")


def header_folders(folder: Path, template: str, include: Iterable[str]) -> HeaderFolders:
    """Return where the includes of a template are looked for; `include` are folders as the spec names them.

    Raises HeaderError for a package that is not installed.
    """
    names = tuple(include)
    try:
        installed = tuple((distribution_of(name), package_folder(name)) for name in names if is_of_package(name))
    except PackageError as error:
        raise HeaderError(str(error)) from None
    return HeaderFolders(
        beside=plain(folder if "\n" in template else (folder / template).parent),  # a text stands in its spec
        named=tuple((_prefix(name), plain(folder / name)) for name in names if not is_of_package(name)),
        installed=installed,
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
        if name in files:
            if files[name] != file:
                raise HeaderError(f"{files[name]} and {file} would both be included as '{name}'; rename one of them")
            continue
        files[name] = file
        package = folders.package_of(file)
        content, included = (_kept if package else _opened)(file, folders)
        found.append(Header(name=name, text=content, package=package))
        waiting += included
    return rewritten, tuple(sorted(found, key=lambda header: header.name))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HeaderError(f"{file.name}: cannot be read: {error}") from None


def _opened(file: Path, folders: HeaderFolders) -> tuple[str, list[tuple[str, Path]]]:
    """Return a header's text and what it includes, as `_rewritten` does."""
    return _rewritten(_read(file), file.parent, folders)


@lru_cache(maxsize=4096)
def _kept(file: Path, folders: HeaderFolders) -> tuple[str, list[tuple[str, Path]]]:
    """Do the same once a process for a header of a package, of which a source may include hundreds."""
    return _opened(file, folders)


def _rewritten(text: str, beside: Path, folders: HeaderFolders) -> tuple[str, list[tuple[str, Path]]]:
    """Return a text with the names of the project's headers, and these with their files."""
    found: list[tuple[str, Path]] = []
    pieces: list[str] = []
    done = 0
    for match in _includes(text):
        ours = folders.find(match["name"], beside)
        if ours is not None:
            found.append(ours)
            pieces += text[done : match.start("name")], f"<{ours[0]}>"
            done = match.end()
    return "".join([*pieces, text[done:]]), found


def _includes(text: str) -> Iterator[re.Match[str]]:
    """Yield the includes of a text.

    They are looked for in the lines where the word stands, with those that continue them: in all of a source, that
    would take longer than to render it.
    """
    end = 0
    while (word := text.find("include", end)) != -1:
        begin = text.rfind("\n", 0, word) + 1
        while text.endswith("\\\n", 0, begin):
            begin = text.rfind("\n", 0, begin - 1) + 1
        end = _end_of_line(text, word)
        while text.endswith("\\", 0, end) and end < len(text):
            end = _end_of_line(text, end + 1)
        yield from _INCLUDE.finditer(text, begin, end)


def _end_of_line(text: str, begin: int) -> int:
    end = text.find("\n", begin)
    return len(text) if end == -1 else end


def included_names(texts: Iterable[str]) -> Iterator[str]:
    """Yield what texts include, as it is written between the quotes or brackets, whoever has it."""
    for text in texts:
        for match in _includes(text):
            yield match["name"][1:-1]


def include_folders(document: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    """Yield the project's folders of headers that a spec's document names, also one with faults elsewhere."""
    with suppress(AttributeError, TypeError):
        for entry in (document, *document.get("implementations", {}).values()):
            names = entry.get("compile", {}).get("include", ())
            yield from (plain(folder / name) for name in names if not is_of_package(name))


def folder_files(folder: Path) -> Iterator[Path]:
    """Yield the files of an include folder: what an sdist carries of it."""
    for file in folder.rglob("*"):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(folder).parts)
        if file.is_file() and not hidden:
            yield file
