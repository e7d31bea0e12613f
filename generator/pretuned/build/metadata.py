"""`pretuned.json` in a generated package: what it was tuned for and by whom, and the digest of every file of it.

It is read without importing the package (`pretuned inspect`), so that a wheel from anywhere can be looked into. Like
the lock it is canonical JSON, one entry per line: the same package gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from pretuned.bake.plan import BakePlan, Compiled, KernelPlan
from pretuned.config.toml import dotted, in_words, spelled
from pretuned.errors import BakeError
from pretuned.record import canonical
from pretuned.record.fields import FieldError
from pretuned.record.lock import row_line, selection_line
from pretuned.record.rows import Row, TunedDevice
from pretuned.record.selection_entries import certificate_from_json, certificate_to_json
from pretuned.record.selections import Certificate, Selection
from pretuned.render import digest
from pretuned.runtime.records import Value

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
class BakedSelection:
    """The selection of one kernel, device and specialisation.

    `configurations` counts what it chooses from, `recompiled` those of them that ship another binary than the one that
    was measured. `certificate` is as in the lock, None where it has none. `digest` is the SHA-256 of its line there.
    """

    kernel: str
    device: str
    specialisation: Mapping[str, Value]
    configurations: int
    recompiled: int
    certificate: Mapping[str, Any] | None
    compiler: str
    driver: str
    date: str
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
    selections: tuple[BakedSelection, ...] = ()


def describe(plan: BakePlan, binaries: Compiled, files: Mapping[str, bytes], version: str) -> Metadata:
    """Return the metadata of the package with these files, baked from `plan` by pretuned `version`."""
    used = {(module.key, architecture) for module, architecture in plan.jobs}
    return Metadata(
        pretuned=version,
        compilers=tuple(sorted({binaries[key].compiler for key in used})),
        devices=plan.devices,
        kernels={kernel.spec.name: _shipped(kernel) for kernel in plan.kernels},
        rows=tuple(share for kernel in plan.kernels for share in _shares(plan, kernel, binaries)),
        selections=tuple(
            _selection(plan, kernel, rule, binaries) for kernel in plan.kernels for rule in kernel.selections
        ),
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


def _selection(plan: BakePlan, kernel: KernelPlan, rule: Selection, binaries: Compiled) -> BakedSelection:
    device = next(device for device in plan.devices if device.name == rule.device)
    return BakedSelection(
        kernel=rule.kernel,
        device=rule.device,
        specialisation=dict(rule.specialisation),
        configurations=len(rule.choices),
        recompiled=sum(kernel.recompiled(rule, choice, device, binaries) is not None for choice in rule.choices),
        certificate=None if rule.certificate is None else certificate_to_json(rule.certificate),
        compiler=rule.compiler,
        driver=rule.driver,
        date=rule.date,
        digest=_sha256([selection_line(rule)]),
    )


def _recompiled(kernel: KernelPlan, row: Row, device: TunedDevice, binaries: Compiled) -> bool:
    return any(kernel.recompiled(row, choice, device, binaries) is not None for choice in row.choices)


def digest_of_rows(rows: Sequence[Row]) -> str:
    """Return the SHA-256 of the rows' lines in the lock, sorted, each with its line's end and without a comma."""
    return _sha256(sorted(row_line(row) for row in rows))


def _sha256(lines: Iterable[str]) -> str:
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
            "selections": canonical.rows(map(asdict, metadata.selections)),
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
        metadata = _READER.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        loc, said = first["loc"], in_words(first)
        if "specialisation" in loc[:-2]:  # a value of several kinds: pydantic names each in turn
            loc, said = loc[:-1], f"expected an integer, true, false or a string, found {spelled(first['input'])}"
        raise BakeError(f"{FILE}: {dotted(loc)}: {said}") from None
    for place, rule in enumerate(metadata.selections):
        try:
            certificate_of(rule)
        except FieldError as error:
            raise BakeError(f"{FILE}: selections[{place}].{error}") from None
    return metadata


def certificate_of(rule: BakedSelection) -> Certificate | None:
    """Return the certificate of a selection; raises FieldError for what is none."""
    return None if rule.certificate is None else certificate_from_json(rule.certificate, None)


_READER: Final = TypeAdapter(Metadata)
