"""Every n-th call that writes fails: `python benchmarks/faults/disk.py`.

A preload library fails the n-th open, write, fsync, truncation, rename, mkdir, unlink or chmod of a command and its
children, once or from then on, with ENOSPC, EIO, EROFS or EINTR (that one once only: Python repeats the call as long as
it is interrupted). Afterwards what was there before must be whole, and the next run without faults must end as a run
that never failed: the same bytes, nothing left behind.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from project import BAKE, HATCHLING, LOCK, SETUPTOOLS, SETUPTOOLS_BACKEND, TUNE, Area, Done, content
from table import LOST, OTHER, WRONG, Tried, main, wanted

from pretuned.errors import LockError
from pretuned.record import lock as lockfile

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EINTR)
CACHED = "tune, all is in the cache"
MERGE = ("merge", "a.json", "b.json", "-o", "merged.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A command, its share of the faults, what it replaces, the folders in which calls fail, and how to prepare it."""

    name: str
    command: tuple[str, ...]
    share: float
    output: str
    scope: tuple[str, ...]
    table: str = ""
    prepare: Callable[[Area], None] = lambda _area: None


def one_row_less(area: Area) -> None:
    """Take a row out of the lock, so that a tuning has one to put in, from the cache."""
    lines = area.lock.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [number for number, line in enumerate(lines) if line.startswith('{"kernel"')]
    del lines[rows[0]]
    area.lock.write_text("".join(lines), encoding="utf-8")


def no_cache(area: Area) -> None:
    """Leave neither a lock nor anything measured."""
    area.lock.unlink()
    shutil.rmtree(area.cache)
    area.cache.mkdir()


def older_package(area: Area) -> None:
    """Change the package that is there."""
    file = area.package / "__init__.py"
    file.write_text(file.read_text(encoding="utf-8") + "# an older one\n", encoding="utf-8")


def two_locks(area: Area) -> None:
    """Split the lock in two, and put an older result in the way."""
    lines = area.lock.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [number for number, line in enumerate(lines) if line.startswith('{"kernel"')]
    for name, dropped in (("a.json", rows[0]), ("b.json", rows[1])):
        kept = [line for number, line in enumerate(lines) if number != dropped]
        text = "".join(kept).replace("},\n],", "}\n],").replace("},\n]\n", "}\n]\n")
        (area.project / name).write_text(text, encoding="utf-8")
    (area.project / "merged.json").write_bytes((area.project / "a.json").read_bytes())


def stale_wheels(area: Area) -> None:
    """Begin without a build folder."""
    for name in ("dist", "build"):
        shutil.rmtree(area.project / name, ignore_errors=True)


OPERATIONS = (
    Operation(
        name=CACHED,
        command=TUNE,
        share=0.35,
        output=LOCK,
        scope=("project", "cache", "tmp"),
        prepare=one_row_less,
    ),
    Operation(
        name="tune from nothing",
        command=TUNE,
        share=0.05,
        output=LOCK,
        scope=("project", "cache", "tmp"),
        prepare=no_cache,
    ),
    Operation(
        name="bake over a package",
        command=BAKE,
        share=0.3,
        output="src/tiny/tuned",
        scope=("project", "cache", "tmp"),
        prepare=older_package,
    ),
    Operation(
        name="merge",
        command=MERGE,
        share=0.14,
        output="merged.json",
        scope=("project", "cache", "tmp"),
        prepare=two_locks,
    ),
    Operation(
        name="wheel, Hatch",
        command=("wheel", HATCHLING),
        share=0.08,
        output="dist/tiny-1-py3-none-any.whl",
        scope=("project", "cache", "tmp"),
        prepare=stale_wheels,
    ),
    Operation(
        name="wheel, setuptools",
        command=("wheel", SETUPTOOLS_BACKEND),
        share=0.08,
        output="dist/tiny-1-py3-none-any.whl",
        scope=("project", "cache", "tmp"),
        table=SETUPTOOLS,
        prepare=stale_wheels,
    ),
)


def library(folder: Path) -> Path:
    """Compile the preload library."""
    made = folder / "preload.so"
    source = Path(__file__).with_name("preload.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", str(source), "-o", str(made), "-ldl"], check=True)
    return made


