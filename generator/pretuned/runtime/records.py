"""The rows of a generated package's table as records.

The table stands in the package as literals, which cost nothing to import. `table.Kernel` turns a kernel's literals into
these records when they are first read. They are classes with slots, since making one of NamedTuple takes ten times as
long, and a first call waits for it.
"""

from __future__ import annotations

Value = int | bool | str  # of a dim, a parameter or a specialisation; str for types alone
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
        beyond: The directions beyond the sizes (`n<`, `n>`) in which it has also beaten the default.
        library: The library, with its version, whose function was measured; empty for a template.
        recompiled: Whether the binary that ships is not the one that was measured.
    """

    __slots__ = ("beyond", "configuration", "implementation", "library", "ratio", "recompiled", "time_us")

    def __init__(
        self,
        implementation: str,
        configuration: Values,
        time_us: float,
        ratio: tuple[float, float],
        beyond: tuple[str, ...] = (),
        library: str = "",
        recompiled: bool = False,
    ) -> None:
        self.implementation, self.configuration, self.time_us, self.ratio, self.beyond = (
            implementation,
            configuration,
            time_us,
            ratio,
            beyond,
        )
        self.library, self.recompiled = library, recompiled


class TableRow:
    """What was measured for one specialisation and bucket; `choices` are ranked, the fastest first.

    `lower` holds the sizes at which the bucket begins, `measured` the sizes that were measured.
    """

    __slots__ = ("choices", "evidence", "lower", "measured", "specialisation")

    def __init__(
        self,
        specialisation: Values,
        lower: dict[str, int],
        measured: dict[str, int],
        choices: tuple[TableChoice, ...],
        evidence: Evidence,
    ) -> None:
        self.specialisation, self.lower, self.measured, self.choices, self.evidence = (
            specialisation,
            lower,
            measured,
            choices,
            evidence,
        )


class ShippedConfiguration:
    """A configuration that ships for a specialisation.

    `source` is the stem of its files, and empty for a library's function; `align` the bytes of alignment that it asks
    of arguments.
    """

    __slots__ = ("align", "configuration", "implementation", "source", "specialisation")

    def __init__(
        self, specialisation: Values, implementation: str, configuration: Values, source: str, align: dict[str, int]
    ) -> None:
        self.specialisation, self.implementation, self.configuration, self.source, self.align = (
            specialisation,
            implementation,
            configuration,
            source,
            align,
        )

    def runs(self, implementation: str | None, configuration: Values) -> bool:
        """Return whether this is a configuration, of an implementation or of any (None)."""
        return implementation in {None, self.implementation} and same(configuration, self.configuration)


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

    __slots__ = ("arch_specific", "headers", "images", "options")

    def __init__(
        self,
        options: tuple[str, ...],
        arch_specific: bool,
        images: tuple[BinaryImage, ...],
        headers: dict[str, str] | None = None,
    ) -> None:
        self.options, self.arch_specific, self.images, self.headers = options, arch_specific, images, headers or {}


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
        options, arch_specific, images, *headers = literal[source]
        found[source] = SourceBinaries(options, arch_specific, tuple(_image(*image) for image in images), *headers)
    return found


def _image(architecture: str, compiler: str, entry_points: dict[str, tuple[int, int]]) -> BinaryImage:
    known = {name: EntryPoint(*resources) for name, resources in entry_points.items()}
    return BinaryImage(architecture, compiler, known)


def same(left: Values, right: Values) -> bool:
    """Return whether two configurations agree; a bool is not an integer."""
    return left == right and all(type(value) is type(right[name]) for name, value in left.items())
