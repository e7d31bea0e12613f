"""The rows of a generated package's table as records.

The table stands in the package as literals, which cost nothing to import. `table.Kernel` turns a kernel's literals into
these records when they are first read. They are classes with slots, since making one of NamedTuple takes ten times as
long, and a first call waits for it.
"""

from __future__ import annotations

from .expressions import operands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

Value = int | float | bool | str  # of a dim, a parameter or a specialisation; types are texts too
Values = dict[str, Value]


class Evidence:
    """When a row was measured, with which driver, and with which NVRTC its binaries were compiled."""

    __slots__ = ("compiler", "date", "driver")

    def __init__(self, date: str = "", driver: str = "", compiler: str = "") -> None:
        self.date, self.driver, self.compiler = date, driver, compiler


class TableChoice:
    """A configuration that was measured for a row.

    Attributes:
        implementation: Its name.
        configuration: The value of each parameter.
        time_us: The time that was measured.
        ratio: The 95% interval of its time over the default's.
        library: The library, with its version, whose function was measured; empty for a template.
        recompiled: Whether the binary that ships is not the one that was measured.
        spread_us: The 10th, 50th and 90th percentile of what was measured; None where that was not kept.
    """

    __slots__ = ("configuration", "implementation", "library", "ratio", "recompiled", "spread_us", "time_us")

    def __init__(
        self,
        implementation: str,
        configuration: Values,
        time_us: float,
        ratio: tuple[float, float],
        library: str = "",
        recompiled: bool = False,
        spread_us: tuple[float, float, float] | None = None,
    ) -> None:
        self.implementation, self.configuration, self.time_us, self.ratio = (
            implementation,
            configuration,
            time_us,
            ratio,
        )
        self.library, self.recompiled, self.spread_us = library, recompiled, spread_us


class TableRow:
    """What was measured for one specialisation at the sizes `measured`; `choices` are ranked, the fastest first."""

    __slots__ = ("choices", "evidence", "measured", "specialisation")

    def __init__(
        self,
        specialisation: Values,
        measured: dict[str, int],
        choices: tuple[TableChoice, ...],
        evidence: Evidence,
    ) -> None:
        self.specialisation, self.measured, self.choices, self.evidence = specialisation, measured, choices, evidence


class SelectedConfiguration:
    """A configuration of a selection; `library` and `recompiled` are as in a row's choice."""

    __slots__ = ("configuration", "implementation", "library", "recompiled")

    def __init__(self, implementation: str, configuration: Values, library: str = "", recompiled: bool = False) -> None:
        self.implementation, self.configuration = implementation, configuration
        self.library, self.recompiled = library, recompiled


class TableLosses:
    """What a selection loses at `problems` problems against the fastest there, as shares (0.01 is 1% slower).

    `slower` is the share of problems at which its choice takes over 2% longer than the default, and `worst_at` the
    sizes at which it loses most.
    """

    __slots__ = ("mean", "p95", "problems", "slower", "worst", "worst_at")

    def __init__(
        self, problems: int, mean: float, p95: float, worst: float, slower: float, worst_at: dict[str, int]
    ) -> None:
        self.problems, self.mean, self.p95, self.worst = problems, mean, p95, worst
        self.slower, self.worst_at = slower, worst_at

    def __str__(self) -> str:
        default = f"{self.slower:.1%} slower than the default" if self.slower else "none slower than the default"
        return f"{self.problems} problems, mean {self.mean:.1%}, p95 {self.p95:.1%}, worst {self.worst:.1%}, {default}"


class TableCertificate:
    """The losses at problems drawn by `seed`: `inside` the spec's sizes, and `outside`, where there are such."""

    __slots__ = ("calls", "inside", "outside", "seed")

    def __init__(self, seed: int, inside: TableLosses, outside: TableLosses | None, calls: bool = False) -> None:
        self.seed, self.inside, self.outside, self.calls = seed, inside, outside, calls


