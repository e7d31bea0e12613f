"""Paths in the project's table: relative to the project, inside it, and what each of them may name."""

from __future__ import annotations

import keyword
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from pretuned.config.toml import spelled

MODULE: Final = 'module = "src/mypkg/tuned"'  # what messages give as an example
_NAME_BYTES: Final = 200  # of 255 in most file systems; more are put around it while it is written


def misplaced(declarations: object, kernels: str) -> Iterator[str]:
    """A module that declares kernels lies among them, so that an sdist carries it with what it imports."""
    if not isinstance(declarations, str):
        return
    path = PurePosixPath(declarations)
    if faults := list(outside(declarations)):
        yield from faults
    elif path.suffix != ".py" or path.parent != PurePosixPath(kernels):
        yield f"is {spelled(declarations)}; write a module of the folder '{kernels}', such as '{kernels}/declared.py'"


def outside(path: str) -> Iterator[str]:
    """A path is relative to the project, inside it, and spelt with forward slashes."""
    if not path.isprintable():
        yield f"is {spelled(path)!a}, which has an unprintable character; write a plain path"
    elif "\\" in path:
        yield f"is {spelled(path)}; write paths with forward slashes"
    elif PurePosixPath(path).is_absolute() or PureWindowsPath(path).drive:
        yield f"'{path}' is absolute; write a path relative to the project's folder"
    elif ".." in PurePosixPath(path).parts:
        yield f"'{path}' leads outside the project; write a path below the project's folder, without '..'"
    elif PurePosixPath(path) == PurePosixPath():
        yield f"is {spelled(path)}; write a path below the project's folder"
    elif (longest := max(len(part.encode()) for part in PurePosixPath(path).parts)) > _NAME_BYTES:
        yield f"has a name of {longest} bytes, and a file's or folder's may have {_NAME_BYTES}; write a shorter one"


def no_package(module: str) -> Iterator[str]:
    """A generated package lies at the path of a package."""
    parts = PurePosixPath(module).parts
    wrong = next((part for part in parts if not part.isidentifier() or keyword.iskeyword(part)), None)
    if wrong is not None:
        yield f"'{module}' is not a package path, since '{wrong}' is not a Python name; write `{MODULE}`"
    elif parts == ("src",):
        yield f"'src' names no package; write `{MODULE}`"


def leaves(root: Path, path: str) -> bool:
    """Return whether a path leads out of the project, by a link."""
    return not Path(os.path.realpath(root / path)).is_relative_to(os.path.realpath(root))


def linked(path: str) -> str:
    """Return what is wrong with a path that does."""
    return f"'{path}' is a link that leads out of the project, or lies behind one; put a real folder there"
