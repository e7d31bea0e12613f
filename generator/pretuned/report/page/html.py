"""The page of a report: one file, with its style and its few lines of script inside, which are all that it may use.

A policy of the page's own forbids everything else: a browser fetches nothing for it, whatever a lock's names hold.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from pretuned.errors import counted
from pretuned.record.courses import Course
from pretuned.report.figures.devices import SideBySide
from pretuned.report.figures.losses import LossFigure
from pretuned.report.figures.rows import RowFigure, geomean
from pretuned.report.page.plots import Drawing, course_plot, loss_plot, ratio_plot, share_plot
from pretuned.report.project import ProjectReport
from pretuned.runtime.records import Value
from pretuned.spec.space import Pairs, describe

_FOLDER: Final = Path(__file__).parent
# Of cells and rows, which end where the next one begins: a tenth of a large lock's page. The line's end would be a part
# of the cell's text.
_IMPLIED_ENDS: Final = re.compile(r"</t[dhr]>\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSection:
    """What a page shows of one kernel on one device; `id` is unique in the page.

    `worst` is the largest mean loss inside the sizes that a certificate of it says, None without any.
    """

    id: str
    kernel: str
    device: str
    rows: Sequence[RowFigure]
    speedup: float
    worst: float | None
    drawings: Sequence[Drawing]

    @property
    def faster(self) -> int:
        """How many rows are faster than the default."""
        return sum(not row.line.is_default for row in self.rows)

    @property
    def share(self) -> float | None:
        """The largest share of the nominal bandwidth that a winner reaches; None where unknown."""
        shares = (row.share(row.line.winner_us) for row in self.rows)
        return max((share for share in shares if share is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseSection:
    """A kernel's last tuning, and its plot if there is one."""

    course: Course
    drawing: Drawing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSection:
    """The problems of a kernel that several devices have rows of."""

    kernel: str
    devices: Sequence[str]
    pairs: Sequence[SideBySide]

    @property
    def differ(self) -> int:
        """At how many of them the winners differ."""
        return sum(not one.agree for one in self.pairs)

    def winners(self, pair: SideBySide) -> Iterator[tuple[RowFigure | None, str]]:
        """Yield each device's row of a problem with its winner, whose name stands once where all agree."""
        rows = {row.line.device: row for row in pair.rows}
        found = [rows.get(device) for device in self.devices]
        first = next(row for row in found if row is not None)
        for row in found:
            if row is None:
                yield None, "-"
            else:
                yield row, "the same" if pair.agree and row is not first else row.line.configuration


def page(report: ProjectReport) -> str:
    """Return the page; the same report gives the same bytes."""
    style, script = _text("page.css"), _text("page.js")
    whole = _template().render(
        report=report,
        style=Markup(style),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'",
        kernels=list(_kernels(report)),
        courses=[CourseSection(course=one, drawing=course_plot(one, one.kernel)) for one in report.courses],
        pairs=list(_pairs(report)),
        lines=partial(_lines, report.rows),
    )
    return _IMPLIED_ENDS.sub("", whole)


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "svg": lambda drawing: Markup(drawing.svg),  # noqa: S704 - its texts are escaped where it is drawn
        "dims": _dims,
        "percent": lambda share: f"{share:.2%}",  # a lock's shares have four digits
        "counted": counted,
        "digits": _digits,
        "gib": lambda nbytes: f"{nbytes >> 30:,} GiB",
    }
    return environment.get_template("page.html.jinja")


def _dims(values: Pairs | Sequence[tuple[str, Value]]) -> str:
    return describe(tuple(values))


def _digits(value: float) -> str:
    """Return a time with the four digits that a lock keeps."""
    return f"{Decimal(f'{value:#.4g}'):f}"


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return what a policy names a style or a script by, which stands in the page between line ends of its own."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _lines(rows: Sequence[RowFigure], kernel: str, device: str, specialisation: str | None = None) -> str:
    """Return at which lines of the lock the rows of a kernel stand, as in `7 to 33`."""
    found = [
        row.at
        for row in rows
        if (row.line.kernel, row.line.device) == (kernel, device)
        and specialisation in {None, row.line.specialisation}
        and row.at
    ]
    if not found:
        return "-"
    return str(found[0]) if len(found) == 1 else f"{min(found)} to {max(found)}"


def _kernels(report: ProjectReport) -> Iterator[KernelSection]:
    groups: dict[tuple[str, str], list[RowFigure]] = {}
    for row in report.rows:
        groups.setdefault((row.line.kernel, row.line.device), []).append(row)
    for number, ((kernel, device), rows) in enumerate(groups.items(), 1):
        losses = [one for one in report.losses if (one.kernel, one.device) == (kernel, device)]
        ordered = sorted(rows, key=lambda row: (row.work, row.line.specialisation))
        yield KernelSection(
            id=f"kernel-{number}",
            kernel=kernel,
            device=device,
            rows=ordered,
            speedup=geomean(row.line.speedup for row in rows) or 1.0,
            worst=max((one.inside.mean for one in losses if one.inside is not None), default=None),
            drawings=list(_drawings(ordered, losses, f"{kernel} on {device}")),
        )


def _drawings(rows: Sequence[RowFigure], losses: Sequence[LossFigure], named: str) -> Iterator[Drawing]:
    names = list(dict.fromkeys([*(row.line.specialisation for row in rows), *(one.specialisation for one in losses)]))
    yield ratio_plot(rows, named, names)
    for drawing in (share_plot(rows, named, names), loss_plot(losses, named, names)):
        if drawing is not None:
            yield drawing


def _pairs(report: ProjectReport) -> Iterator[PairSection]:
    groups: dict[str, list[SideBySide]] = {}
    for one in report.pairs:
        groups.setdefault(one.kernel, []).append(one)
    for kernel, pairs in groups.items():
        devices = dict.fromkeys(row.line.device for one in pairs for row in one.rows)
        yield PairSection(kernel=kernel, devices=list(devices), pairs=pairs)
