"""The user cache: every single measurement, row and compiled module, so that no build repeats another's work.

One SQLite file in the platform's cache folder. Each value is committed as it is put, so a build that is killed loses at
most the measurement in flight. Keys are digests of everything a value depends on, and a value is only replaced where
measurements are made anew. A value stands behind a digest of itself and its key: one that does not fit (a damaged
file's), or does not read back (another version's), counts as absent. A file that is not a database is set aside and a
new one begun; where none can be written at all (a read-only folder, a full disk), the build goes on without: the cache
may always be lost.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import sqlite3
import time
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pretuned import outcome
from pretuned.compile.result import Binary, Resources
from pretuned.files import alone_in
from pretuned.outcome import Outcome

FILE: Final = "measurements-2.sqlite"
MOST_BYTES: Final = 2 << 30  # of the file; beyond, the oldest third of its values goes
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS entries "
    "(key TEXT PRIMARY KEY, kind TEXT, kernel TEXT, device TEXT, value TEXT, created REAL)"
)
_BUSY_S: Final = 30.0  # another build may be writing
_VACUUM: Final = "PRAGMA auto_vacuum = INCREMENTAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a value is of, by which it is listed and removed; a binary's `device` is its architecture."""

    kernel: str = ""
    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The values of one subject: how many, their bytes, and when the oldest and the newest were put (Unix time, s)."""

    subject: Subject
    values: int
    nbytes: int
    oldest: float
    newest: float


NOTHING: Final = Subject()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """A value as it is kept, by which one cache takes over what another one has; `sealed` is behind its digest."""

    name: str
    kernel: str
    device: str
    sealed: str

    @property
    def is_whole(self) -> bool:
        """Whether the value is the one that was kept under this name."""
        return self.sealed == sealed(self.name, self.sealed.partition(" ")[2])


class Cache:
    """A key-value store of outcomes, rows and binaries; `folder` None keeps it in memory.

    `path` is the file, None in memory, as also where no file can be opened in `folder`: `trouble` says why. With
    `anew`, what was measured before this moment counts as absent, and what is measured from now on replaces it;
    binaries stay.
    """

    def __init__(self, folder: Path | None, *, anew: bool = False) -> None:
        self.path = None if folder is None else folder / FILE
        self.trouble = ""
        self._since = time.time() if anew else 0.0
        try:
            self._connection = self._opened()
            self._evict()
        except (OSError, sqlite3.DatabaseError) as error:  # not writable, or locked for long by others
            self.path, self.trouble = None, (error.strerror if isinstance(error, OSError) else "") or str(error)
            self._connection = self._connect()

    def _opened(self) -> sqlite3.Connection:
        try:
            return self._connect_when_free()
        except sqlite3.OperationalError:  # nothing is damaged
            raise
        except sqlite3.DatabaseError:
            assert self.path is not None  # a database in memory is never damaged
        with alone_in(self.path.parent):
            try:
                return self._connect()  # another build may have been here first
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                self.path.replace(self.path.with_suffix(f".damaged-{int(time.time())}"))
                for suffix in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            return self._connect()

    def _connect_when_free(self) -> sqlite3.Connection:
        """Connect; SQLite does not wait by itself where another build makes the same file at the same moment."""
        end = time.monotonic() + _BUSY_S
        while True:
            try:
                return self._connect()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            time.sleep(0.01)

    def _connect(self) -> sqlite3.Connection:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        target = ":memory:" if self.path is None else str(self.path)
        connection = sqlite3.connect(target, timeout=_BUSY_S, isolation_level=None)
        try:
            connection.execute(_VACUUM)  # takes effect in a new file, which the next line begins
            connection.execute("PRAGMA journal_mode = WAL")
            # What is committed survives a killed process. A power cut may cost the last entries.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_SCHEMA)
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _get(self, kind: str, key: str) -> Any:  # noqa: ANN401 - JSON
        with contextlib.suppress(sqlite3.DatabaseError, AttributeError, TypeError, ValueError, RecursionError):
            query = "SELECT value, created FROM entries WHERE key = ?"
            found = self._connection.execute(query, (f"{kind}:{key}",)).fetchone()
            if found is None or (kind != "binary" and found[1] < self._since):
                return None
            text = found[0].partition(" ")[2]
            return json.loads(text) if found[0] == sealed(f"{kind}:{key}", text) else None
        return None

    def _put(self, kind: str, key: str, value: object, subject: Subject) -> None:
        text = json.dumps(value, separators=(",", ":"))
        name = f"{kind}:{key}"
        row = (name, kind, subject.kernel, subject.device, sealed(name, text), time.time())
        with contextlib.suppress(sqlite3.DatabaseError):
            self._connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", row)

    def outcome(self, key: str) -> Outcome | None:
        """Return what became of a candidate at a problem, if it was tried."""
        data = self._get("outcome", key)
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return outcome.from_json(data) if data is not None else None
        return None

    def put_outcome(self, key: str, value: Outcome, subject: Subject = NOTHING) -> None:
        """Keep an outcome."""
        self._put("outcome", key, outcome.to_json(value), subject)

    def record(self, key: str) -> dict[str, Any] | None:
        """Return the JSON object kept under `key`: a row, or the verdict of a check."""
        data = self._get("record", key)
        return data if isinstance(data, dict) else None

    def put_record(self, key: str, value: dict[str, Any], subject: Subject = NOTHING) -> None:
        """Keep a JSON object."""
        self._put("record", key, value, subject)

    def binary(self, key: str) -> Binary | None:
        """Return a compiled module, if its image still has its digest."""
        data = self._get("binary", key)
        try:
            image = base64.b64decode(data.pop("image"))
            resources = {name: Resources(**value) for name, value in data.pop("resources").items()}
            binary = Binary(**data | {"flags": tuple(data["flags"])}, image=image, resources=resources)
            _require_kinds(binary)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        return binary if hashlib.sha256(image).hexdigest() == binary.digest else None

    def put_binary(self, key: str, value: Binary) -> None:
        """Keep a compiled module."""
        data = asdict(value) | {"image": base64.b64encode(value.image).decode()}
        del data["ptx"]  # is kept by itself
        self._put("binary", key, data, Subject(device=value.architecture))

    def entries(self, subject: Subject, *, since: float) -> tuple[CacheEntry, ...]:
        """Return the values of a subject that were put at a moment (Unix time, s) or later, without binaries."""
        query = (
            "SELECT key, kernel, device, value FROM entries WHERE kernel = ? AND device = ? AND created >= ? AND "
            "kind != 'binary' ORDER BY key"
        )
        with contextlib.suppress(sqlite3.DatabaseError):
            found = self._connection.execute(query, (subject.kernel, subject.device, since))
            return tuple(CacheEntry(name=n, kernel=k, device=d, sealed=value) for n, k, d, value in found)
        return ()

    def take(self, entries: Iterable[CacheEntry]) -> None:
        """Keep values of another cache, in one step; one that is not whole is left out."""
        now = time.time()
        rows = [(e.name, e.name.partition(":")[0], e.kernel, e.device, e.sealed, now) for e in entries if e.is_whole]
        with contextlib.suppress(sqlite3.DatabaseError):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)
            finally:
                self._connection.execute("COMMIT")

    def holdings(self) -> tuple[Holding, ...]:
        """Return what there is, by kernel and device; binaries, which several kernels may share, come first."""
        query = (
            "SELECT kernel, device, COUNT(*), SUM(LENGTH(value)), MIN(created), MAX(created) FROM entries "
            "GROUP BY kernel, device ORDER BY kernel, device"
        )
        with contextlib.suppress(sqlite3.DatabaseError):
            return tuple(
                Holding(
                    subject=Subject(kernel=kernel, device=device),
                    values=count,
                    nbytes=nbytes,
                    oldest=oldest,
                    newest=newest,
                )
                for kernel, device, count, nbytes, oldest, newest in self._connection.execute(query)
            )
        return ()

    def remove(self, subjects: Collection[Subject], *, before: float) -> int:
        """Remove the values of `subjects` that were put before a moment (Unix time, s); returns how many those were."""
        removed = 0
        with contextlib.suppress(sqlite3.DatabaseError):
            for subject in subjects:
                query = "DELETE FROM entries WHERE kernel = ? AND device = ? AND created < ?"
                removed += self._connection.execute(query, (subject.kernel, subject.device, before)).rowcount
            self._shrink()
        return removed

    def _evict(self) -> None:
        """Remove the oldest third of a file that has grown too large."""
        if self.path is None or self.path.stat().st_size < MOST_BYTES:
            return
        with contextlib.suppress(sqlite3.DatabaseError):
            self._connection.execute(
                "DELETE FROM entries WHERE key IN (SELECT key FROM entries ORDER BY created LIMIT "
                "(SELECT COUNT(*) / 3 FROM entries))"
            )
            self._shrink()

    def _shrink(self) -> None:
        """Give the space of what was removed back."""
        if self._connection.execute("PRAGMA auto_vacuum").fetchone() == (0,):  # a file from before it was asked for
            self._connection.execute(_VACUUM)
            self._connection.execute("VACUUM")
        self._connection.executescript("PRAGMA incremental_vacuum")  # `execute` gives a single page back
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def sealed(name: str, text: str) -> str:
    """Return a value behind the digest of it and of what it answers for."""
    digest = hashlib.blake2b(f"{name} {text}".encode(errors="surrogatepass"), digest_size=12).hexdigest()
    return f"{digest} {text}"


def _require_kinds(binary: Binary) -> None:
    """Raise TypeError where a field is not what it is declared to be: all of them get into generated packages."""
    texts = (binary.module, binary.architecture, binary.digest, binary.compiler, *binary.flags)
    numbers = [value for found in binary.resources.values() for value in asdict(found).values()]
    if not all(type(text) is str for text in texts) or not all(type(number) is int for number in numbers):
        raise TypeError("a binary's texts and numbers")
    if binary.ptx is not None:
        raise TypeError("a binary by itself")
