"""Locks, caches and usage files that are damaged: `python benchmarks/faults/damage.py`.

Bytes and bits are flipped, files truncated, parts repeated, lost or moved, digits changed, single fields edited, values
put under another's key. What is read afterwards is as it was written, or refused with an error of ours, or absent.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from operations import bases
from table import ROOT, TRACEBACK, WRONG, Tried, main

from pretuned.errors import LockError
from pretuned.record import lock as lockfile
from pretuned.record import usage
from pretuned.record.cache import FILE, Cache

LOCKS = ("examples/quickstart/pretuned.lock.json", "examples/multi-gpu-lock/pretuned.lock.json")
SHARES = {"lock": 0.5, "cache, its file": 0.15, "cache, its entries": 0.25, "usage": 0.1}


def damaged(data: bytes, draw: random.Random) -> tuple[str, bytes]:
    """Return what was done to some bytes, and the result."""
    at, size = draw.randrange(len(data)), draw.choice((1, 1, 4, 64, 4096))
    before, part, behind = data[:at], data[at : at + size], data[at + size :]
    other = draw.randrange(len(data))
    digits = [match.start() for match in re.finditer(rb"[0-9]", data)] or [at]
    digit = draw.choice(digits)
    results = {
        f"bit {at}": before + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :],
        f"byte {at}": before + bytes([draw.randrange(256)]) + data[at + 1 :],
        f"zeros {at}+{size}": before + bytes(len(part)) + behind,
        f"cut at {at}": before,
        f"lost {at}+{size}": before + behind,
        f"twice {at}+{size}": before + part + part + behind,
        f"{at}+{size} to {other}": (before + behind)[:other] + part + (before + behind)[other:],
        f"digit {digit}": data[:digit] + str(draw.randrange(10)).encode() + data[digit + 1 :],
        f"{at}+{size} at the end": data + part,
    }
    return draw.choice(list(results.items()))


def edited(text: str, draw: random.Random) -> tuple[str, str]:
    """Return what was done to a lock by a hand that keeps it JSON, and the result."""
    document = json.loads(text)
    lines = document[draw.choice(("rows", "rows", "rows", "devices"))]
    line = draw.choice(list(lines.values()) if isinstance(lines, dict) else lines)
    places: list[tuple[object, object]] = []

    def walk(value: object) -> None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(item, dict | list):
                walk(item)

    walk(line)
    value, key = draw.choice(places)
    match value[key]:
        case bool() as found:
            new: object = not found
        case int() | float() as found:
            new = found * draw.choice((0.5, 0.99, 2)) + draw.choice((0, 1))
        case str() as found:
            new = found[::-1] + draw.choice(("", "0"))
        case list() as found:
            new = found[:-1]
        case _:
            new = {}
    value[key] = new
    return f"{key}: {new!r:.40}", json.dumps(document)


def of_locks(count: int, draw: random.Random, folder: Path) -> Iterator[Tried]:
    """Damage locks."""
    file = folder / "pretuned.lock.json"
    for number in range(count):
        original = ROOT / LOCKS[number % len(LOCKS)]
        good = lockfile.read(original)
        if number % 3:
            name, data = damaged(original.read_bytes(), draw)
        else:
            name, text = edited(original.read_text(encoding="utf-8"), draw)
            data = text.encode()
        file.write_bytes(data)
        failures = []
        try:
            found = lockfile.read(file)
        except LockError:
            pass
        except Exception:  # noqa: BLE001 - this is what is looked for
            failures.append((TRACEBACK, traceback.format_exc()[-300:]))
        else:
            if not set(found.rows) <= set(good.rows) or not found.devices.items() <= good.devices.items():
                failures.append((WRONG, "a row or device that was never written is taken"))
        yield Tried(line="lock", name=name, failures=tuple(failures))


Entries = dict[str, object]


def entries(cache: Cache, keys: list[tuple[str, str]]) -> Entries:
    """Return what a cache has."""
    read: dict[str, Callable[[str], object]] = {
        "outcome": cache.outcome,
        "record": cache.record,
        "binary": cache.binary,
    }
    return {f"{kind}:{key}": read[kind](key) for kind, key in keys}


def judged(folder: Path, keys: list[tuple[str, str]], good: Entries) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a damaged cache."""
    try:
        with Cache(folder) as cache:
            found = entries(cache, keys)
            cache.put_record("new", {"a": 1})
            if cache.path is not None and cache.record("new") not in ({"a": 1}, None):
                yield WRONG, "a new entry is another"
    except Exception:  # noqa: BLE001 - this is what is looked for
        yield TRACEBACK, traceback.format_exc()[-300:]
    else:
        wrong = [key for key, value in found.items() if value is not None and value != good[key]]
        if wrong:
            yield WRONG, f"{wrong[0]} is taken"


