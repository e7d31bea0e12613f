"""Folders of others or read-only, odd environments, a wrong clock: `python benchmarks/faults/folders.py`.

It needs root, and runs without root's right to pass over permissions. `--count` is how often all cases are tried.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from operations import bases, no_cache, older_package, one_row_less, preloaded, sound
from project import BAKE, TUNE, Area, content
from table import LOST, OTHER, Tried, main

from pretuned.record.cache import FILE

OTHER_USER = 54321
NOTHING_KEPT = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--inh-caps=-all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is done to a tuned and baked project before a command, and the statuses that are right for it."""

    line: str
    name: str
    command: tuple[str, ...]
    prepare: Callable[[Area], None]
    environment: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022
    statuses: tuple[int, ...] = (0,)


def mode(name: str, bits: int) -> Callable[[Area], None]:
    """Return what sets the mode of a folder."""
    return lambda area: (area.root / name).chmod(bits)


def of_another(bits: int, of_files: int) -> Callable[[Area], None]:
    """Return what gives the cache to another user."""

    def give(area: Area) -> None:
        for file in area.cache.iterdir():
            file.chmod(of_files)
            os.chown(file, OTHER_USER, OTHER_USER)
        area.cache.chmod(bits)
        os.chown(area.cache, OTHER_USER, OTHER_USER)

    return give


def no_database(area: Area) -> None:
    """Put a text in the place of the database, in a folder that cannot be written."""
    (area.cache / FILE).write_text("no database " * 100, encoding="utf-8")
    area.cache.chmod(0o555)


def both(*steps: Callable[[Area], None]) -> Callable[[Area], None]:
    """Return what does one step after the other."""

    def do(area: Area) -> None:
        for step in steps:
            step(area)

    return do


def nothing(_area: Area) -> None:
    """Leave it as it is."""


def a_file(name: str) -> Callable[[Area], None]:
    """Return what puts a file in the place of a folder."""

    def put(area: Area) -> None:
        shutil.rmtree(area.root / name)
        (area.root / name).write_text("mine", encoding="utf-8")

    return put


