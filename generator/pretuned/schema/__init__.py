"""JSON schemas for editors: of a kernel spec, and of pyproject.toml with pretuned's tables.

The files beside this module ship with the package; `pretuned.schema.generate` writes them from the models that the
loaders use, and a test holds them against those.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

NAMES: Final = ("spec", "project")


def read(name: str) -> str:
    """Return the text of a schema, one of NAMES."""
    return files("pretuned.schema").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
