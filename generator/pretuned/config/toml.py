"""Reading a project's TOML files, with faults in place of parser errors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from pretuned.errors import ConfigError, Fault

FILE: Final = "pyproject.toml"


def read_toml(file: Path) -> dict[str, Any]:
    """Return a TOML file's document, an empty one where there is no such file; raises ConfigError."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError([Fault(file=file.name, path="", message=f"cannot be read as TOML: {error}")]) from None


def value_at(document: Any, path: str) -> Any:  # noqa: ANN401 - a TOML document
    """Return what stands at a dotted path, or None."""
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def table_at(document: Any, path: str) -> dict[str, Any] | None:  # noqa: ANN401 - a TOML document
    """Return the table at a dotted path, or None."""
    found = value_at(document, path)
    return found if isinstance(found, dict) else None


def text_at(document: Any, path: str) -> str:  # noqa: ANN401 - a TOML document
    """Return the string at a dotted path, or an empty one."""
    found = value_at(document, path)
    return found if isinstance(found, str) else ""
