"""What is said of a lock whose rows hold, where it is not known that what runs between their sizes is the best."""

from __future__ import annotations

from collections.abc import Sequence

from pretuned.build.freshness import Freshness, named
from pretuned.build.usage import calls_of_table
from pretuned.config import Project
from pretuned.diagnostics import Reporter
from pretuned.record.lock import Lock
from pretuned.spec.space import Pairs, describe


def report_between_sizes(project: Project, lock: Lock, freshness: Freshness, reporter: Reporter, remedy: str) -> None:
    """Report all of it: rows without a selection, selections that ship too much, and those chosen by other calls."""
    warn_of_unselected(project, lock, freshness, reporter, remedy)
    if found := list(freshness.crowded(lock, project.max_configurations)):
        reporter.warning(
            f"the selection of {_listed(found)}: ships more than {project.max_configurations} configurations "
            "(max-configurations)",
            place=project.lock.name,
            remedy=remedy,
        )
    _report_other_calls(project, lock, freshness, reporter)


def warn_of_unselected(project: Project, lock: Lock, freshness: Freshness, reporter: Reporter, remedy: str) -> None:
    """Warn of rows that have no selection. They hold at their own sizes, so no mode refuses them."""
    if found := list(freshness.unselected(lock, lock.devices)):
        reporter.warning(
            f"rows and no selection for {_listed(found)}: sizes between them take the nearest row, and what that loses "
            "is not certified",
            place=project.lock.name,
            remedy=remedy,
        )


def _report_other_calls(project: Project, lock: Lock, freshness: Freshness, reporter: Reporter) -> None:
    """Report selections that were chosen by other calls than the table's usage has. They hold nevertheless."""
    calls = calls_of_table(project, freshness.specs) if lock.selections else None
    if project.usage is None or calls is None:
        return
    if found := list(freshness.otherwise_called(lock, calls)):
        reporter.info(
            f"the selection of {_listed(found)}: chosen by other calls than {project.usage.name} has now",
            place=project.lock.name,
            remedy="`pretuned tune --certify 64` says what that loses, `pretuned tune --force` chooses anew",
        )


def _listed(found: Sequence[tuple[str, str, Pairs]]) -> str:
    """Return the first of them, and how many more there are."""
    (kernel, device, specialisation), *others = found
    return named(kernel, device, describe(specialisation)) + (f" and {len(others)} more" if others else "")
