"""Writing a generated package into a folder, whole, and never over files that pretuned has not generated."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pretuned.errors import BakeError

_RUNTIME: Final = "_runtime"  # the folder that every generated package has


def require_ours(folder: Path) -> None:
    """Raise BakeError where `folder` holds files and is not a generated package: it would be replaced."""
    if folder.is_dir():
        names = {entry.name for entry in folder.iterdir()} - {"__pycache__"}
        if names and _RUNTIME not in names:
            raise BakeError(f"{folder} holds files that pretuned did not generate; name another path as `module`")
    elif folder.exists():
        raise BakeError(f"{folder} is a file, and the generated package a folder; name another path as `module`")


def place(files: Mapping[str, bytes], folder: Path) -> None:
    """Write `files` (relative path to content) as `folder`, in place of what was generated there before.

    They are written beside it first, so that a build that fails half-way leaves the old package as it was.
    """
    require_ours(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as beside:
        fresh = Path(beside) / folder.name
        for name, content in files.items():
            file = fresh / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        if folder.exists():
            shutil.move(folder, Path(beside) / "old")
        fresh.rename(folder)