def of_caches(count: int, draw: random.Random, folder: Path, *, file: bool) -> Iterator[Tried]:
    """Damage a cache as a file, or the values in it."""
    base = bases(folder, [""])[""].cache
    connection = sqlite3.connect(base / FILE)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    keys = [tuple(key.split(":", 1)) for (key,) in connection.execute("SELECT key FROM entries")]
    connection.close()
    with Cache(base) as cache:
        good = entries(cache, keys)
    for _ in range(count):
        area = folder / "cache"
        shutil.rmtree(area, ignore_errors=True)
        shutil.copytree(base, area)
        if file:
            name, data = damaged((area / FILE).read_bytes(), draw)
            (area / FILE).write_bytes(data)
        else:
            name = spoilt(area / FILE, draw)
        failures = tuple(judged(area, keys, good))
        yield Tried(line="cache, its file" if file else "cache, its entries", name=name, failures=failures)


def spoilt(file: Path, draw: random.Random) -> str:
    """Change one value in SQLite, or put it under another's key, and return what was done."""
    connection = sqlite3.connect(file, isolation_level=None)
    rows = connection.execute("SELECT key, value FROM entries").fetchall()
    (key, value), (other, _) = draw.choice(rows), draw.choice(rows)
    if draw.random() < 0.3:
        connection.execute("UPDATE entries SET value = ? WHERE key = ?", (value, other))
        name = f"{key} under {other}"
    else:
        name, data = damaged(value.encode(), draw)
        text = data.decode(errors="replace") if draw.random() < 0.8 else data
        connection.execute("UPDATE entries SET value = ? WHERE key = ?", (text, key))
    connection.close()
    return name


def of_usage(count: int, draw: random.Random, folder: Path) -> Iterator[Tried]:
    """Damage usage files."""
    line = {"format": 1, "package": "tiny.tuned", "kernel": "axpy", "specialisation": {"T": "float32"}}
    text = "".join(json.dumps(line | {"dims": {"n": 2**n}, "calls": n}) + "\n" for n in range(1, 20))
    file = folder / "usage"
    for _ in range(count):
        name, data = damaged(text.encode(), draw)
        file.write_bytes(data)
        failures = []
        try:
            called = [found for found in usage.read(file) if isinstance(found, usage.Called)]
            failures += [(WRONG, str(one)) for one in called if one.calls < 1 or min(one.dims.values(), default=0) < 0]
        except Exception:  # noqa: BLE001 - this is what is looked for
            failures.append((TRACEBACK, traceback.format_exc()[-300:]))
        yield Tried(line="usage", name=name, failures=tuple(failures))


def run(count: int, draw: random.Random) -> Iterator[Tried]:
    """Try `count` damages."""
    numbers = {line: round(count * share) for line, share in SHARES.items()}
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        yield from of_locks(numbers["lock"], draw, folder)
        yield from of_usage(numbers["usage"], draw, folder)
        for line, whole in (("cache, its file", True), ("cache, its entries", False)):
            own = folder / f"{whole}"
            own.mkdir()
            yield from of_caches(numbers[line], draw, own, file=whole)


if __name__ == "__main__":
    main("damage", __doc__ or "", run, count=4000)
