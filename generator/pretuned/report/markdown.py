"""A report in short, as Markdown for a pull request: the devices, and what changed against another lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pretuned.errors import counted
from pretuned.report.figures.changes import ChangedRow, LockChange
from pretuned.report.figures.rows import geomean
from pretuned.report.figures.summary import DeviceSummary
from pretuned.report.project import ProjectReport

MOST_ROWS: Final = 20  # that are named: those whose times changed most
_SPECIAL: Final = "\\`*_{}[]<>()#+!|~&"


def markdown(report: ProjectReport) -> str:
    """Return the report in short; names are escaped, so that none of them is markup."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: ProjectReport) -> Iterator[str]:
    yield f"### {escaped(report.title)}: what tuning found"
    yield ""
    if not report.devices:
        yield f"{escaped(report.lock)} has no rows, so only the defaults run."
    else:
        head = ("device", "rows", "faster than the default", "geometric mean", "worst certificate (mean)", "not fresh")
        yield from _table([head, *(_device(one, known=not report.note) for one in report.devices)])
    if report.change is not None:
        yield ""
        yield from _change(report.change, report.against)
    yield ""
    yield f"From {escaped(report.lock)}, by pretuned {report.version}. Times are device microseconds a call."


def _device(one: DeviceSummary, *, known: bool) -> tuple[str, ...]:
    worst = "-"
    if one.worst is not None and one.worst.inside is not None:
        worst = f"{one.worst.inside.mean:.1%}: {escaped(one.worst.name)} (line {one.worst.at})"
    stale = ", ".join(f"{count} {word}" for word, count in one.states.items()) or ("nothing" if known else "unknown")
    missing = f"; {counted(one.missing, 'row')} missing" if one.missing else ""
    speedup = "-" if one.speedup is None else f"{one.speedup:.3f}x"
    return escaped(one.device.name), str(one.rows), str(one.faster), speedup, worst, stale + missing


def _change(change: LockChange, against: str) -> Iterator[str]:
    if change.nothing:
        yield f"Against {escaped(against)} no row differs."
        return
    factor = "" if change.factor is None else f"; winners take {change.factor:.3f} times as long (geometric mean)"
    yield (
        f"Against {escaped(against)}: {counted(len(change.added), 'row')} added, {len(change.removed)} removed, "
        f"{len(change.changed)} changed{factor}."
    )
    if change.changed:
        yield ""
        yield from _table([("kernel", "device", "rows changed", "other winners", "time"), *_by_kernel(change.changed)])
        yield ""
        largest = sorted(change.changed, key=lambda one: (-abs(one.factor - 1), one.key))[:MOST_ROWS]
        shown = f" (the {len(largest)} that changed most)" if len(largest) < len(change.changed) else ""
        yield f"<details><summary>Changed rows{shown}</summary>"
        yield ""
        yield from _table([("row", "before us", "now us", "time", "winner"), *map(_row, largest)])
        yield ""
        yield "</details>"


def _by_kernel(rows: Sequence[ChangedRow]) -> Iterator[tuple[str, ...]]:
    groups: dict[tuple[str, str], list[ChangedRow]] = {}
    for one in rows:
        groups.setdefault(one.key[:2], []).append(one)
    for (kernel, device), found in sorted(groups.items()):
        others = sum(one.other_winner for one in found)
        factor = geomean(one.factor for one in found) or 1.0
        yield escaped(kernel), escaped(device), str(len(found)), str(others), f"{factor:.3f}x"


def _row(one: ChangedRow) -> tuple[str, ...]:
    kernel, device, specialisation, problem = one.key
    place = ", ".join(part for part in (problem, specialisation) if part)
    name = f"{kernel} on {device}" + (f" at {place}" if place else "")
    winner = escaped(one.after.configuration) if one.other_winner else "as before"
    return escaped(name), f"{one.before.winner_us:.2f}", f"{one.after.winner_us:.2f}", f"{one.factor:.3f}x", winner


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _line(rows[0])
    yield _line(["---"] * len(rows[0]))
    yield from map(_line, rows[1:])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Return a text as Markdown shows it, whatever it holds."""
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in text)
