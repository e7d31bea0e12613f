"""Commands on a small project: how each is prepared, what it writes, and when that is sound."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from project import BAKE, SETUPTOOLS, TUNE, Area, content

from pretuned.errors import LockError
from pretuned.record import lock as lockfile

WHEEL = "dist/tiny-1-py3-none-any.whl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A command, its share of the faults, what it writes, and how to prepare it.

    `table` is what pyproject.toml holds; empty, that of Hatch. Of `two`, another one runs at once.
    """

    name: str
    command: tuple[str, ...]
    share: float
    output: str
    prepare: Callable[[Area], None]
    table: str = ""
    two: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """An operation that met no fault: the project before it, that after it, digests of its output, and its seconds."""

    start: Area
    area: Area
    before: str
    after: str
    took_s: float


def rehearsed(
    operation: Operation, base: Area, folder: Path, extra: Callable[[Area], Mapping[str, str]] = lambda _area: {}
) -> Rehearsal:
    """Run an operation on a copy of `base`, in the environment `extra`."""
    start = base.copy(folder / "start")
    operation.prepare(start)
    before = content(start.project / operation.output)
    area = start.copy(folder / "area")
    began = time.monotonic()
    done = area.run(*operation.command, extra=extra(area))
    took_s = time.monotonic() - began
    after = content(area.project / operation.output)
    if done.status or before == after:
        raise SystemExit(f"{operation.name}: {done}")
    return Rehearsal(start=start, area=area, before=before, after=after, took_s=took_s)


def bases(folder: Path, tables: Sequence[str] = ("", SETUPTOOLS)) -> dict[str, Area]:
    """Return by table a project that was tuned and baked."""
    found = {}
    for number, table in enumerate(tables):
        area = Area(folder / f"base{number}")
        area.create(*([table] if table else []))
        for command in (TUNE, BAKE):
            done = area.run(*command)
            if done.status:
                raise SystemExit(f"{command}: {done.output}")
        found[table] = area
    return found


def sound(area: Area, *, fresh: bool) -> bool:
    """Return whether the lock can be read and, with `fresh`, is."""
    try:
        lockfile.read(area.lock)
    except LockError:
        return False
    return not fresh or area.run("check", "--on", "host").status == 0


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


def preloaded(*prefix: str) -> None:
    """Go on in a process of `prefix` that has the preload library: its forks are what fails."""
    if "LD_PRELOAD" in os.environ:
        return
    with tempfile.TemporaryDirectory(prefix="faults-") as made:
        again: Sequence[str] = [*prefix, sys.executable, *sys.argv]
        environment = {**os.environ, "LD_PRELOAD": str(_library(Path(made)))}
        raise SystemExit(subprocess.run(again, env=environment, check=False).returncode)


def _library(folder: Path) -> Path:
    """Compile the preload library."""
    made = folder / "preload.so"
    source = Path(__file__).with_name("preload.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", str(source), "-o", str(made), "-ldl"], check=True)
    return made
