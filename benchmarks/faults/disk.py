"""Every n-th call that writes fails: `python benchmarks/faults/disk.py`.

A preload library fails the n-th open, write, fsync, truncation, rename, mkdir, unlink or chmod of a command and its
children, once or from then on, with ENOSPC, EIO, EROFS or EINTR (that one once only: Python repeats the call as long as
it is interrupted). Afterwards what was there before must be whole, and the next run without faults must end as a run
that never failed: the same bytes, nothing left behind.
"""

from __future__ import annotations

import errno
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from operations import (
    WHEEL,
    Operation,
    bases,
    no_cache,
    older_package,
    one_row_less,
    preloaded,
    rehearsed,
    sound,
    stale_wheels,
    two_locks,
)
from project import BAKE, HATCHLING, LOCK, MODULE, SETUPTOOLS, SETUPTOOLS_BACKEND, TUNE, Area, Done, content
from table import LOST, OTHER, WRONG, Tried, main, wanted

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EINTR)
CACHED = "tune, all is in the cache"
SCOPE = ("project", "cache", "tmp")  # the folders in which calls fail
MERGE = ("merge", "a.json", "b.json", "-o", "merged.json")


OPERATIONS = (
    Operation(
        name=CACHED,
        command=TUNE,
        share=0.35,
        output=LOCK,
        prepare=one_row_less,
    ),
    Operation(
        name="tune from nothing",
        command=TUNE,
        share=0.05,
        output=LOCK,
        prepare=no_cache,
    ),
    Operation(
        name="bake over a package",
        command=BAKE,
        share=0.3,
        output=MODULE,
        prepare=older_package,
    ),
    Operation(
        name="merge",
        command=MERGE,
        share=0.14,
        output="merged.json",
        prepare=two_locks,
    ),
    Operation(
        name="wheel, Hatch",
        command=("wheel", HATCHLING),
        share=0.08,
        output=WHEEL,
        prepare=stale_wheels,
    ),
    Operation(
        name="wheel, setuptools",
        command=("wheel", SETUPTOOLS_BACKEND),
        share=0.08,
        output=WHEEL,
        table=SETUPTOOLS,
        prepare=stale_wheels,
    ),
)


def faulty(area: Area, **settings: object) -> dict[str, str]:
    """Return the environment in which calls fail; `settings` are those of preload.c without FAULT_."""
    counter = area.root / "counter"
    counter.write_bytes(bytes(8))
    return {
        "FAULT_SCOPE": ":".join(f"{area.root / name}/" for name in SCOPE),
        "FAULT_COUNTER": str(counter),
        **{f"FAULT_{name.upper()}": str(value) for name, value in settings.items()},
    }


def calls(area: Area) -> int:
    """Return how many calls were counted."""
    return int.from_bytes((area.root / "counter").read_bytes(), "little")


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


def run(count: int, draw: random.Random) -> Iterator[Tried]:
    """Try `count` faults over all operations."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        prepared = bases(folder)
        for operation in filter(lambda one: wanted(one.name), OPERATIONS):
            good = rehearsed(operation, prepared[operation.table], folder, lambda area: faulty(area, n=0))
            total, share = calls(good.area), max(1, round(count * operation.share))
            print(f"{operation.name}: {total} calls, {share} faults", flush=True)
            for _ in range(share):
                n, number = draw.randint(1, total), draw.choice(ERRORS)
                sticky = int(number != errno.EINTR and draw.random() < 0.5)
                area = good.start.copy(folder / "area")
                extra = faulty(area, n=n, errno=number, sticky=sticky)
                done = area.run(*operation.command, extra=extra)
                kind = errno.errorcode[number] + (" for good" if sticky else "")
                failures = tuple(verdict(area, operation, good.before, good.after, done))
                yield Tried(line=operation.name, name=f"call {n}, {kind}, status {done.status}", failures=failures)


if __name__ == "__main__":
    preloaded()
    main("disk", __doc__ or "", run, count=400)