LINE, PROJECT, ODD, CLOCK = "the cache's folder", "the project's folder", "the environment", "the clock"
CASES = (
    *(
        Case(line=LINE, name=f"{what}, {command[0]}", command=command, prepare=both(first, prepare), umask=umask)
        for command, first in ((TUNE, one_row_less), (BAKE, older_package))
        for what, prepare, umask in (
            ("read-only", mode("cache", 0o555), 0o022),
            ("unreadable", mode("cache", 0o000), 0o022),
            ("not a database, read-only", no_database, 0o022),
            ("another user's, to be read", of_another(0o755, 0o644), 0o022),
            ("another user's, private", of_another(0o700, 0o600), 0o022),
            ("another user's, shared", of_another(0o777, 0o666), 0o000),
            ("shared folder, private files", of_another(0o777, 0o600), 0o077),
        )
    ),
    Case(line=LINE, name="a file", command=BAKE, prepare=a_file("cache"), statuses=(3,)),
    Case(
        line=PROJECT,
        name="read-only, tune",
        command=TUNE,
        prepare=both(one_row_less, mode("project", 0o555)),
        statuses=(10,),
    ),
    Case(
        line=PROJECT,
        name="read-only, bake",
        command=BAKE,
        prepare=both(older_package, mode("project/src/tiny", 0o555)),
        statuses=(10,),
    ),
    Case(
        line=PROJECT,
        name="read-only, merge",
        command=("merge", "pretuned.lock.host.json", "-o", "x/y.json"),
        prepare=mode("project", 0o555),
        statuses=(10,),
    ),
    Case(
        line=PROJECT,
        name="the lock is a folder",
        command=BAKE,
        prepare=lambda area: (area.lock.unlink(), area.lock.mkdir())[1],
        statuses=(4,),
    ),
    Case(
        line=PROJECT,
        name="the lock cannot be read",
        command=BAKE,
        prepare=lambda area: area.lock.chmod(0),
        statuses=(4,),
    ),
    Case(
        line=PROJECT,
        name="a spec cannot be read",
        command=BAKE,
        prepare=mode("project/kernels/axpy.toml", 0),
        statuses=(2, 10),
    ),
    Case(
        line=PROJECT,
        name="--output is a file",
        command=(*BAKE, "--output", "pyproject.toml"),
        prepare=nothing,
        statuses=(6, 10),
    ),
    Case(
        line=PROJECT, name="--output in /proc", command=(*BAKE, "--output", "/proc/x"), prepare=nothing, statuses=(10,)
    ),
    Case(
        line=PROJECT,
        name="merge into a folder",
        command=("merge", "pretuned.lock.host.json", "-o", "src"),
        prepare=nothing,
        statuses=(10,),
    ),
    Case(
        line=PROJECT,
        name="merge below a file",
        command=("merge", "pretuned.lock.host.json", "-o", "pyproject.toml/x"),
        prepare=nothing,
        statuses=(10,),
    ),
    Case(line=ODD, name="no home", command=BAKE, prepare=nothing, environment={"HOME": ""}),
    Case(
        line=ODD,
        name="HOME=/proc, the platform's cache",
        command=BAKE,
        prepare=nothing,
        environment={"HOME": "/proc", "PRETUNED_CACHE_DIR": ""},
    ),
    Case(
        line=ODD,
        name="a cache path of 5,000 letters",
        command=BAKE,
        prepare=nothing,
        environment={"PRETUNED_CACHE_DIR": "x" * 5000},
        statuses=(3,),
    ),
    Case(
        line=ODD,
        name="a cache of ~nobodyatall",
        command=BAKE,
        prepare=nothing,
        environment={"PRETUNED_CACHE_DIR": "~nobodyatall/x"},
        statuses=(3,),
    ),
    Case(line=ODD, name="TMPDIR is missing", command=TUNE, prepare=no_cache, environment={"TMPDIR": "/nowhere"}),
    *(
        Case(
            line=CLOCK,
            name=f"{seconds:+} s, {command[0]}",
            command=command,
            prepare=prepare,
            environment={"FAULT_CLOCK": str(seconds)},
        )
        for seconds in (-3600, -10 * 365 * 86400, 86400, 10 * 365 * 86400)
        for command, prepare in ((TUNE, one_row_less), (TUNE, no_cache), (BAKE, older_package))
    ),
)


def tried(case: Case, area: Area, after: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with one case."""
    case.prepare(area)
    locked, package = content(area.lock), content(area.package)
    done = area.run(*case.command, extra=case.environment, first=lambda: os.umask(case.umask) and None)
    yield from done.failures()
    yield from area.children()
    if done.status not in case.statuses:
        yield OTHER, f"status {done.status}, not {case.statuses}: {done.output[-200:]}"
    if done.status and (content(area.lock), content(area.package)) != (locked, package):
        yield LOST, "the lock or the package has changed"
    if done.status == 0 and case.command == TUNE and not sound(area, fresh=True):
        yield LOST, "the lock is not fresh"
    if done.status == 0 and case.command == BAKE and content(area.package) != after and case.line != CLOCK:
        yield LOST, "the package is another"
    for name in ("cache", "project", "project/src/tiny"):
        if (area.root / name).is_dir():
            os.chown(area.root / name, 0, 0)
            (area.root / name).chmod(0o755)
    yield from area.litter()


def run(count: int, _draw: random.Random) -> Iterator[Tried]:
    """Try all cases `count` times."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        base = bases(folder, [""])[""]
        for _ in range(count):
            for case in CASES:
                area = base.copy(folder / "area")
                failures = tuple(tried(case, area, content(base.package)))
                yield Tried(line=case.line, name=case.name, failures=failures)


if __name__ == "__main__":
    preloaded(*NOTHING_KEPT)
    main("folders", __doc__ or "", run, count=1)
