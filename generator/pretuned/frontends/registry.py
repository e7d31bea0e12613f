"""The front ends that pretuned knows, and the project's table as its front end reads it.

A front end is registered by `register`, or by an entry point of the group `pretuned.frontends`: its object has the
members of `FrontEnd`, and its hook calls `pretuned.build.core.bake_project`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from pretuned.config import Project, build_project
from pretuned.config.toml import FILE, read_toml, text_at
from pretuned.errors import ConfigError, Fault
from pretuned.frontends.hatch import Hatch
from pretuned.frontends.setuptools import Setuptools

GROUP: Final = "pretuned.frontends"

Document = Mapping[str, Any]


class FrontEnd(Protocol):
    """What calls a build, and what it knows of a project's files. `document` is always that of pyproject.toml."""

    @property
    def name(self) -> str:
        """The name for messages, as in `Hatch`."""
        ...

    @property
    def table(self) -> str:
        """Where its table stands in pyproject.toml, as in `tool.pretuned`."""
        ...

    @property
    def backend(self) -> str:
        """The build back end that it recommends, as in `hatchling.build`."""
        ...

    def reads(self, backend: str) -> bool:
        """Whether a build back end looks at its table; the name is empty where a project names none."""
        ...

    def find(self, root: Path, document: Document) -> tuple[str, dict[str, Any]] | None:
        """Return its table with the dotted path of it, or None. Raises ConfigError for a file that cannot be read."""
        ...

    def reserved(self, path: str) -> frozenset[str]:
        """Return the keys of the table at `path` that are the build tool's own."""
        ...

    def package_dir(self, root: Path, document: Document) -> dict[str, str]:
        """Return the source folders of packages by import name; `{"": "src"}` maps `src/a/b` to `a.b`."""
        ...

    def packages(self, root: Path, document: Document) -> list[str]:
        """Return the source folders of the packages that the project's files list; empty where they list none."""
        ...

    def table_place(self, root: Path) -> tuple[str, str]:
        """Return the file that a new table is added to, and the table's path in it."""
        ...

    def advice(self, backend: str) -> str:
        """Return what to know about a build back end that it reads and that stays; empty where that one is right."""
        ...

    def schema(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON schema of pyproject.toml's `tool` that has `table`, a schema itself, in its place."""
        ...


_REGISTERED: Final[list[FrontEnd]] = [Hatch(), Setuptools()]


def register(front_end: FrontEnd) -> None:
    """Make a front end known to this process."""
    _REGISTERED.append(front_end)


def front_ends() -> tuple[FrontEnd, ...]:
    """Return the front ends that are known: registered ones, and those of installed packages."""
    return (*_REGISTERED, *_installed())


@cache
def _installed() -> tuple[FrontEnd, ...]:
    return tuple(found.load() for found in importlib.metadata.entry_points(group=GROUP))


def reader_of(backend: str) -> FrontEnd | None:
    """Return the front end whose table a build back end reads, if one is known."""
    return next((front_end for front_end in front_ends() if front_end.reads(backend)), None)


def load_project(folder: Path) -> Project:
    """Load the table of the project in `folder`.

    Raises ConfigError for a file that cannot be read, one without a table, with two, or with one that its build back
    end does not read, and with every fault of the table.
    """
    if folder.is_file():
        raise ConfigError([Fault(file=folder.name, path="", message="is a file; name the folder that it is in")])
    if not (folder / FILE).is_file():
        raise ConfigError([Fault(file=FILE, path="", message=f"does not exist in {folder}")])
    document = read_toml(folder / FILE)
    for front_end in front_ends():
        if (found := front_end.find(folder, document)) is not None:
            path, table = found
            refuse_second(folder, front_end, path)
            _refuse_unread(document, front_end, path)
            return project_of(front_end, table, folder, path=path)
    first, *others = front_ends()
    also = ", ".join(f"with {other.name}: [{other.table}]" for other in others)
    message = (
        f'has no [{first.table}] table ({also}); write one with `module = "src/mypkg/tuned"`, as `pretuned init` does'
    )
    raise ConfigError([Fault(file=FILE, path="", message=message)])


def project_of(front_end: FrontEnd, table: Mapping[str, Any], root: Path, *, path: str = "") -> Project:
    """Return the project of a front end's table, which stands at `path`; raises ConfigError."""
    where = path or front_end.table
    return build_project(
        table,
        root=root,
        path=where,
        reserved=front_end.reserved(where),
        package_dir=front_end.package_dir(root, read_toml(root / FILE)),
    )


def refuse_second(root: Path, front_end: FrontEnd, path: str) -> None:
    """Raise ConfigError where another front end has a table too, beside that of `front_end` at `path`."""
    document = read_toml(root / FILE)
    for other in front_ends():
        if type(other) is not type(front_end) and (found := other.find(root, document)) is not None:
            message = (
                f"[{found[0]}] is here too, and a project has one of the two: keep [{path}] with {front_end.name}, "
                f"[{found[0]}] with {other.name}"
            )
            raise ConfigError([Fault(file=FILE, path=path, message=message)])


def _refuse_unread(document: Document, front_end: FrontEnd, path: str) -> None:
    """Raise ConfigError where the project's build back end never looks at its table."""
    backend = text_at(document, "build-system.build-backend")
    reader = reader_of(backend) if backend else None
    if reader is not None and type(reader) is not type(front_end):
        message = f"the build back end '{backend}' does not read this table; write [{reader.table}]"
        raise ConfigError([Fault(file=FILE, path=path, message=message)])