def faulty(area: Area, scope: tuple[str, ...], **settings: object) -> dict[str, str]:
    """Return the environment in which calls fail; `settings` are those of preload.c without FAULT_."""
    counter = area.root / "counter"
    counter.write_bytes(bytes(8))
    return {
        "FAULT_SCOPE": ":".join(f"{area.root / name}/" for name in scope),
        "FAULT_COUNTER": str(counter),
        **{f"FAULT_{name.upper()}": str(value) for name, value in settings.items()},
    }


def calls(area: Area) -> int:
    """Return how many calls were counted."""
    return int.from_bytes((area.root / "counter").read_bytes(), "little")


def bases(folder: Path) -> dict[str, Area]:
    """Return by table a project that was tuned and baked."""
    found = {}
    for number, table in enumerate(("", SETUPTOOLS)):
        area = Area(folder / f"base{number}")
        area.create(*([table] if table else []))
        for command in (TUNE, BAKE):
            done = area.run(*command)
            if done.status:
                raise SystemExit(f"{command}: {done.output}")
        found[table] = area
    return found


def verdict(area: Area, operation: Operation, before: str, after: str, done: Done) -> Iterator[tuple[str, str]]:
    """Yield what is wrong after a command that met faults, and after the next one that met none."""
    yield from done.failures()
    yield from area.children()
    output = area.project / operation.output
    now = content(output)
    # Without its cache a tuning measures, and other times make another lock, which has to be as good.
    measured = operation.command == TUNE and now not in {before, after} and sound(area, fresh=done.status == 0)
    if now not in {before, after} and not measured:
        yield LOST, f"{operation.output} is neither the old nor the new one"
    elif done.status == 0 and now != after and not measured:
        yield WRONG, f"status 0, and {operation.output} is not the new one"
    if operation.output.startswith("dist"):
        stale_wheels(area)
    healed = area.run(*operation.command)
    yield from healed.failures()
    if healed.status != 0:
        yield OTHER, f"the next run has status {healed.status}: {healed.output[-200:]}"
    elif content(output) != after and not (operation.command == TUNE and sound(area, fresh=True)):
        yield WRONG, f"the next run gives another {operation.output}"
    elif operation.name == CACHED and not measured and content(output) != after:
        yield LOST, "what was in the cache was measured again"
    yield from area.litter()


def sound(area: Area, *, fresh: bool) -> bool:
    """Return whether the lock can be read and, with `fresh`, is."""
    try:
        lockfile.read(area.lock)
    except LockError:
        return False
    return not fresh or area.run("check", "--on", "host").status == 0


def run(count: int, draw: random.Random) -> Iterator[Tried]:
    """Try `count` faults over all operations."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        prepared = bases(folder)
        for operation in filter(lambda one: wanted(one.name), OPERATIONS):
            start = prepared[operation.table].copy(folder / "start")
            operation.prepare(start)
            before = content(start.project / operation.output)
            good = start.copy(folder / "area")
            done = good.run(*operation.command, extra=faulty(good, operation.scope, n=0))
            after = content(good.project / operation.output)
            if done.status or not after or before == after:
                raise SystemExit(f"{operation.name}: {done}")
            total, share = calls(good), max(1, round(count * operation.share))
            print(f"{operation.name}: {total} calls, {share} faults", flush=True)
            for _ in range(share):
                n, number = draw.randint(1, total), draw.choice(ERRORS)
                sticky = int(number != errno.EINTR and draw.random() < 0.5)
                area = start.copy(folder / "area")
                extra = faulty(area, operation.scope, n=n, errno=number, sticky=sticky)
                done = area.run(*operation.command, extra=extra)
                kind = errno.errorcode[number] + (" for good" if sticky else "")
                failures = tuple(verdict(area, operation, before, after, done))
                yield Tried(line=operation.name, name=f"call {n}, {kind}, status {done.status}", failures=failures)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="faults-") as made:
        if "LD_PRELOAD" not in os.environ:  # forks of this process are what fails
            again = [sys.executable, *sys.argv]
            status = subprocess.run(again, env={**os.environ, "LD_PRELOAD": str(library(Path(made)))}, check=False)
            raise SystemExit(status.returncode)
    main("disk", __doc__ or "", run, count=400)
