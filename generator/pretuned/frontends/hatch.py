"""Hatch as a front end: its hook's table stands in pyproject.toml, or in hatch.toml, which goes before `[tool.hatch]`.

A table of one target goes before that of all. A project's own hook has the name `custom`, and may be anything: its
table is pretuned's where it has the key `module` or `modules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pretuned.config.toml import FILE, read_toml, table_at, value_at

HOOK: Final = "pretuned"
CUSTOM: Final = "custom"
_FILE: Final = "hatch.toml"
# What Hatch itself reads from a hook's table and passes on; `path` is the custom hook's.
_KEYS: Final = frozenset(
    {"dependencies", "require-runtime-dependencies", "require-runtime-features", "enable-by-default"}
)


def hook_path(name: str, target: str | None = None) -> str:
    """Return where the table of the hook `name` stands: for every target, or for one, which goes before."""
    return f"tool.hatch.build.{f'targets.{target}.' if target else ''}hooks.{name}"


class Hatch:
    """See `pretuned.frontends.registry.FrontEnd`."""

    name = "Hatch"
    table = hook_path(HOOK)
    backend = "hatchling.build"

    def reads(self, backend: str) -> bool:
        return backend.startswith("hatchling.")

    def find(self, root: Path, document: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        hatch = _with_file(root, document)
        for path in (hook_path(name, target) for name in (HOOK, CUSTOM) for target in ("wheel", None)):
            table = table_at(hatch, path)
            if table is not None and (path.endswith(HOOK) or {"module", "modules"} & table.keys()):
                return path, table
        return None

    def reserved(self, path: str) -> frozenset[str]:
        return _KEYS | {"path"} if path.endswith(CUSTOM) else _KEYS

    def package_dir(self, root: Path, document: Mapping[str, Any]) -> dict[str, str]:
        return {"": "src"} | {Path(path).name: path for path in self.packages(root, document)}

    def packages(self, root: Path, document: Mapping[str, Any]) -> list[str]:
        wheel = table_at(_with_file(root, document), "tool.hatch.build.targets.wheel") or {}
        listed = wheel.get("packages")
        return [str(path).strip("/") for path in listed] if isinstance(listed, list) else []

    def table_place(self, root: Path) -> tuple[str, str]:
        in_file = (root / _FILE).is_file()
        return (_FILE, self.table.removeprefix("tool.hatch.")) if in_file else (FILE, self.table)

    def advice(self, backend: str) -> str:  # noqa: ARG002 - all of its back ends do
        return ""

    def schema(self, table: dict[str, Any]) -> dict[str, Any]:
        keys = {**table["properties"], **{key: {} for key in sorted(_KEYS)}}
        hooks = _tables(pretuned={**table, "properties": keys})
        return _tables(hatch=_tables(build=_tables(hooks=hooks, targets=_tables(wheel=_tables(hooks=hooks)))))


def _with_file(root: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return pyproject.toml as Hatch reads it: a key of hatch.toml replaces that of [tool.hatch]."""
    if not (root / _FILE).is_file():
        return dict(document)
    hatch = {**(table_at(document, "tool.hatch") or {}), **read_toml(root / _FILE)}
    tool = value_at(document, "tool")
    return {**document, "tool": {**(tool if isinstance(tool, dict) else {}), "hatch": hatch}}


def _tables(**tables: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": tables}
