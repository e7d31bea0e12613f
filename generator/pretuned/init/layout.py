"""How a project is built and where its package lies, from what its files say; nothing of it is executed."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from pretuned.errors import ConfigError, Fault

FrontEnd = Literal["hatch", "setuptools"]

BACKEND: Final = "pretuned.backend"
_HATCH: Final = "hatchling.build"
_SETUPTOOLS: Final = ("setuptools.build_meta", "setuptools.build_meta:__legacy__", BACKEND, "")  # without one, pip's
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
    """A project's front end, the back end that it names (empty: none), and where the generated package goes."""

    front_end: FrontEnd
    backend: str
    module: str


def find_layout(root: Path, document: Mapping[str, Any], module: str | None = None) -> Layout:
    """Return the layout of the project in `root`, whose pyproject.toml holds `document`.

    `module` is where the generated package shall go, if the user says. Raises ConfigError for another build back end,
    and where it is not plain which package is meant.
    """
    backend = dig(document, "build-system.build-backend") or ""
    if backend not in {_HATCH, *_SETUPTOOLS}:
        message = f"is '{backend}'; pretuned builds with '{_HATCH}', 'setuptools.build_meta' and '{BACKEND}'"
        raise _fault("build-system.build-backend", message)
    front_end: FrontEnd = "hatch" if backend == _HATCH else "setuptools"
    return Layout(front_end=front_end, backend=backend, module=module or f"{_package(root, document)}/tuned")


def dig(document: Any, path: str) -> Any:  # noqa: ANN401 - a TOML document
    """Return what stands at a dotted path, or None."""
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _fault(path: str, message: str) -> ConfigError:
    return ConfigError([Fault(file="pyproject.toml", path=path, message=message)])


def _package(root: Path, document: Mapping[str, Any]) -> str:
    setup = _setup(root)
    named = dig(document, "project.name") or setup.get("metadata", "name", fallback="")
    wanted = re.sub(r"[-_.]+", "_", str(named)).lower()
    listed = dig(document, "tool.hatch.build.targets.wheel.packages")
    found = [str(path).strip("/") for path in listed] if isinstance(listed, list) else []
    found = found or _folders(root, _roots(document, setup))
    matching = [path for path in found if PurePosixPath(path).name.lower() == wanted]
    candidates = matching or found
    if len(candidates) == 1:
        return candidates[0]
    what = f"the packages {', '.join(candidates)} are here" if candidates else "no package (a folder with __init__.py)"
    where = "say where the generated one goes: `pretuned init --module src/mypkg/tuned`"
    raise _fault("", f"{what}{'' if candidates else ' is here'}; {where}")


def _setup(root: Path) -> configparser.ConfigParser:
    """Return setup.cfg, empty where there is none or it cannot be read."""
    setup = configparser.ConfigParser(interpolation=None)
    try:
        setup.read(root / "setup.cfg", encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        setup.clear()
    return setup


def _roots(document: Mapping[str, Any], setup: configparser.ConfigParser) -> list[str]:
    """Return the folders in which packages lie, those that the project names first."""
    where = dig(document, "tool.setuptools.packages.find.where")
    named = [str(folder) for folder in where] if isinstance(where, list) else []
    folders = dig(document, "tool.setuptools.package-dir")
    named += [str(folders.get("", ""))] if isinstance(folders, dict) else []
    named += setup.get("options.packages.find", "where", fallback="").split()
    lines = setup.get("options", "package_dir", fallback="").splitlines()
    named += [line.partition("=")[2].strip() for line in lines if line.strip().startswith("=")]
    return [*dict.fromkeys(folder.strip("/") for folder in named if folder), "src", "."]


def _folders(root: Path, roots: list[str]) -> list[str]:
    """Return the packages of the first of `roots` that has any."""
    return next((found for folder in roots if (found := list(_packages_in(root, folder)))), [])


def _packages_in(root: Path, folder: str) -> Iterator[str]:
    for file in sorted((root / folder).glob("*/__init__.py")):
        if file.parent.name.isidentifier() and not (folder == "." and file.parent.name in _NO_PACKAGES):
            yield file.parent.relative_to(root).as_posix()