class TableSelection:
    """What decides at problems that have no row.

    `choices` has the default last, or those that it may be, `defaults` of them. `costs` is a function of the dims in
    `reads`, to a cost in femtoseconds for each of them. `margins` are per mille of the default's cost, inside `reach`
    and outside: the sizes of each dim to which the costs were fitted, at `problems` problems.
    """

    __slots__ = (
        "certificate",
        "choices",
        "costs",
        "defaults",
        "evidence",
        "margins",
        "problems",
        "reach",
        "reads",
        "specialisation",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - as the table has it
        self,
        specialisation: Values,
        choices: tuple[SelectedConfiguration, ...],
        costs: Callable[..., Any],
        margins: tuple[int, int],
        reach: dict[str, tuple[int, int]],
        problems: int,
        certificate: TableCertificate | None,
        evidence: Evidence,
        defaults: int = 1,
    ) -> None:
        self.specialisation, self.choices, self.costs, self.margins = specialisation, choices, costs, margins
        self.defaults = defaults
        self.reach, self.problems, self.certificate, self.evidence = reach, problems, certificate, evidence
        code = costs.__code__
        self.reads: tuple[str, ...] = code.co_varnames[: code.co_argcount]

    def reaches(self, values: Values) -> bool:
        """Return whether the costs were fitted to sizes around a problem's."""
        for name, (low, high) in self.reach.items():  # noqa: SIM110 - all() takes twice as long
            if not low <= int(values[name]) <= high:
                return False
        return True

    def costs_at(self, values: Values) -> tuple[int, ...]:
        """Return the cost of each choice, in femtoseconds, in plain integers."""
        found: tuple[int, ...] = self.costs(*[int(values[name]) for name in self.reads])
        return found

    def ranked(self, costs: Sequence[int], values: Values, default: int) -> list[SelectedConfiguration]:
        """Return what may run by its costs, the best first, the first of equals: what beats the default, the default.

        What is not faster than the default, the choice at the place `default`, by the margin does not run.
        """
        margin = self.margins[0] if self.reaches(values) else self.margins[1]
        highest = costs[default] * (1000 - margin)
        before = [place for place, cost in enumerate(costs) if place != default and cost * 1000 <= highest]
        return [self.choices[place] for place in (*sorted(before, key=costs.__getitem__), default)]


class ShippedConfiguration:
    """A configuration that ships for a specialisation.

    `source` is the stem of its files, and empty for a library's function; `align` the bytes of alignment that it asks
    of arguments; `operands` its configuration as expressions read it. `may_be_default` marks what the default may be,
    besides the first that ships. `blocks` has, by launch and device, what is the same at every problem.
    """

    __slots__ = (
        "align",
        "blocks",
        "configuration",
        "implementation",
        "may_be_default",
        "operands",
        "source",
        "specialisation",
    )

    def __init__(
        self,
        specialisation: Values,
        implementation: str,
        configuration: Values,
        source: str,
        align: dict[str, int],
        may_be_default: bool = False,
    ) -> None:
        self.specialisation, self.implementation, self.configuration, self.source, self.align = (
            specialisation,
            implementation,
            configuration,
            source,
            align,
        )
        self.operands, self.may_be_default = operands(configuration), may_be_default
        self.blocks: dict[tuple[object, object], Any] = {}

    def runs(self, implementation: str | None, configuration: Values) -> bool:
        """Return whether this is a configuration, of an implementation or of any (None)."""
        return implementation in {None, self.implementation} and same(configuration, self.configuration)


class Shipment:
    """What ships for one specialisation: first the `defaults`, one or all that it may be."""

    __slots__ = ("_found", "_known", "defaults", "listed", "specialisation")

    def __init__(self, listed: list[ShippedConfiguration]) -> None:
        self.listed, self.specialisation = listed, listed[0].specialisation
        self.defaults = [listed[0], *(one for one in listed if one.may_be_default)]
        self._known = {_key(one.implementation, one.configuration): one for one in listed}
        self._found: dict[TableChoice | SelectedConfiguration, ShippedConfiguration | None] = {}

    def default(self, chosen: Values) -> ShippedConfiguration:
        """Return the default whose parameters have the values that are `chosen` for a problem, if any are."""
        if not chosen:
            return self.defaults[0]
        found = (one for one in self.defaults if chosen.items() <= one.configuration.items())
        return next(found, self.defaults[0])

    def of(self, one: TableChoice | SelectedConfiguration) -> ShippedConfiguration | None:
        """Return what ships for a choice of the table, if that does."""
        try:
            return self._found[one]
        except KeyError:
            found = self._found[one] = self._known.get(_key(one.implementation, one.configuration))
            return found


