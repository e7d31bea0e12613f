"""`pretuned.json` in a generated package: what it was tuned for and by whom, and the digest of every file of it.

It is read without importing the package (`pretuned inspect`), so that a wheel from anywhere can be looked into. Like
the lock it is canonical JSON, one entry per line: the same package gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from pydantic import TypeAdapter, ValidationError

from pretuned.bake.plan import BakePlan, Compiled, KernelPlan
from pretuned.config.toml import dotted, in_words
from pretuned.errors import BakeError
from pretuned.record import canonical
from pretuned.record.lock import row_line
from pretuned.record.rows import Row, TunedDevice
from pretuned.render import digest

FILE: Final = "pretuned.json"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The rows of one kernel on one device.

    `faster` counts those whose winner is not the default, `recompiled` those that ship another binary than the one that
    was measured, `disturbed` those whose times are noisy. `first` and `last` are the days on which
    they were measured (ISO 8601), `digest` is the SHA-256 of their lines in the lock.
    """

    kernel: str
    device: str
    rows: int
    faster: int
    recompiled: int
    disturbed: int
    compilers: tuple[str, ...]
    drivers: tuple[str, ...]
    first: str
    last: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file's size and SHA-256 in hexadecimal."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What `pretuned.json` holds.

    `pretuned` is the version that baked, `compilers` are the NVRTC versions of the binaries. `kernels` gives by name
    the digest of what ships: every configuration with its module. `files` are all but this one, by path.
    """

    pretuned: str
    compilers: tuple[str, ...]
    devices: tuple[TunedDevice, ...]
    kernels: Mapping[str, str]
    rows: tuple[Share, ...]
    files: Mapping[str, File]


def describe(plan: BakePlan, binaries: Compiled, files: Mapping[str, bytes], version: str) -> Metadata:
    """Return the metadata of the package with these files, baked from `plan` by pretuned `version`."""
    used = {(module.key, architecture) for module, architecture in plan.jobs}
    return Metadata(
        pretuned=version,
        compilers=tuple(sorted({binaries[key].compiler for key in used})),
        devices=plan.devices,
        kernels={kernel.spec.name: _shipped(kernel) for kernel in plan.kernels},
        rows=tuple(share for kernel in plan.kernels for share in _shares(plan, kernel, binaries)),
        files={
            name: File(size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
            for name, content in sorted(files.items())
        },
    )


def _shipped(kernel: KernelPlan) -> str:
    found = (
        (entry.specialisation, entry.configuration, "" if entry.source is None else entry.source.key)
        for entry in kernel.shipped
    )
    return digest([[chosen, ran.implementation, ran.values, module] for chosen, ran, module in found])


def _shares(plan: BakePlan, kernel: KernelPlan, binaries: Compiled) -> Iterator[Share]:
    for device in plan.devices:
        rows = [row for row in kernel.rows if row.device == device.name]
        if rows:
            yield Share(
                kernel=kernel.spec.name,
                device=device.name,
                rows=len(rows),
                faster=sum(row.winner.configuration != row.default.configuration for row in rows),
                recompiled=sum(_recompiled(kernel, row, device, binaries) for row in rows),
                disturbed=sum(bool(row.noise) for row in rows),
                compilers=tuple(sorted({row.compiler for row in rows})),
                drivers=tuple(sorted({row.driver for row in rows})),
                first=min(row.date for row in rows),
                last=max(row.date for row in rows),
                digest=digest_of_rows(rows),
            )


def _recompiled(kernel: KernelPlan, row: Row, device: TunedDevice, binaries: Compiled) -> bool:
    return any(kernel.recompiled(row, choice, device, binaries) is not None for choice in row.choices)


def digest_of_rows(rows: Sequence[Row]) -> str:
    """Return the SHA-256 of the rows' lines in the lock, sorted, each with its line's end and without a comma."""
    lines = sorted(row_line(row) for row in rows)
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def dumps(metadata: Metadata) -> bytes:
    """Return the content of `pretuned.json`."""
    return canonical.document(
        {
            "format": canonical.line(FORMAT),
            "pretuned": canonical.line(metadata.pretuned),
            "compilers": canonical.line(metadata.compilers),
            "devices": canonical.rows(map(asdict, metadata.devices)),
            "kernels": canonical.entries(metadata.kernels),
            "rows": canonical.rows(map(asdict, metadata.rows)),
            "files": canonical.entries({name: asdict(file) for name, file in metadata.files.items()}),
        }
    ).encode()


def loads(text: bytes) -> Metadata:
    """Return what a `pretuned.json` holds; raises BakeError that says what is wrong with it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BakeError(f"{FILE} is not JSON: {error}") from None
    found = document.get("format") if isinstance(document, dict) else None
    if type(found) is not int or found > FORMAT:
        raise BakeError(f"{FILE} has format {found!r:.60}, and this pretuned reads format {FORMAT}")
    try:
        return _READER.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise BakeError(f"{FILE}: {dotted(first['loc'])}: {in_words(first)}") from None


_READER: Final = TypeAdapter(Metadata)
