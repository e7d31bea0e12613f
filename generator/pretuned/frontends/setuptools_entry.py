"""The entry point through which setuptools knows of pretuned.

setuptools calls it for every project that is built in an environment with pretuned, so it looks for `[tool.pretuned]`
before anything else, and imports what it takes to build only where that is.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from setuptools import Distribution


def finalize(distribution: Distribution) -> None:
    """Have the project's `build` bake its kernels, if its pyproject.toml has `[tool.pretuned]`."""
    if not _has_table(Path(distribution.src_root or os.curdir, "pyproject.toml")):
        return
    from pretuned.frontends.setuptools_command import adapted  # noqa: PLC0415 - brings pydantic, Jinja and more

    # `cmdclass` would do, if a project's own, from pyproject.toml or setup.cfg, did not replace it after this.
    distribution.get_command_class = adapted(distribution.get_command_class)


def _has_table(file: Path) -> bool:
    try:
        content = file.read_bytes()
        if b"pretuned" not in content:
            return False
        tool = tomllib.loads(content.decode()).get("tool")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return False  # which setuptools says better
    return isinstance(tool, dict) and isinstance(tool.get("pretuned"), dict)
