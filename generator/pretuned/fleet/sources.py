"""The files of a kernel, packed so that a worker on another machine finds the folder as it is here."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final, Self

from pretuned.errors import Fault, SpecError
from pretuned.files import scratch
from pretuned.spec.model import KernelSpec

MOST_BYTES: Final = 32 << 20  # of a kernel's folder: what goes to every worker
_SKIPPED: Final = frozenset({"__pycache__", "build", "dist"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFiles:
    """A kernel's folder and its folders of headers: `packed` is a ZIP file, `folder` the kernel's place in it."""

    packed: bytes
    folder: str
    digest: str

    @classmethod
    def of(cls, spec: KernelSpec) -> Self:
        """Pack the files of a spec; raises SpecError where its folder is larger than a worker is sent."""
        folders = [Path(os.path.abspath(one)) for one in (spec.folder, *spec.include_folders)]  # noqa: PTH100 - no links
        root = Path(os.path.commonpath(folders))
        files = sorted({file for folder in folders for file in _files(folder)})
        size = sum(file.stat().st_size for file in files)
        if size > MOST_BYTES:
            message = (
                f"keep what kernels do not read elsewhere: {folders[0]} has {size >> 20} MB, and workers on other "
                f"machines are sent {MOST_BYTES >> 20} MB at most"
            )
            raise SpecError([Fault(file=spec.file, path="", message=message)])
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                entry = zipfile.ZipInfo(file.relative_to(root).as_posix())  # of a fixed date: same files, same bytes
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes())
        packed = buffer.getvalue()
        digest = hashlib.sha256(packed).hexdigest()
        return cls(packed=packed, folder=folders[0].relative_to(root).as_posix(), digest=digest)

    def placed(self) -> Path:
        """Return the kernel's folder on this machine, unpacked once a process."""
        return _unpacked(self) / PurePosixPath(self.folder)


@cache
def _unpacked(files: KernelFiles) -> Path:
    if hashlib.sha256(files.packed).hexdigest() != files.digest:
        message = "send the unit again: its files are not those that were packed"
        raise SpecError([Fault(file=files.folder, path="", message=message)])
    place = scratch() / f"kernel-{files.digest[:16]}"
    with zipfile.ZipFile(io.BytesIO(files.packed)) as archive:
        archive.extractall(place)  # zipfile keeps members inside
    return place


def moved(spec: KernelSpec, folder: Path) -> KernelSpec:
    """Return a spec whose files are in another folder."""
    copied = spec.model_copy(update={"folder": folder})
    copied.__dict__.pop("include_folders", None)  # kept from the old place
    return copied


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, hidden ones and what Python compiled left out."""
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if name not in _SKIPPED and not name.startswith(".")]
        yield from (Path(place, name) for name in names if not name.startswith(".") and not name.endswith(".pyc"))
