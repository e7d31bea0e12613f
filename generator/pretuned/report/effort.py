"""What a tuning did and where its time went, in words."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.outcome import detail, kind
from pretuned.tune.progress import (
    Compiling,
    Decided,
    Effort,
    Event,
    Failed,
    Measuring,
    OutOfBudget,
    Passed,
)


def describe(event: Event) -> str:
    """Return one line about a step of tuning."""
    match event:
        case Compiling(kernel=kernel, modules=modules):
            return f"{kernel}: compiling {modules} modules"
        case Measuring(kernel=kernel, problem=problem, candidates=candidates, done=done, rows=rows):
            return f"{kernel}: {problem}: {candidates} candidates (row {done + 1} of {rows})"
        case Failed(kernel=kernel, configuration=configuration, problem=problem, failure=failure):
            return f"{kernel}: {problem}: {configuration}: {kind(failure)}: {detail(failure)}"
        case Decided(row=row, cached=cached):
            winner, default = row.winner, row.default
            found = (
                "default" if winner is default else f"{winner.configuration}, {default.time_us / winner.time_us:.2f}x"
            )
            return f"{row.kernel}: {row.problem}: {found}" + (" (measured before)" if cached else "")
        case Passed(entry=entry):
            return f"{entry.kernel}: {entry.problem}: skipped: {entry.reason}"
        case OutOfBudget(rows=rows):
            return f"the budget is spent; {rows} rows were not reached"


def stages(effort: Effort) -> Iterator[str]:
    """Yield the seconds by stage, the longest first, and the counts."""
    for name, seconds in effort.longest():
        yield f"{name:<12}{seconds:8.2f} s"
    yield f"{'in all':<12}{sum(effort.seconds.values()):8.2f} s"
    yield f"{effort.compiled} modules compiled, {effort.launched} measurements"
