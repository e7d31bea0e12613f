"""What setuptools takes for packages by itself, and what to write so that the folder of specs is not among them.

In a flat layout without a list of packages, setuptools looks for one package at the top. With `kernels/` beside it
there would be two, which ends the build. With `packages.find` it takes every folder for a package of its own. A project
of one module has no packages at all until `kernels/` comes, which would then be its only one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from pretuned.config.toml import table_at, value_at
from pretuned.frontends.setuptools import read_setup

_FIND: Final = "tool.setuptools.packages.find"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryEdit:
    """A value to write at `table`.`key` of pyproject.toml."""

    table: str
    key: str
    value: list[str]


def discovery_edits(root: Path, document: Mapping[str, Any], module: str, kernels: str) -> Iterator[DiscoveryEdit]:
    """Yield what a setuptools project needs besides its table, so that packages stay what they were.

    `module` is the source path of the generated package, `kernels` that of the specs.
    """
    top = kernels.partition("/")[0]
    find = table_at(document, _FIND)
    if find is not None:
        if _is_found(find, top):
            excluded = value_at(find, "exclude")
            yield DiscoveryEdit(table=_FIND, key="exclude", value=[*(excluded or []), f"{top}*"])
        return
    if _is_listed(root, document) or (root / "src").is_dir() or top == module.partition("/")[0]:
        return
    package, _, inside = module.partition("/")
    own = package.removesuffix("_tuned")
    if inside and (root / package / "__init__.py").is_file():
        yield DiscoveryEdit(table=_FIND, key="include", value=[package, f"{package}.*"])
    elif not inside and (root / f"{own}.py").is_file():
        yield DiscoveryEdit(table="tool.setuptools", key="py-modules", value=[own])
        yield DiscoveryEdit(table="tool.setuptools", key="packages", value=[package])


def _is_found(find: Mapping[str, Any], folder: str) -> bool:
    """Whether `packages.find` takes a folder beside pyproject.toml for a package."""

    def matches(key: str, default: list[str]) -> bool:
        patterns = value_at(find, key)
        return any(fnmatch(folder, str(pattern)) for pattern in (patterns if isinstance(patterns, list) else default))

    where = value_at(find, "where") or ["."]
    at_top = any(str(place).strip("./") == "" for place in where)
    return at_top and find.get("namespaces", True) and matches("include", ["*"]) and not matches("exclude", [])


def _is_listed(root: Path, document: Mapping[str, Any]) -> bool:
    """Whether the project's files say what its packages are."""
    table, setup = table_at(document, "tool.setuptools") or {}, read_setup(root)
    if {"packages", "py-modules", "package-dir"} & table.keys():
        return True
    if any(setup.has_option("options", key) for key in ("packages", "py_modules", "package_dir")):
        return True
    script = root / "setup.py"
    text = script.read_text(encoding="utf-8", errors="replace") if script.is_file() else ""
    return "packages" in text or "py_modules" in text
