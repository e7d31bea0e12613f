"""kill -9 at random moments: `python benchmarks/faults/kills.py`.

A tuning, a bake or a build is killed at a moment drawn from its whole time; also one of two that run at once. Its
children must be gone, what was there before must be whole, the other of the two must end well, and the next run must
go on: rows that were settled before the kill stand in the lock byte for byte, and nothing is left behind.
"""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from operations import WHEEL, Operation, bases, no_cache, older_package, rehearsed, sound, stale_wheels
from project import BAKE, HATCHLING, LOCK, MODULE, TUNE, Area, content
from table import LOST, OTHER, WRONG, Tried, main, wanted

from pretuned.record import lock as lockfile
from pretuned.record.cache import FILE
from pretuned.record.entries import row_from_json

OPERATIONS = (
    Operation(name="tune", command=TUNE, share=0.2, output=LOCK, prepare=no_cache),
    Operation(name="bake", command=BAKE, share=0.4, output=MODULE, prepare=older_package),
    Operation(name="wheel", command=("wheel", HATCHLING), share=0.2, output=WHEEL, prepare=stale_wheels),
    Operation(name="one of two tunes", command=TUNE, share=0.1, output=LOCK, prepare=no_cache, two=True),
    Operation(name="one of two bakes", command=BAKE, share=0.1, output=MODULE, prepare=older_package, two=True),
)


def settled(area: Area) -> set[str]:
    """Return the lines of the rows that the cache has; a selection has choices too, and no problem."""
    if not (area.cache / FILE).is_file():
        return set()
    connection = sqlite3.connect(area.cache / FILE)
    try:
        values = connection.execute("SELECT value FROM entries WHERE kind = 'record'").fetchall()
    except sqlite3.OperationalError:  # killed before it made the table
        return set()
    finally:
        connection.close()
    found = (json.loads(value.partition(" ")[2]) for (value,) in values)
    return {lockfile.row_line(row_from_json(data)) for data in found if {"problem", "choices"} <= data.keys()}


def verdict(area: Area, operation: Operation, before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong after a kill, and after the next run."""
    yield from area.children()
    output = area.project / operation.output
    tunes = operation.command == TUNE
    now = content(output)
    if tunes and not sound(area, fresh=False):
        yield LOST, "the lock is damaged"
    elif not tunes and operation.output != WHEEL and now not in {before, after}:
        yield LOST, f"{operation.output} is neither the old nor the new one"
    rows = settled(area) if tunes else set()
    if operation.output == WHEEL:
        stale_wheels(area)
    healed = area.run(*operation.command)
    yield from healed.failures()
    if healed.status != 0:
        yield OTHER, f"the next run has status {healed.status}: {healed.output[-200:]}"
    elif tunes and not sound(area, fresh=True):
        yield WRONG, "the next run gives a lock that is not fresh"
    elif not tunes and content(output) != after:
        yield WRONG, f"the next run gives another {operation.output}"
    if tunes:
        lines = {line.rstrip(",") for line in area.lock.read_text(encoding="utf-8").splitlines()}
        if lost := rows - lines:
            yield LOST, f"{len(lost)} of {len(rows)} settled rows were measured again"
    yield from area.litter()


def run(count: int, draw: random.Random) -> Iterator[Tried]:
    """Kill `count` commands."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        base = bases(folder, [""])[""]
        for operation in filter(lambda one: wanted(one.name), OPERATIONS):
            good = rehearsed(operation, base, folder)
            share = max(1, round(count * operation.share))
            print(f"{operation.name}: {good.took_s:.1f} s, {share} kills", flush=True)
            for _ in range(share):
                area = good.start.copy(folder / "area")
                moment = draw.uniform(0, good.took_s * (1.3 if operation.two else 1.05))
                killed = area.start(*operation.command)
                other = area.start(*operation.command) if operation.two else None
                status = killed.ended(moment)
                if status is None:
                    killed.kill()
                failures: list[tuple[str, str]] = []
                if other is not None:
                    ended = other.end()
                    failures += ended.failures()
                    if ended.status not in {0, None}:
                        failures.append((OTHER, f"the other one has status {ended.status}: {ended.output[-200:]}"))
                failures += verdict(area, operation, good.before, good.after)
                when = f"killed after {moment:.2f} s" if status is None else "had ended"
                yield Tried(line=f"kill -9, {operation.name}", name=when, failures=tuple(failures))


if __name__ == "__main__":
    main("kills", __doc__ or "", run, count=200)
