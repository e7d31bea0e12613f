"""The version of pretuned."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path
from typing import Final


def _version() -> str:
    """Return the version that stands in the source tree, where this is one, else the installed one."""
    try:  # its own build runs from the source tree, and must give the same bytes whatever else is installed
        project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8"))
        if project["project"]["name"] == "pretuned":
            return str(project["project"]["version"])
    except (OSError, LookupError, TypeError, ValueError):
        pass
    return metadata.version("pretuned")


__version__: Final = _version()
