"""The rows of a generated package's table as records.

The table stands in the package as literals, which cost nothing to import. `table.Kernel` turns a kernel's literals into
these records when they are first read.
"""

from __future__ import annotations

from typing import NamedTuple

Value = int | bool | str  # of a dim, a parameter or a specialisation; str for types alone
Values = dict[str, Value]


class Evidence(NamedTuple):
    """When a row was measured, with which driver, and with which NVRTC its binaries were compiled."""

    date: str = ""
    driver: str = ""
    compiler: str = ""


class TableChoice(NamedTuple):
    """A configuration that was measured for a row.

    Attributes:
        implementation: Its name.
        configuration: The value of each parameter.
        time_us: The time that was measured.
        ratio: The 95% interval of its time over the default's.
        beyond: The directions beyond the sizes (`n<`, `n>`) in which it has also beaten the default.
        library: The library, with its version, whose function was measured; empty for a template.
        recompiled: Whether the binary that ships is not the one that was measured.
    """

    implementation: str
    configuration: Values
    time_us: float
    ratio: tuple[float, float]
    beyond: tuple[str, ...] = ()
    library: str = ""
    recompiled: bool = False


class TableRow(NamedTuple):
    """What was measured for one specialisation and bucket; `choices` are ranked, the fastest first.

    `lower` holds the sizes at which the bucket begins, `measured` the sizes that were measured.
    """

    specialisation: Values
    lower: dict[str, int]
    measured: dict[str, int]
    choices: tuple[TableChoice, ...]
    evidence: Evidence


class ShippedConfiguration(NamedTuple):
    """A configuration that ships for a specialisation.

    `source` is the stem of its files, and empty for a library's function; `align` the bytes of alignment that it asks
    of arguments.
    """

    specialisation: Values
    implementation: str
    configuration: Values
    source: str
    align: dict[str, int]

    def runs(self, implementation: str | None, configuration: Values) -> bool:
        """Return whether this is a configuration, of an implementation or of any (None)."""
        return implementation in {None, self.implementation} and same(configuration, self.configuration)


class EntryPoint(NamedTuple):
    """What an entry point takes: registers per thread, and static shared memory per block."""

    registers: int = 0
    shared_bytes: int = 0


class BinaryImage(NamedTuple):
    """What the compiler made of a source for one architecture (`sm_90`, or `compute_80` for PTX)."""

    architecture: str
    compiler: str
    entry_points: dict[str, EntryPoint]


class SourceBinaries(NamedTuple):
    """The binaries of a source, with its compile options, and whether it is for one architecture only."""

    options: tuple[str, ...]
    arch_specific: bool
    images: tuple[BinaryImage, ...]


def rows_of(literal: dict[str, tuple[tuple, ...]]) -> dict[str, tuple[TableRow, ...]]:  # type: ignore[type-arg]
    """Return a kernel's rows, by device."""
    return {device: tuple(_row(*row) for row in rows) for device, rows in literal.items()}


def _row(specialisation: Values, lower: dict[str, int], measured: dict[str, int], *rest: tuple) -> TableRow:  # type: ignore[type-arg]
    choices, evidence = rest
    listed = tuple(TableChoice(*choice) for choice in choices)
    return TableRow(specialisation, lower, measured, listed, Evidence(*evidence))


def shipped_of(literal: tuple[tuple, ...]) -> tuple[ShippedConfiguration, ...]:  # type: ignore[type-arg]
    """Return what a kernel ships."""
    return tuple(ShippedConfiguration(*one) for one in literal)


def binaries_of(literal: dict[str, tuple], sources: set[str]) -> dict[str, SourceBinaries]:  # type: ignore[type-arg]
    """Return the binaries of the named sources."""
    found = {}
    for source in sources:
        options, arch_specific, images = literal[source]
        found[source] = SourceBinaries(options, arch_specific, tuple(_image(*image) for image in images))
    return found


def _image(architecture: str, compiler: str, entry_points: dict[str, tuple[int, int]]) -> BinaryImage:
    known = {name: EntryPoint(*resources) for name, resources in entry_points.items()}
    return BinaryImage(architecture, compiler, known)


def same(left: Values, right: Values) -> bool:
    """Return whether two configurations agree; a bool is not an integer."""
    return left == right and all(type(value) is type(right[name]) for name, value in left.items())
