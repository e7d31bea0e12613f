"""Tables in plain text: aligned columns, one row per line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from pretuned.config import is_backend
from pretuned.errors import counted
from pretuned.report.lines import Line

HEAD = ("kernel", "problem", "default us", "winner us", "faster", "configuration")
RIGHT = frozenset({2, 3, 4})  # columns of numbers


def table(lines: Sequence[Line]) -> str:
    """Return the rows by device; times are a call's device time, `faster` the default's time over the winner's."""
    blocks = []
    for device, group in itertools.groupby(sorted(lines, key=lambda line: line.device), key=lambda line: line.device):
        rows = list(group)
        won = sum(not line.is_default for line in rows)
        made = sorted({_made(line) for line in rows})
        title = f"{device}: {counted(len(rows), 'row')}, {won} faster than the default ({'; '.join(made)})"
        blocks.append("\n".join([title, *columns([HEAD, *map(_cells, rows)])]))
    return "\n\n".join(blocks)


def _made(line: Line) -> str:
    """Return with what a row was measured; what is not a GPU names its own driver and compiler."""
    names = (line.driver, line.compiler)
    if not is_backend(line.device):
        names = (f"driver {line.driver}", f"NVRTC {line.compiler}")
    return ", ".join([*names, line.date])


def _cells(line: Line) -> tuple[str, ...]:
    notes = ", ".join(filter(None, (line.note, line.effort)))
    note = f"  [{notes}]" if notes else ""
    configuration = "default" if line.is_default else line.configuration
    return (
        line.kernel,
        ", ".join(part for part in (line.problem, line.specialisation) if part),
        f"{line.default_us:.2f}",
        f"{line.winner_us:.2f}",
        f"{line.speedup:.2f}x",
        configuration + (f"  (+{line.others})" if line.others else "") + note,
    )


def columns(rows: Sequence[Sequence[str]], right: frozenset[int] = RIGHT) -> Iterator[str]:
    """Yield `rows` with their columns aligned, two blanks apart; those in `right` to the right."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        cells = (
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
