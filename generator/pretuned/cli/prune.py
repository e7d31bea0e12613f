"""`pretuned prune`: take devices, kernels or stale rows out of the lock."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from pretuned.api.projects import opened, specs_of
from pretuned.build.freshness import Freshness, in_numbers
from pretuned.cli.project import console
from pretuned.config import GPU, Project
from pretuned.errors import ExitCode, UsageError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Key, Lock
from pretuned.runtime.text import no_such
from pretuned.spec.space import Problem


def run(options: Namespace) -> ExitCode:
    """Remove the rows, selections and skipped problems that fit all options given, and print how many those were."""
    if not (options.device or options.kernel or options.stale):
        raise UsageError("name what to remove: --device NAME, --kernel NAME, --stale, or several that must all fit")
    project, _ = opened(options.project, options.on or GPU)
    lock = lockfile.read(project.lock)
    if not lock.keys:
        console.info(f"{project.lock.name}: no rows, so nothing to remove")
        return ExitCode.SUCCESS
    kernels = {key[0] for key in lock.keys}
    _require("device", options.device, lock.devices)
    _require("kernel", options.kernel, kernels)
    gone = set(_chosen(options, project, lock))
    for line in _lines(gone):
        print(line)
    with lockfile.updating(project.lock):
        kept = lockfile.read(project.lock).without(gone)
        changed = lockfile.write(project.lock, kept) if gone else False
    left = in_numbers(len(kept.rows), len(kept.selections))
    console.info(f"{project.lock.name}: " + (f"{left} left" if changed else "nothing to remove"))
    return ExitCode.SUCCESS


def _require(what: str, asked: Iterable[str] | None, known: Collection[str]) -> None:
    for name in asked or ():
        if name not in known:
            raise UsageError(no_such(what, name, known, of="the lock"))


def _chosen(options: Namespace, project: Project, lock: Lock) -> Iterator[Key]:
    stale = {found.key for found in Freshness(specs_of(project)).status(lock).stale} if options.stale else set()
    for key in lock.keys:
        kernel, device, _ = key
        of_device = not options.device or device in options.device
        of_kernel = not options.kernel or kernel in options.kernel
        if of_device and of_kernel and (not options.stale or key in stale):
            yield key


def _lines(gone: Iterable[Key]) -> Iterator[str]:
    counts = Counter((kernel, device, isinstance(where, Problem)) for kernel, device, where in gone)
    for kernel, device in sorted({key[:2] for key in counts}):
        yield f"{kernel} on {device}: {in_numbers(*(counts[kernel, device, kind] for kind in (True, False)))} removed"
