"""`pretuned check`: are the specs sound and the lock fresh?"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pretuned.backends import lock_path
from pretuned.bake.plan import OLDEST, number_of
from pretuned.build.contract import compare_specs
from pretuned.build.freshness import Freshness, Unfresh
from pretuned.build.table import unlockable
from pretuned.cli.project import console, project_of, specs_of
from pretuned.config import Project, read_settings
from pretuned.config.toml import spelled
from pretuned.errors import ExitCode, SpecError, counted
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.report.text import columns
from pretuned.spec.model import KernelSpec
from pretuned.spec.scalars import alike

WORDS = ("stale", "missing", "unverified", "incomplete")  # from the worst on


def run(options: Namespace) -> ExitCode:
    """Print what of the lock is not fresh, and why, by kernel; the status is 0 where `locked` takes it, or LOCK.

    With `--verbose` each row is named.
    """
    project = project_of(options)
    if options.on is not None:
        project = replace(project, lock=lock_path(project.lock, options.on.backend))
    specs = specs_of(project, options.kernel)
    lock = lockfile.read(project.lock)
    if options.kernel:
        lock = lock.without(key for key in lock.keys if key[0] not in specs)
    _warn_of_swaps(specs.values())
    _demand_contract(project, specs, lock)
    found = list(Freshness(specs).unfresh(lock, lock.devices))
    unfit = unlockable(project, lock)
    fresh = bool(lock.rows) and not found and not unfit
    if options.json:
        findings = list(map(_json, found))
        print(json.dumps({"fresh": fresh, "rows": len(lock.rows), "findings": findings, "unfit": unfit}, indent=2))
    elif fresh:
        print(f"{project.lock.name}: {counted(len(lock.rows), 'row')} for {', '.join(lock.devices)}, all fresh")
    elif not lock.rows:
        print(f"{project.lock.name}: no rows; run `pretuned tune` on a machine with a GPU")
    elif not found:
        rows = counted(len(lock.rows), "row")
        print(f"{project.lock.name}: {rows}, all fresh, but mode locked does not take them: {unfit}")
    else:
        print("\n".join(map(str, found) if options.verbose else columns(list(_by_kernel(lock, found)), frozenset({2}))))
        print(f"{project.lock.name}: {_not_fresh(lock, found)}; run `pretuned tune`")
    return ExitCode.SUCCESS if fresh else ExitCode.LOCK


def _not_fresh(lock: Lock, found: Sequence[Unfresh]) -> str:
    """Return `3 of 36 rows and 1 of 4 selections are not fresh, 2 missing`."""
    rules = sum(finding.problem is None for finding in found)
    missing = sum(finding.state is None for finding in found)
    parts = [f"{len(found) - missing - rules} of {len(lock.rows)} rows"]
    parts += [f"{rules} of {counted(len(lock.selections), 'selection')}"] if rules else []
    return f"{' and '.join(parts)} are not fresh" + (f", {missing} missing" if missing else "")


def _warn_of_swaps(specs: Iterable[KernelSpec]) -> None:
    """Warn of scalars whose parameters could be swapped without a wrong result."""
    for spec in specs:
        names = [argument.name for argument in spec.arguments]
        for argument, other in alike(spec):
            console.warning(
                f"tuning passes '{argument.name}' and '{other.name}' the same {argument.dtype}, "
                f"{spelled(argument.value)}, so that it would not see them swapped",
                place=f"{spec.file}: arguments[{names.index(argument.name)}].value",
                remedy="write different values",
            )


def _demand_contract(project: Project, specs: Mapping[str, KernelSpec], lock: Lock) -> None:
    """Raise SpecError where a kernel does not take what its launches pass; report what cannot be compared here."""
    gpus = [device.architecture for device in lock.devices.values() if device.is_gpu]
    oldest = min(map(number_of, (*gpus, *project.architectures)), default=OLDEST)
    compared = compare_specs(specs.values(), read_settings().cache, oldest)
    if isinstance(compared, str):
        console.info(f"kernels were not compared with their specs: {compared}")
        return
    if compared.faults:
        raise SpecError(compared.faults[key] for key in sorted(compared.faults))
    for name, reason in compared.unknown.items():
        console.warning(f"its kernels were not compared with it, since they do not compile: {reason}", place=name)


def _by_kernel(lock: Lock, found: Sequence[Unfresh]) -> Iterator[tuple[str, ...]]:
    """Yield one line per kernel and device: how many rows are in which state, and the worst one's reason."""
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
        worst = min(wrong, key=lambda finding: WORDS.index(finding.word), default=None)
        yield kernel, device, str(rows), state, worst.reason if worst is not None else ""


def _json(finding: Unfresh) -> dict[str, object]:
    return {
        "kernel": finding.kernel,
        "device": finding.device,
        "specialisation": dict(finding.specialisation),
        "problem": None if finding.problem is None else dict(finding.problem.dims),
        "state": finding.word,
        "reason": finding.reason,
    }
