"""setuptools as a front end: it leaves `[tool.pretuned]` of pyproject.toml to us."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pretuned.config.toml import FILE, table_at, value_at

BACKEND: Final = "pretuned.backend"
REPLACED: Final = "setuptools.build_meta"  # which BACKEND does all of
SETUPTOOLS: Final = "setuptools>=77"  # the oldest that builds are tested with


class Setuptools:
    """See `pretuned.frontends.registry.FrontEnd`."""

    name = "setuptools"
    table = "tool.pretuned"
    backend = BACKEND

    def reads(self, backend: str) -> bool:
        return not backend or backend.startswith("setuptools.") or backend == BACKEND  # without one, pip takes it

    def find(self, root: Path, document: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:  # noqa: ARG002
        table = table_at(document, self.table)
        return None if table is None else (self.table, table)

    def reserved(self, path: str) -> frozenset[str]:  # noqa: ARG002 - it reads no table of ours
        return frozenset()

    def package_dir(self, root: Path, document: Mapping[str, Any]) -> dict[str, str]:
        """Return what pyproject.toml and setup.cfg say; setup.py is not executed."""
        setup = read_setup(root)
        where = value_at(document, "tool.setuptools.packages.find.where")
        found = where if isinstance(where, list) else setup.get("options.packages.find", "where", fallback="").split()
        folders = {"": str(found[0])} if len(found) == 1 and found[0] != "." else {"": "src"}
        lines = setup.get("options", "package_dir", fallback="").splitlines()
        folders |= {name.strip(): path.strip() for name, _, path in (line.partition("=") for line in lines) if path}
        listed = table_at(document, "tool.setuptools.package-dir") or {}
        return {name: str(path).strip("/") for name, path in (folders | listed).items()}

    def packages(self, root: Path, document: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - listed by import name
        return []

    def table_place(self, root: Path) -> tuple[str, str]:  # noqa: ARG002 - always there
        return FILE, self.table

    def advice(self, backend: str) -> str:
        if backend == BACKEND:
            return ""
        return (
            f'write build-backend = "{BACKEND}", or install CuPy and NVRTC yourself and build with '
            f'--no-build-isolation: "{backend}" does not ask for them'
        )

    def schema(self, table: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": {"pretuned": table}}


def read_setup(root: Path) -> configparser.ConfigParser:
    """Return setup.cfg, empty where there is none or it cannot be read."""
    setup = configparser.ConfigParser(interpolation=None)
    try:
        setup.read(root / "setup.cfg", encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        setup.clear()
    return setup
