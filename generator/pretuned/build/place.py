"""Writing a generated package into a folder, whole, and never over files that pretuned has not generated.

At every moment the folder holds the old package or the new one: where the file system can, they are exchanged in one
step. Elsewhere the old one is moved aside first, beside its place, and comes back whatever happens: at once after an
error or Ctrl-C, and with the next bake after a kill.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pretuned import files as storage
from pretuned.errors import BakeError

_RUNTIME: Final = "_runtime"  # the folder that every generated package has
_OLD: Final = "old"


def require_ours(folder: Path) -> None:
    """Raise BakeError where `folder` holds files and is not a generated package: it would be replaced."""
    with storage.storage_errors():
        if folder.is_dir():
            names = {entry.name for entry in folder.iterdir()} - {"__pycache__"}
            if names and _RUNTIME not in names:
                raise BakeError(f"{folder} holds files that pretuned did not generate; name another path as `module`")
        elif folder.exists():
            raise BakeError(f"{folder} is a file, and the generated package a folder; name another path as `module`")


def recover(folder: Path) -> None:
    """Put the package back that a killed bake had moved aside, and remove what else it left beside `folder`."""
    storage.collect(folder, lambda left: _put_back(left / _OLD, folder))


def place(files: Mapping[str, bytes], folder: Path) -> None:
    """Write `files` (relative path to content) as `folder`, in place of what was generated there before.

    Raises StorageError where they cannot be written; the old package is then as it was.
    """
    recover(folder)
    require_ours(folder)
    with storage.storage_errors("the generated package cannot be written", folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with storage.temporary(folder, folder=True, rescue=lambda left: _put_back(left / _OLD, folder)) as beside:
            fresh = beside / "new"
            for name, content in files.items():
                file = fresh / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            with storage.alone_in(folder.parent):
                _swap(fresh, folder, beside / _OLD)


def _swap(fresh: Path, folder: Path, aside: Path) -> None:
    """Put `fresh` in place of `folder`, if there is one; a caller that fails puts `aside` back."""
    if folder.exists():
        if storage.exchange(fresh, folder):
            return
        try:
            folder.rename(aside)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # A folder of an image's lower layer cannot be renamed; a kill from here on may cost it.
            shutil.copytree(folder, aside, symlinks=True)
            shutil.rmtree(folder)
    fresh.rename(folder)


def _put_back(aside: Path, folder: Path) -> None:
    if aside.is_dir():
        with storage.alone_in(folder.parent):
            if not folder.exists():
                aside.rename(folder)
