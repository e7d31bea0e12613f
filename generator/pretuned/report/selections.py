"""The selections of a table, whichever place they come from: what ships for all other sizes, and what that loses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from pretuned.errors import counted
from pretuned.record.selections import Certificate, Losses, Selection
from pretuned.report.certificates import certificate_json, chosen
from pretuned.report.text import columns
from pretuned.runtime.records import TableLosses, TableSelection, selection_of
from pretuned.runtime.text import described
from pretuned.spec.space import Pairs, describe, pairs

HEAD = ("kernel", "specialisation", "ships", "certified at", "mean", "p95", "worst", "slower", "worst at")
RIGHT = frozenset({2, 3, 4, 5, 6, 7})  # columns of numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionLine:
    """A selection for a report. `configurations` are those that ship, last the default, or all that it may be.

    `defaults` are so many. `problems`: at how many the costs were fitted, within `reach`. `certificate` is None where
    none was made.
    """

    kernel: str
    device: str
    specialisation: Pairs
    configurations: tuple[str, ...]
    reach: tuple[tuple[str, tuple[int, int]], ...]
    problems: int
    certificate: Certificate | None
    date: str
    defaults: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return plain data, by the names of the lock."""
        certificate = None if self.certificate is None else certificate_json(self.certificate)
        changed = {"specialisation": describe(self.specialisation), "reach": dict(self.reach)}
        plain = {name: value for name, value in asdict(self).items() if (name, value) != ("defaults", 1)}
        return plain | changed | {"certificate": certificate}


def of_selections(selections: Iterable[Selection]) -> list[SelectionLine]:
    """Return the lines of selections."""
    return [
        SelectionLine(
            kernel=rule.kernel,
            device=rule.device,
            specialisation=rule.specialisation,
            configurations=tuple(str(choice.configuration) for choice in rule.choices),
            reach=rule.reach,
            problems=rule.problems,
            certificate=rule.certificate,
            date=rule.date,
            defaults=rule.defaults,
        )
        for rule in selections
    ]


def selections_of(package: ModuleType) -> list[SelectionLine]:
    """Return the lines of a generated package; raises AttributeError or ValueError if it is none."""
    return [
        _baked(kernel, device, selection_of(literal))
        for kernel, devices in sorted(package.SELECTIONS.items())
        for device, literals in sorted(devices.items())
        for literal in literals
    ]


def _baked(kernel: str, device: str, rule: TableSelection) -> SelectionLine:
    found = rule.certificate
    return SelectionLine(
        kernel=kernel,
        device=device,
        specialisation=pairs(rule.specialisation),
        configurations=tuple(described(choice.implementation, choice.configuration) for choice in rule.choices),
        reach=tuple(sorted(rule.reach.items())),
        problems=rule.problems,
        certificate=None
        if found is None
        else Certificate(
            seed=found.seed,
            inside=_of_table(found.inside),
            outside=None if found.outside is None else _of_table(found.outside),
            calls=found.calls,
        ),
        date=rule.evidence.date,
        defaults=rule.defaults,
    )


def _of_table(found: TableLosses) -> Losses:
    return Losses(
        problems=found.problems,
        mean=found.mean,
        p95=found.p95,
        worst=found.worst,
        slower=found.slower,
        worst_at=pairs(found.worst_at),
    )


def selection_table(lines: Sequence[SelectionLine]) -> str:
    """Return the certificates by device, and below them which configurations ship.

    A certificate has a row for the problems inside the sizes and one for those outside. `slower` counts problems at
    which the choice takes over 2% longer than the default.
    """
    blocks = []
    for device, group in itertools.groupby(sorted(lines, key=lambda line: line.device), key=lambda line: line.device):
        rules = list(group)
        title = f"{device}, at all other sizes: {counted(len(rules), 'selection')}"
        rows = columns([HEAD, *(cells for rule in rules for cells in _cells(rule))], RIGHT)
        blocks.append("\n".join([title, *rows, "", *map(_ships, rules)]))
    return "\n\n".join(blocks)


def _cells(line: SelectionLine) -> Iterator[tuple[str, ...]]:
    first = (line.kernel, describe(line.specialisation), str(len(line.configurations)))
    if line.certificate is None:
        yield (*first, "nothing", *[""] * 5)
        return
    yield (*first, *_losses(line.certificate.inside, "inside"))
    if line.certificate.outside is not None:
        yield ("", "", "", *_losses(line.certificate.outside, "outside"))


def _losses(of: Losses, where: str) -> tuple[str, ...]:
    shares = (f"{share:.1%}" for share in (of.mean, of.p95, of.worst))
    return f"{of.problems} {where:<7}", *shares, str(round(of.slower * of.problems)), describe(of.worst_at)


def _ships(line: SelectionLine) -> str:
    first = len(line.configurations) - line.defaults
    which = "the default" if line.defaults == 1 else "a default"
    marked = [f"{one} ({which})".lstrip() for one in line.configurations[first:]]
    listed = "; ".join([*line.configurations[:first], *marked])
    return f"{chosen(line.kernel, line.specialisation)} ships {listed}"
