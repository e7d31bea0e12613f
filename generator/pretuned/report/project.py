"""All that a report of a project shows, from what was gathered about it; pages, Markdown and JSON are made of this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pretuned.record.courses import Course
from pretuned.record.lock import Lock
from pretuned.report.figures.changes import (
    HistoryEntry,
    LockChange,
    LockDocument,
    LockVersion,
    changed,
    history_of,
    past_rows,
)
from pretuned.report.figures.devices import SideBySide, side_by_side
from pretuned.report.figures.losses import HeldOuts, LossFigure, loss_figures
from pretuned.report.figures.parameters import MeasuredSpace, SpaceFigure, spaces_of
from pretuned.report.figures.rows import RowFigure, States, row_figures
from pretuned.report.figures.summary import DeviceSummary, device_summaries
from pretuned.spec.model import KernelSpec
from pretuned.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredProject:
    """What a report is made from. `text` is the lock's file, `name` its name, `title` the project's.

    `specs` are empty where none can be read; `note` says why. `states` has what is not fresh, `missing` how many
    problems lack a row by kernel and device. `versions` are the lock's commits, the newest first; `past` says why there
    are none. `before` is another lock, as JSON, which `before_name` names.
    """

    title: str
    name: str
    text: str
    lock: Lock
    specs: Mapping[str, KernelSpec] = field(default_factory=dict)
    note: str = ""
    states: States = field(default_factory=dict)
    missing: Mapping[tuple[str, str], int] = field(default_factory=dict)
    held_out: HeldOuts = field(default_factory=dict)
    courses: Sequence[Course] = ()
    measured: Sequence[MeasuredSpace] = ()
    versions: Sequence[LockVersion] = ()
    past: str = ""
    before: LockDocument | None = None
    before_name: str = ""
    document: LockDocument = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectReport:
    """The figures of a project. Times are microseconds a call; every figure names the lines of `lock` it comes from.

    `note` says why specs are not known, `past` why there is no history; both are empty otherwise. `change` is against
    the lock that `against` names, None without one.
    """

    title: str
    lock: str
    version: str
    note: str
    devices: tuple[DeviceSummary, ...]
    rows: tuple[RowFigure, ...]
    losses: tuple[LossFigure, ...]
    pairs: tuple[SideBySide, ...]
    spaces: tuple[SpaceFigure, ...]
    courses: tuple[Course, ...]
    history: tuple[HistoryEntry, ...]
    past: str
    change: LockChange | None
    against: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as `pretuned report --json` prints it."""
        return {
            "project": self.title,
            "lock": self.lock,
            "pretuned": self.version,
            "note": self.note,
            "devices": [one.to_json() for one in self.devices],
            "rows": [one.to_json() for one in self.rows],
            "selections": [one.to_json() for one in self.losses],
            "side by side": [one.to_json() for one in self.pairs],
            "spaces": [one.to_json() for one in self.spaces],
            "tunings": list(map(_course, self.courses)),
            "history": [one.to_json() for one in self.history],
            "no history": self.past,
            "change": None if self.change is None else {"against": self.against, **self.change.to_json()},
        }


def report_of(found: GatheredProject) -> ProjectReport:
    """Return the report of what was gathered."""
    rows = tuple(row_figures(found.lock, found.text, found.specs, found.states))
    losses = tuple(loss_figures(found.lock, found.text, found.specs, found.states, found.held_out))
    return ProjectReport(
        title=found.title,
        lock=found.name,
        version=__version__,
        note=found.note,
        devices=tuple(device_summaries(found.lock, found.text, rows, losses, found.missing)),
        rows=rows,
        losses=losses,
        pairs=tuple(side_by_side(rows)),
        spaces=tuple(spaces_of(found.lock.rows, found.measured)),
        courses=tuple(found.courses),
        history=tuple(history_of(found.versions)),
        past=found.past,
        change=None if found.before is None else changed(past_rows(found.before), past_rows(found.document)),
        against=found.before_name,
    )


def _course(course: Course) -> dict[str, Any]:
    return {
        "kernel": course.kernel,
        "device": course.device,
        "date": course.date,
        "seconds": dict(course.seconds),
        "curves": [
            {"problem": one.problem, "default us": one.default_us, "points": [list(point) for point in one.points]}
            for one in course.curves
        ],
    }
