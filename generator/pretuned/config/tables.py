"""Where a project's table stands: pyproject.toml, or hatch.toml, which goes before its `[tool.hatch]`.

Hatch reads its hooks' tables, of all targets or of one; setuptools leaves `[tool.pretuned]` to us. A project has one of
the two, and the one that its build back end looks at: another would never be read, and nothing would say so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pretuned.errors import ConfigError, Fault

FILE: Final = "pyproject.toml"
HATCH_FILE: Final = "hatch.toml"
HATCH: Final = "tool.hatch.build.hooks.pretuned"
HATCH_CUSTOM: Final = "tool.hatch.build.hooks.custom"
PLAIN: Final = "tool.pretuned"


def hatch_path(name: str, target: str | None = None) -> str:
    """Return where Hatch's table of the hook `name` stands: for every target, or for one, which goes before."""
    return f"tool.hatch.build.{f'targets.{target}.' if target else ''}hooks.{name}"


def find_table(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the table of the project in `folder` with its path: what Hatch's hook gets for a wheel, or PLAIN.

    Raises ConfigError for a file that cannot be read, one without a table, with two, or with one that its build back
    end does not read.
    """
    document = _document(folder)
    hatch = [hatch_path(name, target) for name in ("pretuned", "custom") for target in ("wheel", None)]
    tables = {path: _table(document, path) for path in (*hatch, PLAIN)}
    found = {path: table for path, table in tables.items() if table is not None and _is_ours(path, table)}
    if not found:
        example = f'with setuptools: [{PLAIN}]); write one with `module = "src/mypkg/tuned"`'
        raise ConfigError([Fault(file=FILE, path="", message=f"has no [{HATCH}] table ({example}")])
    path = next(iter(found))
    if path != PLAIN and PLAIN in found:
        raise ConfigError([_two_tables(path)])
    _refuse_unread(document, path)
    return path, found[path]


def refuse_second(folder: Path, path: str) -> None:
    """Raise ConfigError where `[tool.pretuned]` stands beside Hatch's table at `path`."""
    if _table(_toml(folder / FILE), PLAIN) is not None:
        raise ConfigError([_two_tables(path)])


def build_backend(folder: Path) -> str:
    """Return the build back end that the project in `folder` names; empty where it names none."""
    return _backend(_toml(folder / FILE))


def _document(folder: Path) -> dict[str, Any]:
    """Return pyproject.toml as Hatch reads it: a key of hatch.toml replaces that of [tool.hatch]."""
    if not (folder / FILE).is_file():
        raise ConfigError([Fault(file=FILE, path="", message=f"does not exist in {folder}")])
    document = _toml(folder / FILE)
    if not (folder / HATCH_FILE).is_file():
        return document
    hatch = {**(_table(document, "tool.hatch") or {}), **_toml(folder / HATCH_FILE)}
    return {**document, "tool": {**(_table(document, "tool") or {}), "hatch": hatch}}


def _toml(file: Path) -> dict[str, Any]:
    """Return a TOML file's document, an empty one where there is no such file; raises ConfigError."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError([Fault(file=file.name, path="", message=f"cannot be read as TOML: {error}")]) from None


def _table(document: Any, path: str) -> dict[str, Any] | None:  # noqa: ANN401 - a TOML document
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else None


def _is_ours(path: str, table: Mapping[str, Any]) -> bool:
    """Whether a table is pretuned's: a project's custom hook may be anything."""
    return not path.endswith(".custom") or bool({"module", "modules"} & table.keys())


def _backend(document: Mapping[str, Any]) -> str:
    backend = (_table(document, "build-system") or {}).get("build-backend")
    return backend if isinstance(backend, str) else ""


def _two_tables(path: str) -> Fault:
    message = f"[{PLAIN}] is here too, and a project has one of the two: keep [{path}] with Hatch, [{PLAIN}] with "
    return Fault(file=FILE, path=path, message=f"{message}setuptools")


def _refuse_unread(document: Mapping[str, Any], path: str) -> None:
    """Raise ConfigError where the project's build back end never looks at its table."""
    backend, hatch = _backend(document), path != PLAIN
    if backend.startswith(("setuptools.", "pretuned.") if hatch else "hatchling."):
        message = f"the build back end '{backend}' does not read this table; write [{PLAIN if hatch else HATCH}]"
        raise ConfigError([Fault(file=FILE, path=path, message=message)])
