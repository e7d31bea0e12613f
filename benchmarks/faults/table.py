"""The table of the fault campaigns: what was tried, what went wrong of it, and where it was run.

A campaign is a script of this folder: a generator of `Tried`, one a fault, handed to `main`. It prints its lines and
each failure as it comes; with `--write` its lines replace those that it had in benchmarks/results/faults.txt. Copies of
the sources can run at once, each with a seed of its own: `python benchmarks/faults/table.py RESULTS...` puts the sums
of their lines in the place of ours.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "faults.txt"

LOST = "lost"  # what was there before, or had been measured, is gone or damaged
WRONG = "wrong"  # a wrong row, binary or package was accepted
HUNG = "hung"  # no end within the limit, or a process that stays
TRACEBACK = "traceback"  # of pretuned, instead of a message
LEFT = "left"  # a file or folder stays behind after the next run
OTHER = "other"  # a wrong exit status or message, or no recovery
KINDS = (LOST, WRONG, HUNG, TRACEBACK, LEFT, OTHER)
HEAD = ("campaign", "faults", "tried", *KINDS)
_FOOT = "run by:"
_only = [""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One fault: the line of the table that it counts in, how to name it, and what went wrong, by kind."""

    line: str
    name: str
    failures: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, kw_only=True)
class Counts:
    """The counts of one line."""

    tried: int = 0
    failed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))


Run = Callable[[int, random.Random], Iterator[Tried]]


def main(name: str, doc: str, run: Run, *, count: int) -> None:
    """Run a campaign from the command line; ends with status 1 if anything went wrong.

    `run` gets how many faults to try and a seeded generator, and yields what became of each.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=count, help=f"how many faults to try (default: {count})")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="those lines of the table that have this in their name")
    parser.add_argument("--write", action="store_true", help=f"put the table into {RESULTS.relative_to(ROOT)}")
    options = parser.parse_args()
    _only.append(options.only)
    os.nice(10)
    started = time.monotonic()
    lines = tally(run(options.count, random.Random(options.seed)))
    print(text([row(name, what, counts) for what, counts in lines.items()]))
    if options.write:
        command = f"python benchmarks/faults/{Path(sys.argv[0]).name} --count {options.count} --seed {options.seed}"
        if options.only:
            command += f" --only '{options.only}'"
        write(name, lines, f"{name}: {command}; {time.monotonic() - started:.0f} s; {provenance()}")
    if any(sum(counts.failed.values()) for counts in lines.values()):
        raise SystemExit(1)


def wanted(line: str) -> bool:
    """Return whether `--only` leaves a line of the table in."""
    return _only[-1] in line


def tally(found: Iterable[Tried]) -> dict[str, Counts]:
    """Count what was tried by line, and print every failure."""
    lines: dict[str, Counts] = {}
    for one in found:
        counts = lines.setdefault(one.line, Counts())
        counts.tried += 1
        for kind in {kind for kind, _ in one.failures}:
            counts.failed[kind] += 1
        for kind, what in one.failures:
            print(f"{kind}: {one.line}: {one.name}: {what}", flush=True)
    return lines


def row(name: str, what: str, counts: Counts) -> tuple[str, ...]:
    """Return one line's cells."""
    return name, what, f"{counts.tried:,}", *(str(counts.failed[kind]) for kind in KINDS)


def text(rows: Iterable[tuple[str, ...]]) -> str:
    """Return the table of `rows`: names to the left, numbers to the right."""
    cells = [HEAD, *rows]
    widths = [max(len(one[column]) for one in cells) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if n < 2 else cell.rjust(w) for n, (cell, w) in enumerate(zip(one, widths, strict=True))
        )
        for one in cells
    )


def write(name: str, lines: dict[str, Counts], command: str) -> None:
    """Replace the lines of a campaign in the results, keep those of the others, and sum up anew."""
    kept, feet = read()
    rows = [one for one in kept if one[0] != name or (_only[-1] and one[1] not in lines)]
    rows += [row(name, what, counts) for what, counts in lines.items()]
    rows.sort(key=lambda one: one[0])
    save(rows, [foot for foot in feet if not foot.startswith(f"{name}:") or _only[-1]] + [command])


def save(rows: Sequence[tuple[str, ...]], feet: Iterable[str]) -> None:
    """Write the results, with a line that sums up all others."""
    total = ("all", "", *sums(rows))
    RESULTS.write_text("\n".join([text([*rows, total]), "", _FOOT, *sorted(feet)]) + "\n", encoding="utf-8")


def sums(rows: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the sums of the numbers in lines of the table."""
    numbers = [[int(cell.replace(",", "")) for cell in one[2:]] for one in rows]
    return tuple(f"{sum(column):,}" for column in zip(*numbers, strict=True))


def merge(files: Iterable[Path]) -> None:
    """Replace the lines that `files`, results of copies of the sources, have by the sums of theirs."""
    found: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    feet: list[str] = []
    for file in files:
        rows, commands = read(file)
        feet += commands
        for one in rows:
            found.setdefault((one[0], one[1]), []).append(one)
    kept, older = read()
    rows = [one for one in kept if (one[0], one[1]) not in found]
    older = [foot for foot in older if any(foot.startswith(f"{one[0]}:") for one in rows)]
    rows += [(*place, *sums(lines)) for place, lines in found.items()]
    save(sorted(rows, key=lambda one: one[0]), [*older, *feet])


def read(file: Path = RESULTS) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the rows and the commands of results as they are."""
    if not file.is_file():
        return [], []
    table, _, feet = file.read_text(encoding="utf-8").partition(f"\n{_FOOT}\n")
    rows = [tuple(re.split(r" {2,}", line.strip())) for line in table.splitlines()[1:] if line.strip()]
    return [one for one in rows if one[0] != "all"], feet.splitlines()


def provenance() -> str:
    """Return where and of what this was run."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    day = dt.datetime.now(dt.UTC).date()
    machine = f"{platform.system()} {platform.machine()}, {len(os.sched_getaffinity(0))} cores"
    return f"commit {commit}, {day}, Python {platform.python_version()}, {machine}"


if __name__ == "__main__":
    merge(map(Path, sys.argv[1:]))
