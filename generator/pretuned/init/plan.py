"""What `pretuned init` would do to a project, as data: texts to write, what was done, and what is left to the user."""

from __future__ import annotations

import importlib.metadata
import json
import os
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from pretuned import __version__
from pretuned.build.place import require_ours
from pretuned.config import Project
from pretuned.config.toml import FILE, value_at
from pretuned.errors import ConfigError, Fault
from pretuned.frontends.registry import FrontEnd, load_project, project_of
from pretuned.init.edits import with_backend, with_requirement, with_table
from pretuned.init.layout import Layout, find_layout

KERNEL: Final = {"axpy.toml": "axpy.toml", "axpy.cu.jinja": "axpy.cu.jinja", "reference.py": "reference.py.in"}
_SETUPTOOLS: Final = "setuptools>=64"  # which can build editable installs


@dataclass(slots=True, kw_only=True)
class Plan:
    """Texts by path in the project, `done` and `left` (what stays as it is, or is for the user to write) in lines."""

    project: Project
    texts: dict[str, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def plan(root: Path, module: str | None = None) -> Plan:
    """Return what there is to do in `root`; `module` is where the generated package shall go, if the user says.

    Raises ConfigError where it cannot be known, and BakeError for a place where other files lie.
    """
    text = _read(root / FILE)
    document = _parsed(text, FILE)
    layout = find_layout(root, document, module)
    existing = _existing(root)
    made = Plan(project=existing or project_of(layout.front_end, {"module": layout.module}, root))
    for table in made.project.modules:
        require_ours(root / table.module)
    _add_kernel(made, root)
    if existing is not None:
        made.left.append(f"{FILE} has pretuned's table already")
    else:
        _add_table(made, root, layout.front_end, text)
    _add_requirement(made, made.texts.get(FILE, text), layout, requirement())
    return made


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
            f"there is none in {file.parent}, and pretuned's table stands in it; a project that is built by "
            'setup.py or setup.cfg alone needs one with [build-system]: requires = ["setuptools>=64"]'
        )
        raise ConfigError([Fault(file=FILE, path="", message=message)]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Fault(file=file.name, path="", message=f"cannot be read: {error}")]) from None


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError([Fault(file=name, path="", message=f"cannot be read as TOML: {error}")]) from None


def _add_kernel(made: Plan, root: Path) -> None:
    folder = made.project.modules[0].kernels
    name = folder.relative_to(root).as_posix()
    if not folder.resolve().is_relative_to(root.resolve()):
        message = f"'{name}' is a link that leads out of the project; pretuned writes nothing there"
        raise ConfigError([Fault(file=FILE, path="", message=message)])
    if found := sorted(file.name for file in folder.glob("*.toml")):
        made.left.append(f"{name}/ has specs ({', '.join(found)}): no kernel was added")
        return
    for file, source in KERNEL.items():
        if os.path.lexists(folder / file):
            made.left.append(f"{name}/{file} exists and stays as it is")
        else:
            text = files("pretuned.init").joinpath("kernel", source).read_text(encoding="utf-8")
            made.texts[f"{name}/{file}"] = text
            made.done.append(f"{name}/{file} written")


def _add_table(made: Plan, root: Path, front_end: FrontEnd, text: str) -> None:
    """Add the table where its front end reads it."""
    module = made.project.modules[0].module
    file, path = front_end.table_place(root)
    text = text if file == FILE else _read(root / file)
    new = _edited(partial(with_table, keys=tuple(path.split(".")), values={"module": module}), text)
    if new is None:
        made.left.append(f'{file} cannot be edited safely; add [{path}] with `module = "{module}"` yourself')
    else:
        made.texts[file] = new
        made.done.append(f"{file}: [{path}] added")


def _add_requirement(made: Plan, text: str, layout: Layout, wanted: str) -> None:
    """Have [build-system] ask for pretuned, and setuptools' projects for the back end that knows what it needs."""
    document = tomllib.loads(text)
    system = value_at(document, "build-system")
    if system is None:
        values = {"requires": [_SETUPTOOLS, wanted], "build-backend": layout.front_end.backend}
        edit = partial(with_table, keys=("build-system",), values=values)
        _take(made, _edited(edit, text), f"[build-system] with `{wanted}`")
    elif any(map(_is_pretuned, value_at(system, "requires") or [])):
        made.left.append(f"{FILE}: build-system.requires names pretuned already")
    else:
        edit = partial(with_requirement, requirement=wanted)
        _take(made, _edited(edit, text), f"`{wanted}` to build-system.requires")
    if FILE in made.texts and wanted.startswith("pretuned @ file:"):
        made.left.append(f"{FILE}: that is a path of this machine; name what others can reach before they build")
    if system is None:
        return
    if not layout.backend:
        text, backend = made.texts.get(FILE, text), layout.front_end.backend
        edit = partial(with_backend, backend=backend)
        _take(made, _edited(edit, text), f'`build-backend = "{backend}"` to build-system')
    elif advice := layout.front_end.advice(layout.backend):
        made.left.append(f"{FILE}: {advice}")


def _take(made: Plan, new: str | None, what: str) -> None:
    if new is None:
        made.left.append(f"{FILE} cannot be edited safely; add {what} yourself")
    else:
        made.texts[FILE] = new
        made.done.append(f"{FILE}: {what} added")


def _edited(edit: Callable[[str], str | None], text: str) -> str | None:
    """Return what `edit` makes of a text, whose line ends stay what they are."""
    new = edit(text.replace("\r\n", "\n"))
    return new.replace("\n", "\r\n") if new is not None and "\r\n" in text else new


def _is_pretuned(text: object) -> bool:
    with suppress(InvalidRequirement):
        return canonicalize_name(Requirement(str(text)).name) == "pretuned"
    return False
