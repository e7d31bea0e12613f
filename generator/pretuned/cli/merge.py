"""`pretuned merge`: the locks of several machines into one."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from pretuned.api.projects import specs_of
from pretuned.build.freshness import in_numbers
from pretuned.cli.project import console, here
from pretuned.config import Project
from pretuned.errors import ExitCode, UsageError, counted
from pretuned.record import lock as lockfile
from pretuned.record.freshness import FreshnessJudge, State
from pretuned.record.merge import Judged, LockSource, Merged, merge

RULES: Final = (
    "measured, not skipped",
    "freshness",
    "noise or certificate",
    "effort",
    "date",
    "time or loss",
    "order of lines",
)


def run(options: Namespace) -> ExitCode:
    """Write what the locks say together, and print what had to be decided between them.

    Without `--output` the project's own lock takes part, first, and is written.
    """
    project = here(options)
    output = options.output
    files = list(options.locks)
    if output is None:
        if project is None:
            raise UsageError("name a file with --output: there is no project here whose lock could be written")
        output = project.lock
        files = [output, *files] if output.is_file() else files
    own = None if project is None else project.lock
    with lockfile.updating(output):
        found = merge([_source(file, own) for file in _distinct(files)], _judge(project))
        changed = lockfile.write(output, found.lock)
    if options.json:
        conflicts = [asdict(conflict) for conflict in found.conflicts]
        taken = [asdict(one) for one in found.taken]
        told = {"given": found.given, "taken": taken, "conflicts": conflicts, "notes": found.notes}
        print(json.dumps(told, indent=2))
    else:
        print("\n".join([*map(str, found.conflicts), *found.notes, *_taken(found), _sum(found)]))
    if project is None:
        console.info("there is no project here, so rows were not judged by its specs")
    console.info(f"{output.name}: " + ("written" if changed else "has all of it, nothing to write"))
    return ExitCode.SUCCESS


def _distinct(files: list[Path]) -> list[Path]:
    return list({file.resolve(): file for file in files}.values())


def _source(file: Path, own: Path | None) -> LockSource:
    if not file.is_file():
        raise UsageError(f"there is no lock '{file}'")
    return LockSource(name=file.name if file == own else str(file), lock=lockfile.read(file))


def _judge(project: Project | None) -> Callable[[Judged], State]:
    """Return how rows and selections stand to the project's specs; without a project all are alike."""
    if project is None:
        return lambda _entry: State.FRESH
    judges = {name: FreshnessJudge(spec) for name, spec in specs_of(project).items()}
    return lambda entry: judges[entry.kernel].judge(entry).state if entry.kernel in judges else State.STALE


def _taken(found: Merged) -> Iterator[str]:
    """Yield what stands of each lock, device by device, and how much of it made way."""
    for one in found.taken:
        skipped = f", {counted(one.skipped, 'problem')} skipped" if one.skipped else ""
        dropped = f"; {counted(one.dropped, 'line')} made way" if one.dropped else ""
        yield f"{one.source}: {in_numbers(one.rows, one.selections)} of {one.device}{skipped}{dropped}"


def _sum(found: Merged) -> str:
    lines = in_numbers(len(found.lock.rows), len(found.lock.selections))
    given = ", ".join(f"{count} from {name}" for name, count in found.given.items())
    devices = ", ".join(found.lock.devices) or "no device"
    rules = Counter(RULES[conflict.rule] for conflict in found.conflicts)
    decided = f" ({', '.join(f'{count} by {rule}' for rule, count in sorted(rules.items()))})" if rules else ""
    return f"{lines} for {devices}: {given}; {counted(len(found.conflicts), 'conflict')}{decided}"
