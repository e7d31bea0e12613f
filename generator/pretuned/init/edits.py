"""What `pretuned init` would do to a project, as data: texts to write, what was done, and what its user should know.

An edit of a TOML file changes nothing but what is meant: comments, order and layout stay. Each one is proved: the new
text is read again, and must hold exactly what the old one held, with the change. Where it does not (an inline table in
the way, say) the file is left alone, and a diagnostic names what to write.
"""

from __future__ import annotations

import copy
import importlib.metadata
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from pretuned.backends import lock_path
from pretuned.build.place import require_ours
from pretuned.compile.host import HOST
from pretuned.config import Project
from pretuned.config.toml import FILE, read_toml, value_at
from pretuned.diagnostics import Diagnostic, Severity
from pretuned.errors import ConfigError, Fault
from pretuned.frontends.registry import FrontEnd, load_project, project_of
from pretuned.frontends.setuptools import BACKEND, REPLACED, SETUPTOOLS, Setuptools
from pretuned.init.advice import version_advice
from pretuned.init.discovery import discovery_edits
from pretuned.init.layout import Layout, find_layout
from pretuned.report.page import PAGE
from pretuned.version import __version__

IGNORE: Final = ".gitignore"
KERNEL: Final = {"axpy.toml": "axpy.toml", "axpy.cu.jinja": "axpy.cu.jinja", "reference.py": "reference.py.in"}


