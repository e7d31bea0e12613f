"""`pretuned.lock.json`: every row of a project, for every device it was tuned on; committed and reviewed.

Theory of operation. The file is canonical JSON: a fixed order of keys, one device, row, selection or skipped problem a
line, so that a diff shows what changed and nothing else. Writing what was read gives the same bytes. A re-tune that
confirms a row (the same choices in the same order, of the same modules) keeps the line it had, times and date included;
so does one that confirms a selection (`selections.confirms`).
Each line ends with a digest of itself: one that was edited by hand is refused, and lines of two locks can stand in one
file. The file is replaced as a whole, never written in place. What it holds is data: reading checks every field's kind
and gives `LockError` with the line to look at, and nothing of it is ever run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pretuned.errors import LockError
from pretuned.files import alone_in, storage_errors, temporary, write_whole
from pretuned.record import canonical
from pretuned.record import selections as rules
from pretuned.record.entries import device_from_json, row_from_json, row_to_json, skipped_from_json, skipped_to_json
from pretuned.record.fields import FieldError, within
from pretuned.record.rows import Row, Skipped, TunedDevice, rank_of_effort
from pretuned.record.selection_entries import selection_from_json, selection_to_json
from pretuned.record.selections import Selection
from pretuned.runtime.text import shown
from pretuned.spec.space import Pairs, Problem, describe

FORMAT: Final = 1
_LISTS: Final = ("rows", "selections", "skipped")
_LISTED: Final = 5  # lines that an error names
_CONFLICT: Final = re.compile(r"^(<<<<<<< |=======$|>>>>>>> )", re.MULTILINE)
RESTORE: Final = "; restore the line from version control, or delete it and run `pretuned tune`"
RowKey = tuple[str, str, Problem]
Key = RowKey | tuple[str, str, Pairs]  # of a selection, the specialisation


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The content of a lock: devices by the name that rows use, and what was found on them, in stable order."""

    devices: dict[str, TunedDevice] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    selections: tuple[Selection, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def find(self, kernel: str, device: str, problem: Problem) -> Row | None:
        """Return the row of a problem on a device."""
        return next((row for row in self.rows if row_key(row) == (kernel, device, problem)), None)

    @property
    def keys(self) -> list[Key]:
        """Return what rows, selections and skipped problems answer for."""
        return [*map(row_key, self.rows), *(rule.key for rule in self.selections), *(one.key for one in self.skipped)]

    @property
    def compilers(self) -> list[str]:
        """Return the NVRTC of each row and selection."""
        return [*(row.compiler for row in self.rows), *(rule.compiler for rule in self.selections)]

    def updated(
        self,
        devices: Mapping[str, TunedDevice],
        rows: Iterable[Row] = (),
        skipped: Iterable[Skipped] = (),
        selections: Iterable[Selection] = (),
        *,
        max_loss: float | None = None,
    ) -> Lock:
        """Return the lock with what is given in place of what it answers for; what is confirmed stays as it was.

        A selection that loses more than `max_loss` is never confirmed.
        """
        kept = {row_key(row): row for row in self.rows}
        passed = {entry.key: entry for entry in self.skipped}
        chosen = {rule.key: rule for rule in self.selections}
        for row in rows:
            before = kept.get(row_key(row))
            kept[row_key(row)] = before if before is not None and confirms(row, before) else row
            passed.pop(row_key(row), None)
        for entry in skipped:
            passed[entry.key] = entry
            kept.pop(entry.key, None)
        for rule in selections:
            known = chosen.get(rule.key)
            chosen[rule.key] = known if known is not None and rules.confirms(rule, known, max_loss) else rule
        return replace(
            self,
            devices=dict(sorted({**self.devices, **devices}.items())),
            rows=tuple(kept[key] for key in sorted(kept, key=_order)),
            selections=tuple(chosen[key] for key in sorted(chosen, key=_order)),
            skipped=tuple(passed[key] for key in sorted(passed, key=_order)),
        )

    def without(self, keys: Iterable[Key]) -> Lock:
        """Return the lock without the entries of `keys`, and without devices that nothing names."""
        gone = set(keys)
        rows = tuple(row for row in self.rows if row_key(row) not in gone)
        selections = tuple(rule for rule in self.selections if rule.key not in gone)
        skipped = tuple(entry for entry in self.skipped if entry.key not in gone)
        named = {*(row.device for row in rows), *(one.device for one in selections), *(one.device for one in skipped)}
        devices = {name: device for name, device in self.devices.items() if name in named}
        return Lock(devices=devices, rows=rows, selections=selections, skipped=skipped)

    def of_gpus(self) -> Lock:
        """Return the lock without the rows of other backends' devices, which say nothing about a GPU."""
        return self.without(key for key in self.keys if not self.devices[key[1]].is_gpu)


def row_key(row: Row) -> RowKey:
    """Return what a row answers for."""
    return row.kernel, row.device, row.problem


def _order(key: Key) -> tuple[str, str, str, Pairs]:
    kernel, device, where = key
    specialisation, dims = (where.specialisation, where.dims) if isinstance(where, Problem) else (where, ())
    return kernel, device, json.dumps(specialisation), dims


def confirms(new: Row, old: Row) -> bool:
    """Return whether `new` finds all that `old` says: the same choices in the same order, of the same binaries.

    Both must have been chosen from the same space, unless a budget ended the search for `new` early, and judged and
    compiled alike. A row that was measured under noise is replaced by a clean measurement, and one that was tuned with
    less effort by one of more: neither confirms it.
    """
    if (old.noise and not new.noise) or rank_of_effort(new.effort) > rank_of_effort(old.effort):
        return False

    def essence(row: Row) -> object:
        return [(c.configuration, c.candidate, c.cubin, c.library) for c in row.choices], row.verification, row.compiler

    return essence(new) == essence(old) and new.space in {"", old.space}


def dumps(lock: Lock) -> str:
    """Return the file's text."""
    parts = {
        "format": canonical.line(FORMAT),
        "devices": canonical.entries({k: canonical.sealed(asdict(device)) for k, device in lock.devices.items()}),
        "rows": canonical.rows(canonical.sealed(row_to_json(row)) for row in lock.rows),
        "selections": canonical.rows(canonical.sealed(selection_to_json(rule)) for rule in lock.selections),
        "skipped": canonical.rows(canonical.sealed(skipped_to_json(entry)) for entry in lock.skipped),
    }
    return canonical.document(parts)


def row_line(row: Row) -> str:
    """Return a row's line in the file."""
    return canonical.line(canonical.sealed(row_to_json(row)))


def device_line(device: TunedDevice) -> str:
    """Return a device's line in the file."""
    return f"{canonical.line(device.name)}: {canonical.line(canonical.sealed(asdict(device)))}"


def selection_line(rule: Selection) -> str:
    """Return a selection's line in the file."""
    return canonical.line(canonical.sealed(selection_to_json(rule)))


def write(path: Path, lock: Lock) -> bool:
    """Write the lock to `path`, whole or not at all; returns False where the file has these bytes already."""
    content = dumps(lock).encode()
    with storage_errors("the lock cannot be written", path):
        if path.is_file() and path.read_bytes() == content:
            return False
        write_whole(path, content)
    return True


def read(path: Path) -> Lock:
    """Read the lock at `path`; an empty one where there is no file. Raises LockError that says what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Lock()
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"{path.name}: cannot be read: {error}") from None
    try:
        document = json.loads(text)
        odd = next(_unprintable(document), None)
    except (ValueError, RecursionError) as error:
        if (conflict := _CONFLICT.search(text)) is not None:
            line = text.count("\n", 0, conflict.start()) + 1
            raise LockError(_in_conflict(path.name, line)) from None
        if isinstance(error, ValueError) and text.strip() and not text.lstrip().startswith("{"):
            raise LockError(f"{path}: is no lock, which is a JSON file that `pretuned tune` writes") from None
        raise LockError(
            f"{path.name}: is not JSON ({error}); it is cut short or was merged by hand: "
            "take it from version control again, or delete it and run `pretuned tune`"
        ) from None
    if odd is not None:
        raise LockError(f"{path.name}: holds the text {odd!r:.80}, and pretuned writes printable characters only")
    return loads(document, path.name)


def _in_conflict(name: str, line: int) -> str:
    return (
        f"{name}: line {line} has the mark of a merge conflict; take both sides as they were, by "
        f"`git show :2:./{name} > ours.json` and `git show :3:./{name} > theirs.json`, and join them by "
        f"`pretuned merge ours.json theirs.json -o {name}`"
    )


def demand_writable(path: Path) -> None:
    """Raise StorageError where the lock could not be written, before hours are spent on what is to stand in it."""
    with storage_errors("the lock cannot be written", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary(path, folder=False):
            pass


@contextmanager
def updating(path: Path) -> Iterator[None]:
    """Run the block, which reads the lock and writes it, while no other process is in such a block for its folder.

    Where the file system has no locks, the last one to write wins.
    """
    with alone_in(path.parent) if path.parent.is_dir() else nullcontext():
        yield


def _unprintable(value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield the texts that could not be told as they are: every one of a lock may get into a message."""
    match value:
        case str() if not value.isprintable():
            yield value
        case dict():
            for key, item in value.items():
                yield from _unprintable(key)
                yield from _unprintable(item)
        case list():
            for item in value:
                yield from _unprintable(item)


def loads(document: Any, name: str) -> Lock:  # noqa: ANN401 - JSON
    """Return the lock that a JSON document holds; `name` is the file's, for messages."""
    if not isinstance(document, dict) or not isinstance(document.get("format"), int):
        raise LockError(f"{name}: is not a lock of pretuned: it has no `format`")
    if document["format"] > FORMAT:
        raise LockError(
            f"{name}: has format {document['format']}, written by a newer pretuned; this one reads format {FORMAT}: "
            "update the pretuned that is installed here, and the one in [build-system] requires"
        )
    described = document.get("devices")
    if not isinstance(described, dict):
        raise LockError(f"{name}: `devices` is not an object{RESTORE}")
    devices = {
        key: _entry(lambda found, key=key: device_from_json(found, key), value, f"{name}: devices[{json.dumps(key)}]")
        for key, value in described.items()
    }
    rows = _entries(document, "rows", row_from_json, name)
    selections = _entries(document, "selections", selection_from_json, name)
    skipped = _entries(document, "skipped", skipped_from_json, name)
    for part, entries in (("rows", rows), ("selections", selections), ("skipped", skipped)):
        for index, entry in enumerate(entries):
            if entry.device not in devices:
                raise LockError(
                    f"{name}: {part}[{index}]: names the device {shown(entry.device)}, which `devices` does not "
                    f"describe{RESTORE}"
                )
    _refuse_edited(document, name)
    _refuse_twice([*((row_key(row), row) for row in rows), *((one.key, one) for one in (*selections, *skipped))], name)
    return Lock().updated(devices, rows, skipped, selections)


def _refuse_edited(document: Mapping[str, Any], name: str) -> None:
    """Raise LockError for lines that are not as pretuned wrote them: their times and digests were never measured."""
    lines = {f"devices[{json.dumps(key)}]": value for key, value in document["devices"].items()}
    lines |= {f"{part}[{n}]": line for part in _LISTS for n, line in enumerate(document.get(part, []))}
    edited = [place for place, value in lines.items() if not canonical.is_sealed(value)]
    if edited:
        listed = ", ".join(edited[:_LISTED]) + (f" and {more} more" if (more := len(edited) - _LISTED) > 0 else "")
        raise LockError(
            f"{name}: {listed}: not as pretuned wrote it (its digest differs){RESTORE}; `pretuned merge` joins locks "
            "of several machines"
        )


def _refuse_twice(entries: Iterable[tuple[Key, Row | Selection | Skipped]], name: str) -> None:
    """Raise LockError for two different lines that answer for the same, which a merge by hand leaves."""
    seen: dict[Key, Row | Selection | Skipped] = {}
    for key, entry in entries:
        if seen.setdefault(key, entry) != entry:
            where = key[2] if isinstance(key[2], Problem) else describe(key[2])
            at = f" at {where}" if str(where) else ""
            what = f"two lines answer for {key[0]} on {key[1]}{at}; delete one of them"
            raise LockError(f"{name}: {what}, or take both locks as they were and run `pretuned merge`")


def _entries(document: Mapping[str, Any], key: str, parse: Any, name: str) -> list[Any]:  # noqa: ANN401
    value = document.get(key, [])
    if not isinstance(value, list):
        raise LockError(f"{name}: `{key}` is not a list{RESTORE}")
    return [_entry(parse, item, f"{name}: {key}[{index}]") for index, item in enumerate(value)]


def _entry(parse: Any, value: Any, place: str) -> Any:  # noqa: ANN401 - one of the parsers above
    try:
        return within(place, parse, value)
    except FieldError as error:
        raise LockError(f"{error}{RESTORE}") from None
