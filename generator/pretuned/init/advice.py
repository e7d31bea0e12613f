"""What `pretuned init` says of a project's versions and dependencies, which it leaves to the author."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from pretuned.config.toml import text_at, value_at
from pretuned.frontends.setuptools import SETUPTOOLS, read_setup
from pretuned.runtime.cuda_majors import CUDA_MAJORS

PYTHON: Final = ">=3.11"
_OLDER: Final = ("3.8.99", "3.9.99", "3.10.99")
_LIBRARIES: Final = frozenset({"cupy", "torch", "jax", *(major.cupy for major in CUDA_MAJORS)})

Advice = tuple[str, str]  # what stands there, and what to write


def version_advice(root: Path, document: Mapping[str, Any]) -> Iterator[Advice]:
    """Yield what is wrong with `requires-python` and with the setuptools that the build asks for."""
    python = text_at(document, "project.requires-python") or _of_setup(root, "python_requires")
    with suppress(InvalidSpecifier):
        if not python or any(SpecifierSet(python).contains(version) for version in _OLDER):
            stands = f'project.requires-python is "{python}"' if python else "project.requires-python is missing"
            yield stands, f'write "{PYTHON}": the generated package needs Python 3.11 or newer'
    least = next(iter(Requirement(SETUPTOOLS).specifier)).version
    for text in value_at(document, "build-system.requires") or ():
        with suppress(InvalidRequirement):
            asked = Requirement(str(text))
            before = str(int(least) - 1)
            if canonicalize_name(asked.name) == "setuptools" and asked.specifier.contains(before):
                yield f"build-system.requires has `{text}`", f"write `{SETUPTOOLS}`, which pretuned is tested with"


def _of_setup(root: Path, key: str) -> str:
    return read_setup(root).get("options", key, fallback="")


def lacks_array_library(root: Path, document: Mapping[str, Any]) -> bool:
    """Whether no array library is among the project's own dependencies."""
    listed = value_at(document, "project.dependencies")
    names = set()
    for text in [*(listed if isinstance(listed, list) else ()), *_of_setup(root, "install_requires").splitlines()]:
        with suppress(InvalidRequirement):
            names.add(canonicalize_name(Requirement(str(text)).name))
    return names.isdisjoint(_LIBRARIES)
