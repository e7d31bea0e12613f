"""A build back end for setuptools projects: setuptools' own, which also asks for what pretuned's build needs.

That depends on the machine and the lock: CuPy and NVRTC of the driver's CUDA to tune, those of the lock's to compile,
nothing where all is compiled already. The baking itself is done by setuptools; see
`pretuned.frontends.setuptools_command`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from pretuned.build.core import build_requirements
from pretuned.config import read_settings
from pretuned.errors import Error
from pretuned.files import storage_errors
from pretuned.frontends.registry import load_project

ConfigSettings = Mapping[str, Any] | None

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def get_requires_for_build_wheel(config_settings: ConfigSettings = None) -> list[str]:
    """Return what setuptools asks for, and what baking needs on this machine."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_requirements()]


def get_requires_for_build_editable(config_settings: ConfigSettings = None) -> list[str]:
    """Return the same for an editable install."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_requirements()]


def _requirements() -> list[str]:
    try:
        with storage_errors():
            return build_requirements(load_project(Path.cwd()), read_settings())
    except Error as error:
        raise SystemExit(f"error: {error}") from None
