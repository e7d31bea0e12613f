"""Folders of headers in installed Python packages: `package:DISTRIBUTION/FOLDER` in `compile.include`.

The name is the distribution's, as `pip install` takes it, since that is what a build has to ask for. The folder is
looked for where the distribution was installed, or, for one that is installed in place (`pip install -e`), in the
Python package that the folder's first part names.
"""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Final

PACKAGE: Final = "package:"  # what an entry of `compile.include` begins with
_HEADERS: Final = frozenset({".h", ".hpp", ".cuh", ".inl"})
_EXAMPLE: Final = f"{PACKAGE}nvidia-cutlass/cutlass_library/source/include"
_NAMED: Final = 3  # folders in a message


class PackageError(ValueError):
    """An installed package has no such folder, or is not installed."""


def is_of_package(name: str) -> bool:
    """Whether an entry of `compile.include` names a folder of an installed package."""
    return name.startswith(PACKAGE)


def distribution_of(name: str) -> str:
    """Return `nvidia-cutlass` for `package:nvidia-cutlass/FOLDER`."""
    return name.removeprefix(PACKAGE).partition("/")[0]


def package_folder(name: str) -> Path:
    """Return the folder that `package:DISTRIBUTION/FOLDER` names; raises PackageError, which says what to do."""
    distribution, _, folder = name.removeprefix(PACKAGE).partition("/")
    parts = PurePosixPath(folder).parts
    if not distribution or "\\" in name or ".." in parts or PurePosixPath(folder).is_absolute():
        raise PackageError(f'\'{name}\': write "{PACKAGE}DISTRIBUTION/FOLDER", as in "{_EXAMPLE}"')
    try:
        found = metadata.distribution(distribution)
    except (metadata.PackageNotFoundError, ValueError):
        raise PackageError(
            f"'{name}': {distribution} is not installed here; `pip install {distribution}`, and add "
            f'"{distribution}" to `requires` of [build-system] in pyproject.toml, since builds are isolated'
        ) from None
    for place in _places(found, parts):
        if place.is_dir():
            return Path(os.path.normpath(place.absolute()))
    raise PackageError(f"'{name}': {distribution} {found.version} has no folder '{folder}'{_hint(found)}")


def _places(distribution: metadata.Distribution, parts: tuple[str, ...]) -> Iterator[Path]:
    """Yield where a distribution's folder may lie; nothing where none is named."""
    if not parts:
        return
    yield Path(str(distribution.locate_file("/".join(parts))))
    if not parts[0].isidentifier():  # with a dot in it, its parent would be imported
        return
    try:
        package = importlib.util.find_spec(parts[0])
    except (ImportError, ValueError):
        return
    for place in (package.submodule_search_locations or ()) if package is not None else ():
        yield Path(place, *parts[1:])


def _hint(distribution: metadata.Distribution) -> str:
    """Return the folders called `include` that have the most headers, if any."""
    found: Counter[str] = Counter()
    for file in distribution.files or ():
        folders = file.parts[:-1]
        if file.suffix in _HEADERS and "include" in folders:
            found["/".join(folders[: folders.index("include") + 1])] += 1
    named = [f'"{PACKAGE}{distribution.name}/{folder}"' for folder, _ in found.most_common(_NAMED)]
    return f"; write {' or '.join(named)}" if named else ""
