"""Looking into generated packages in a wheel or a folder: nothing of them is installed, imported or executed.

What is read is untrusted. It is held against the digests in `pretuned.json`, and no more than MAX_BYTES of it are read.
The digests show what has changed since the bake, and not its origin: anybody with write access can replace them too.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from pretuned.build import metadata
from pretuned.build.hub import METADATA
from pretuned.build.metadata import Metadata
from pretuned.errors import BakeError

MAX_BYTES: Final = 2 << 30  # of a package; a wheel may unpack to any size
MAX_METADATA_BYTES: Final = 64 << 20
_MARK: Final = "_runtime/__init__.py"  # a generated package has it
_IMAGES: Final = {".cubin": "cubin", ".ptx": "ptx"}
_BROKEN: Final = (OSError, RuntimeError, NotImplementedError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Files by path, with `/`: their sizes in bytes, and how to open one. `twice` are paths that stand there twice."""

    sizes: Mapping[str, int]
    open: Callable[[str], IO[bytes]]
    twice: Sequence[str] = ()

    def below(self, folder: str) -> Contents:
        """Return the files of a folder, by their paths in it."""
        prefix = f"{folder}/" if folder else ""
        return Contents(
            sizes={name.removeprefix(prefix): size for name, size in self.sizes.items() if name.startswith(prefix)},
            open=lambda name: self.open(prefix + name),
            twice=[name.removeprefix(prefix) for name in self.twice if name.startswith(prefix)],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """A generated package: where it lies (with `/`), what it says of itself, and what is off (nothing: all is well).

    `images` counts binaries by architecture and kind, as in `sm_90 cubin`; sizes are in bytes.
    """

    folder: str
    metadata: Metadata | None
    images: Mapping[str, int]
    image_bytes: int
    files: int
    size_bytes: int
    wrong: tuple[str, ...]


@contextmanager
def open_wheel(path: Path) -> Iterator[Contents]:
    """Yield the contents of a wheel; raises BakeError where it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            counts = Counter(entry.filename for entry in entries)
            yield Contents(
                sizes={entry.filename: entry.file_size for entry in entries},
                open=archive.open,
                twice=sorted(name for name, count in counts.items() if count > 1),
            )
    except (OSError, zipfile.BadZipFile) as error:
        raise BakeError(f"{path.name} cannot be read as a wheel: {error}") from None


def in_folder(path: Path) -> Contents:
    """Return the contents of a folder, without what Python caches in it."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return Contents(
        sizes={file.relative_to(path).as_posix(): file.stat().st_size for file in files},
        open=lambda name: (path / name).open("rb"),
    )


def tags_of(contents: Contents) -> list[str]:
    """Return the tags of a wheel, as its metadata has them."""
    files = [name for name in contents.sizes if name.endswith(".dist-info/WHEEL") and name.count("/") == 1]
    try:
        with contents.open(files[0]) as file:
            text = file.read(1 << 16).decode(errors="replace")
    except (IndexError, KeyError, *_BROKEN):
        return []
    return [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("Tag:")]


def inspect(contents: Contents) -> list[Inspected]:
    """Return the generated packages among `contents`, by path."""
    marked = (name.removesuffix(_MARK) for name in contents.sizes if name == _MARK or name.endswith(f"/{_MARK}"))
    return [_inspected(folder.rstrip("/"), contents.below(folder.rstrip("/"))) for folder in sorted(marked)]


def _inspected(folder: str, contents: Contents) -> Inspected:
    images = {name: size for name, size in contents.sizes.items() if PurePosixPath(name).suffix in _IMAGES}
    found, wrong = None, [f"{name}: is in the wheel twice" for name in contents.twice]
    try:
        found = _metadata(contents)
        wrong += _differences(found, contents)
    except BakeError as error:
        wrong.append(str(error))
    return Inspected(
        folder=folder,
        metadata=found,
        images=dict(sorted(Counter(map(_kind, images)).items())),
        image_bytes=sum(images.values()),
        files=len(contents.sizes),
        size_bytes=sum(contents.sizes.values()),
        wrong=tuple(wrong),
    )


def _metadata(contents: Contents) -> Metadata:
    size = contents.sizes.get(metadata.FILE)
    if size is None:
        raise BakeError(f"it has no {metadata.FILE}: another tool or an older pretuned baked it")
    if size > MAX_METADATA_BYTES:
        raise BakeError(f"{metadata.FILE} has {size} bytes, and at most {MAX_METADATA_BYTES} are read")
    try:
        with contents.open(metadata.FILE) as file:
            return metadata.loads(file.read(size))
    except _BROKEN as error:
        raise BakeError(f"{metadata.FILE} cannot be read: {error}") from None


def _kind(name: str) -> str:
    """Return `sm_90 cubin` for `kernels/axpby-1234.sm_90.cubin`."""
    path = PurePosixPath(name)
    return f"{PurePosixPath(path.stem).suffix.lstrip('.')} {_IMAGES[path.suffix]}"


def _differences(found: Metadata, contents: Contents) -> Iterator[str]:
    """Yield what is not as it was baked, one file per line."""
    if sum(contents.sizes.values()) > MAX_BYTES:
        yield f"it unpacks to more than {MAX_BYTES} bytes; its digests were not looked at"
        return
    for name, baked in sorted(found.files.items()):
        size = contents.sizes.get(name)
        if size is None:
            yield f"{name}: is missing"
        elif size != baked.size_bytes:
            yield f"{name}: has {size} bytes, and had {baked.size_bytes} when it was baked"
        elif (trouble := _digest(contents, name)) != baked.sha256:
            yield f"{name}: is not what was baked (its SHA-256 is {trouble})"
    for name in sorted(contents.sizes.keys() - found.files.keys() - {metadata.FILE, METADATA}):
        yield f"{name}: was not baked"


def _digest(contents: Contents, name: str) -> str:
    try:
        with contents.open(name) as file:
            return _sha256(file)
    except _BROKEN as error:
        return f"unknown: {error}"


def _sha256(file: IO[bytes]) -> str:
    found = hashlib.sha256()
    while chunk := file.read(1 << 20):
        found.update(chunk)
    return found.hexdigest()
