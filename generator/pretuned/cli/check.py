"""`pretuned check`: are the specs sound and the lock fresh?"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence

from pretuned.api.checking import CheckedProject, check_project
from pretuned.api.projects import opened
from pretuned.build.between_sizes import report_between_sizes
from pretuned.build.freshness import Freshness, Unfresh, in_numbers
from pretuned.cli.project import console
from pretuned.config import GPU, Project
from pretuned.errors import ExitCode, counted
from pretuned.record.lock import Lock
from pretuned.report.certificates import chosen, whole
from pretuned.report.text import columns

WORDS = ("stale", "missing", "unverified", "incomplete")  # from the worst on


def run(options: Namespace) -> ExitCode:
    """Print what of the lock is not fresh, and why, by kernel; the status is 0 where `locked` takes it, or LOCK.

    With `--verbose` each row is named.
    """
    project, settings = opened(options.project, options.on or GPU)
    checked = check_project(project, options.kernel, settings.cache, console)
    lock, freshness = checked.lock, Freshness(checked.specs)
    if options.json:
        print(json.dumps(checked.to_json(), indent=2))
    else:
        print("\n".join(_lines(checked, project, options)))
        report_between_sizes(project, lock, freshness, console, f"run `{_tune(options)}`")
        if project.max_loss is not None and any(not device.is_gpu for device in lock.devices.values()):
            console.info("max-loss holds GPUs alone: the host's times say nothing about one", place=project.lock.name)
    return ExitCode.SUCCESS if checked.fresh else ExitCode.LOCK


def _tune(options: Namespace) -> str:
    return "pretuned tune" + (f" --on {options.on}" if options.on is not None else "")


def _lines(checked: CheckedProject, project: Project, options: Namespace) -> Iterator[str]:
    """Yield what is wrong, and a last line that says what to do about the worst of it."""
    lock, name = checked.lock, project.lock.name
    tune = _tune(options)
    holds = in_numbers(len(lock.rows), len(lock.selections))
    if not lock.rows:
        gpu = "" if options.on is not None and options.on != GPU else " on a machine with a GPU"
        yield f"{name}: no rows; run `{tune}`{gpu}"
        return
    if checked.found:
        by_kernel = columns(list(_by_kernel(lock, checked.found)), frozenset({2}))
        yield from map(str, checked.found) if options.verbose else by_kernel
    yield from checked.lossy
    certificates = [
        (chosen(rule.kernel, rule.specialisation), rule.certificate) for rule in lock.selections if rule.certificate
    ]
    if certificates and not checked.found:
        yield f"{name}: {whole(certificates)}"
    if checked.found:
        yield f"{name}: {_not_fresh(lock, checked.found)}; run `{tune}`"
    elif checked.unfit:
        yield f"{name}: {holds}, all fresh, but mode locked does not take them: {checked.unfit}"
    elif checked.lossy:
        yield (
            f"{name}: {holds}, all fresh, but {len(checked.lossy)} not certified to keep to max-loss "
            f"({project.max_loss:g}); run `{tune}`, which refines them, or raise `max-loss` in the table"
        )
    else:
        yield f"{name}: {holds} for {', '.join(lock.devices)}, all fresh"


def _not_fresh(lock: Lock, found: Sequence[Unfresh]) -> str:
    """Return `3 of 36 rows and 1 of 4 selections are not fresh, 2 missing`."""
    rules = sum(finding.problem is None for finding in found)
    missing = sum(finding.state is None for finding in found)
    parts = [f"{len(found) - missing - rules} of {len(lock.rows)} rows"]
    parts += [f"{rules} of {counted(len(lock.selections), 'selection')}"] if rules else []
    return f"{' and '.join(parts)} are not fresh" + (f", {missing} missing" if missing else "")


def _by_kernel(lock: Lock, found: Sequence[Unfresh]) -> Iterator[tuple[str, ...]]:
    """Yield one line per kernel and device: how much is in which state, and why the worst of it is."""
    groups: dict[tuple[str, str], list[Unfresh]] = {}
    for row in lock.rows:
        groups.setdefault((row.kernel, row.device), [])
    for finding in found:
        groups.setdefault((finding.kernel, finding.device), []).append(finding)
    yield "kernel", "device", "rows", "state", "why"
    for (kernel, device), wrong in sorted(groups.items()):
        rows = sum((row.kernel, row.device) == (kernel, device) for row in lock.rows)
        counts = [(sum(finding.word == word for finding in wrong), word) for word in WORDS]
        state = ", ".join(f"{count} {word}" for count, word in counts if count) or "fresh"
        worst = min(wrong, key=lambda finding: (not finding.reason, WORDS.index(finding.word)), default=None)
        yield kernel, device, str(rows), state, worst.reason if worst is not None else ""