def _key(implementation: str, configuration: Values) -> tuple[object, ...]:
    return implementation, *configuration.items()  # which are sorted in every table


class EntryPoint:
    """What an entry point takes: registers per thread, and static shared memory per block."""

    __slots__ = ("registers", "shared_bytes")

    def __init__(self, registers: int = 0, shared_bytes: int = 0) -> None:
        self.registers, self.shared_bytes = registers, shared_bytes


class BinaryImage:
    """What the compiler made of a source for one architecture (`sm_90`, or `compute_80` for PTX)."""

    __slots__ = ("architecture", "compiler", "entry_points")

    def __init__(self, architecture: str, compiler: str, entry_points: dict[str, EntryPoint]) -> None:
        self.architecture, self.compiler, self.entry_points = architecture, compiler, entry_points


class SourceBinaries:
    """The binaries of a source, with its compile options, and whether it is for one architecture only.

    `headers` are the files of the project's own headers that it includes, by name.
    """

    __slots__ = ("arch_specific", "headers", "images", "options", "taken")

    def __init__(
        self,
        options: tuple[str, ...],
        arch_specific: bool,
        images: tuple[BinaryImage, ...],
        headers: dict[str, str] | None = None,
    ) -> None:
        self.options, self.arch_specific, self.images, self.headers = options, arch_specific, images, headers or {}
        self.taken: dict[tuple[str, int], EntryPoint] = {}  # by entry point and compute capability, as asked for


def rows_of(literal: dict[str, tuple[tuple[Any, ...], ...]]) -> dict[str, tuple[TableRow, ...]]:
    """Return a kernel's rows, by device."""
    return {device: tuple(row_of(row) for row in rows) for device, rows in literal.items()}


def row_of(literal: tuple[Any, ...]) -> TableRow:
    """Return a row of the table."""
    specialisation, measured, choices, evidence = literal
    return TableRow(specialisation, measured, tuple(TableChoice(*one) for one in choices), Evidence(*evidence))


def selection_of(literal: tuple[Any, ...]) -> TableSelection:
    """Return a selection of the table."""
    specialisation, choices, costs, margins, reach, problems, certified, evidence, *more = literal
    certificate = None
    if certified:
        seed, inside, outside, *calls = certified
        certificate = TableCertificate(seed, TableLosses(*inside), TableLosses(*outside) if outside else None, *calls)
    listed = tuple(SelectedConfiguration(*one) for one in choices)
    rest = (reach, problems, certificate, Evidence(*evidence), *more)
    return TableSelection(specialisation, listed, costs, margins, *rest)


def shipped_of(
    literal: tuple[tuple[Any, ...], ...], alike: dict[str, dict[str, str]]
) -> tuple[ShippedConfiguration, ...]:
    """Return what a kernel ships, once for each of the types that are alike."""
    for name, types in alike.items():
        literal = tuple(
            ({**one[0], name: dtype}, *one[1:])
            for dtype, tuned in types.items()
            for one in literal
            if one[0][name] == tuned
        )
    return tuple(ShippedConfiguration(*one) for one in literal)


def binaries_of(literal: dict[str, tuple[Any, ...]], sources: set[str]) -> dict[str, SourceBinaries]:
    """Return the binaries of the named sources."""
    found = {}
    for source in sources:
        options, arch_specific, images, *headers = literal[source]
        found[source] = SourceBinaries(options, arch_specific, tuple(_image(*image) for image in images), *headers)
    return found


def _image(architecture: str, compiler: str, entry_points: dict[str, tuple[int, int]]) -> BinaryImage:
    known = {name: EntryPoint(*resources) for name, resources in entry_points.items()}
    return BinaryImage(architecture, compiler, known)


def same(left: Values, right: Values) -> bool:
    """Return whether two configurations agree; a bool is not an integer."""
    return left == right and all(type(value) is type(right[name]) for name, value in left.items())
