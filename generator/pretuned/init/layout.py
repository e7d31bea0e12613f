"""How a project is built and where its package lies, from what its files say; nothing of it is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pretuned.config.toml import FILE, text_at
from pretuned.errors import ConfigError, Fault
from pretuned.frontends.registry import FrontEnd, front_ends, reader_of
from pretuned.frontends.setuptools import read_setup

_NO_PACKAGES: Final = frozenset(
    {
        "benchmarks",
        "build",
        "dist",
        "doc",
        "docs",
        "example",
        "examples",
        "kernels",
        "scripts",
        "test",
        "tests",
        "tools",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A project's front end, the build back end that it names (empty: none), and where the generated package goes."""

    front_end: FrontEnd
    backend: str
    module: str


def find_layout(root: Path, document: Mapping[str, Any], module: str | None = None) -> Layout:
    """Return the layout of the project in `root`, whose pyproject.toml holds `document`.

    `module` is where the generated package shall go, if the user says. Raises ConfigError for another build back end,
    and where it is not plain which package is meant.
    """
    backend = text_at(document, "build-system.build-backend")
    front_end = reader_of(backend)
    if front_end is None:
        known = " and ".join(f"'{front_end.backend}' ({front_end.name})" for front_end in front_ends())
        raise _fault("build-system.build-backend", f"is '{backend}'; pretuned builds with {known}")
    module = module or _beside_module(root, document) or f"{_package(root, document, front_end)}/tuned"
    return Layout(front_end=front_end, backend=backend, module=module)


def _fault(path: str, message: str) -> ConfigError:
    return ConfigError([Fault(file=FILE, path=path, message=message)])


def _wanted(root: Path, document: Mapping[str, Any]) -> str:
    """Return the import name that the project's own name suggests."""
    named = text_at(document, "project.name") or read_setup(root).get("metadata", "name", fallback="")
    return re.sub(r"[-_.]+", "_", named).lower()


def _beside_module(root: Path, document: Mapping[str, Any]) -> str | None:
    """Return the generated package beside a project that is a single module; None for one with packages."""
    wanted = _wanted(root, document)
    for folder in ("src/", ""):
        if list(_packages_in(root, folder or ".")):
            return None
        if wanted and (root / folder / f"{wanted}.py").is_file():
            return f"{folder}{wanted}_tuned"
    return None


def _package(root: Path, document: Mapping[str, Any], front_end: FrontEnd) -> str:
    wanted = _wanted(root, document)
    folders = [*front_end.package_dir(root, document).values(), "src", "."]
    found = front_end.packages(root, document) or _first_packages(root, folders)
    candidates = [path for path in found if PurePosixPath(path).name.lower() == wanted] or found
    if len(candidates) == 1:
        return candidates[0]
    what = f"the packages {', '.join(candidates)} are here" if candidates else "no package (a folder with __init__.py)"
    where = "name the path of the generated one: `pretuned init --module src/mypkg/tuned`"
    raise _fault("", f"{what}{'' if candidates else ' is here'}; {where}")


def _first_packages(root: Path, folders: list[str]) -> list[str]:
    """Return the packages of the first of `folders` that has any."""
    return next((found for folder in folders if (found := list(_packages_in(root, folder)))), [])


def _packages_in(root: Path, folder: str) -> Iterator[str]:
    for file in sorted((root / folder).glob("*/__init__.py")):
        if file.parent.name.isidentifier() and not (folder == "." and file.parent.name in _NO_PACKAGES):
            yield file.parent.relative_to(root).as_posix()