@dataclass(slots=True, kw_only=True)
class InitEdits:
    """Texts by path in the project, what they do, one line each, and what is left for the user to do."""

    project: Project
    texts: dict[str, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add something that stays as it is."""
        self.diagnostics.append(Diagnostic(text=text))

    def warn(self, text: str, *, remedy: str) -> None:
        """Add something that the user should do."""
        self.diagnostics.append(Diagnostic(severity=Severity.WARNING, place=FILE, text=text, remedy=remedy))


def plan_edits(root: Path, module: str | None = None, kernel: Mapping[str, str] | None = None) -> InitEdits:
    """Return what there is to do in `root`; `module` is where the generated package shall go, if the user says.

    `kernel` holds the texts of a kernel by file, which is added to the specs. Without it, a project that has none gets
    a first one.

    Raises ConfigError where it cannot be known, and BakeError for a place where other files lie.
    """
    text = _read(root / FILE)
    layout = find_layout(root, read_toml(root / FILE), module)
    existing = _existing(root)
    edits = InitEdits(project=existing or project_of(layout.front_end, {"module": layout.module}, root))
    for table in edits.project.modules:
        require_ours(root / table.module)
    _add_kernel(edits, root, kernel)
    if existing is not None:
        edits.note(f"{FILE}: has pretuned's table already")
    else:
        _add_table(edits, root, layout.front_end, text)
        _add_discovery(edits, root, layout.front_end, text)
    _add_requirement(edits, edits.texts.get(FILE, text), layout, requirement())
    _add_ignored(edits, root)
    for stands, remedy in version_advice(root, tomllib.loads(edits.texts.get(FILE, text))):
        edits.warn(stands, remedy=remedy)
    return edits


def _existing(root: Path) -> Project | None:
    """Return the project as its table has it, or None where there is no table."""
    try:
        return load_project(root)
    except ConfigError as error:
        if all(not fault.path for fault in error.faults):  # both files have been read: there is no table
            return None
        raise


def requirement() -> str:
    """Return how a build asks for the pretuned that runs here: from where it was installed, or else by its version.

    A name that is on no index, or on another one, may be somebody else's there.
    """
    recorded: Any = None
    with suppress(importlib.metadata.PackageNotFoundError, ValueError):
        recorded = json.loads(importlib.metadata.distribution("pretuned").read_text("direct_url.json") or "null")
    match recorded:
        case {"url": str(url), "vcs_info": {"vcs": str(vcs), "commit_id": str(commit)}}:
            return f"pretuned @ {vcs}+{url}@{commit}"
        case {"url": str(url)}:
            return f"pretuned @ {url}"
    return f"pretuned>={__version__}"


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        message = (
            f"write one in {file.parent}: pretuned's table stands in it, and a project that is built by setup.py or "
            'setup.cfg alone needs [build-system] with requires = ["setuptools>=77"]'
        )
        raise ConfigError([Fault(file=FILE, path="", message=message)]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Fault(file=file.name, path="", message=f"cannot be read: {error}")]) from None


def _add_kernel(edits: InitEdits, root: Path, kernel: Mapping[str, str] | None) -> None:
    folder = edits.project.modules[0].kernels
    name = folder.relative_to(root).as_posix()
    if not folder.resolve().is_relative_to(root.resolve()):
        message = f"'{name}' is a link that leads out of the project; pretuned writes nothing there"
        raise ConfigError([Fault(file=FILE, path="", message=message)])
    module = edits.project.modules[0].declarations
    found = [*([module.name] if module is not None else []), *sorted(file.name for file in folder.glob("*.toml"))]
    if found and kernel is None:
        edits.note(f"{name}/: has specs ({', '.join(found)}), so no kernel was added")
        return
    for file, text in (_first_kernel() if kernel is None else kernel).items():
        if os.path.lexists(folder / file):
            edits.note(f"{name}/{file}: exists and stays as it is")
        else:
            edits.texts[f"{name}/{file}"] = text
            edits.done.append(f"{name}/{file}: written")


def _first_kernel() -> dict[str, str]:
    folder = files("pretuned.init").joinpath("kernel")
    return {file: folder.joinpath(source).read_text(encoding="utf-8") for file, source in KERNEL.items()}


def _add_table(edits: InitEdits, root: Path, front_end: FrontEnd, text: str) -> None:
    """Add the table where its front end reads it."""
    module = edits.project.modules[0].module
    file, path = front_end.table_place(root)
    text = text if file == FILE else _read(root / file)
    new = with_table(text, path, {"module": module})
    _take(edits, file, new, f'[{path}] with `module = "{module}"`')


def _add_discovery(edits: InitEdits, root: Path, front_end: FrontEnd, text: str) -> None:
    """Have setuptools take the folder of specs for no package."""
    if not isinstance(front_end, Setuptools):
        return
    table = edits.project.modules[0]
    kernels = table.kernels.relative_to(root).as_posix()
    for edit in discovery_edits(root, tomllib.loads(text), table.module, kernels):
        current = edits.texts.get(FILE, text)
        if value_at(tomllib.loads(current), edit.table) is None:
            new = with_table(current, edit.table, {edit.key: edit.value})
        else:
            new = with_value(current, f"{edit.table}.{edit.key}", edit.value)
        _take(edits, FILE, new, f"`{edit.key} = {json.dumps(edit.value)}` to [{edit.table}]")


def _add_ignored(edits: InitEdits, root: Path) -> None:
    """Have version control ignore what installs, tunings on the host device and reports leave in the sources."""
    file = root / IGNORE
    if file.is_symlink():
        return
    try:
        text = file.read_bytes().decode() if file.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return
    present = {line.strip().strip("/") for line in text.splitlines()}
    host_lock = lock_path(edits.project.lock, HOST).relative_to(root).as_posix()
    lines = [f"/{table.module}/" for table in edits.project.modules] + [f"/{host_lock}", f"/{PAGE}"]
    missing = [line for line in lines if line.strip("/") not in present]
    if missing:
        separator = "\n" if text and not text.endswith("\n") else ""
        edits.texts[IGNORE] = f"{text}{separator}{chr(10).join(missing)}\n"
        edits.done.append(f"{IGNORE}: added {', '.join(missing)}")


def _add_requirement(edits: InitEdits, text: str, layout: Layout, wanted: str) -> None:
    """Have [build-system] ask for pretuned, and for the back end that knows what its builds need."""
    backend = layout.front_end.backend
    system = value_at(tomllib.loads(text), "build-system")
    if system is None:
        values = {"requires": [SETUPTOOLS, wanted], "build-backend": backend}
        _take(edits, FILE, with_table(text, "build-system", values), f"[build-system] with `{wanted}`")
    elif any(map(_is_pretuned, value_at(system, "requires") or [])):
        edits.note(f"{FILE}: build-system.requires names pretuned already")
    else:
        new = with_value(text, "build-system.requires", [*(value_at(system, "requires") or []), wanted])
        _take(edits, FILE, new, f"`{wanted}` to build-system.requires")
    if FILE in edits.texts and wanted.startswith("pretuned @ file:"):
        edits.warn("build-system.requires now has a local path", remedy="replace it before you publish")
    if system is None:
        return
    if not layout.backend:
        new = with_value(edits.texts.get(FILE, text), "build-system.build-backend", backend)
        _take(edits, FILE, new, f'`build-backend = "{backend}"` to build-system')
    elif layout.backend == REPLACED and backend == BACKEND:
        new = with_value(edits.texts.get(FILE, text), "build-system.build-backend", backend)
        _take(edits, FILE, new, f'`build-backend = "{backend}"` to build-system, in place of "{layout.backend}"')
    elif advice := layout.front_end.advice(layout.backend):
        edits.warn("build-system.build-backend stays as it is", remedy=advice)


def _take(edits: InitEdits, file: str, new: str | None, what: str) -> None:
    """Take an edit over, or name it where it cannot be made."""
    if new is None:
        edits.warn(f"{file} cannot be edited safely", remedy=f"add {what} yourself")
    else:
        edits.texts[file] = new
        edits.done.append(f"{file}: added {what}")


def _is_pretuned(text: object) -> bool:
    with suppress(InvalidRequirement):
        return canonicalize_name(Requirement(str(text)).name) == "pretuned"
    return False


def with_table(text: str, path: str, values: dict[str, Any]) -> str | None:
    """Return a TOML text with a table at its end, or None where it cannot stand there."""
    import tomlkit  # noqa: PLC0415 - for this command alone

    def edit(text: str) -> str:
        separator = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{separator}[{path}]\n{tomlkit.dumps(values)}"

    return _proved(edit, text, path, values)


def with_value(text: str, path: str, value: str | list[str]) -> str | None:
    """Return a TOML text with `value` at a dotted path, or None; to a list that is there, its last entry is added."""
    import tomlkit  # noqa: PLC0415

    def edit(text: str) -> str:
        document = tomlkit.parse(text)
        *folders, key = path.split(".")
        table: Any = document
        for folder in folders:
            table = table[folder]
        if isinstance(value, list) and key in table:
            table[key].append(value[-1])
        else:
            table[key] = value
        return tomlkit.dumps(document)

    return _proved(edit, text, path, value)


def _proved(edit: Callable[[str], str], old: str, path: str, value: object) -> str | None:
    """Return what `edit` makes of `old`, if it holds what `old` does and `value` at `path`, else None.

    Line ends stay what they are.
    """
    expected: dict[str, Any] = copy.deepcopy(tomllib.loads(old))
    *folders, last = path.split(".")
    table = expected
    for key in folders:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            return None
    table[last] = value
    with suppress(tomllib.TOMLDecodeError, ValueError, LookupError, TypeError, AttributeError):
        new = edit(old.replace("\r\n", "\n"))
        if tomllib.loads(new) == expected:
            return new.replace("\n", "\r\n") if "\r\n" in old else new
    return None
