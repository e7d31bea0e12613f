"""What a table has for a problem: the row that was measured at its sizes, the selection, or the row nearest to it.

Rows are found by their sizes, however many there are. What a table says of a specialisation is put in order when the
specialisation is first asked for.
"""

from __future__ import annotations

from .devices import itself, siblings
from .nearest import MeasuredSizes
from .records import row_of, selection_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .devices import Device, Match
    from .nearest import Sizes
    from .problem import CalledProblem
    from .records import TableRow, TableSelection, Value
    from .table import Devices, Kernel, RowLiterals, SelectionLiterals


class TableAnswer:
    """What of a device answers for a problem: a row, and `exact` says whether it is the problem's own; a selection."""

    __slots__ = ("exact", "match", "of_device", "row", "selection")

    def __init__(self, match: Match, of_device: OfDevice, row: TableRow | None, *, exact: bool) -> None:
        self.match, self.of_device, self.row, self.exact = match, of_device, row, exact
        self.selection = of_device.selection


class OfDevice:
    """What was measured on one device for one specialisation: rows by their sizes, and a selection, if there is one."""

    __slots__ = ("_literals", "_measured", "_rows", "_selection")

    def __init__(self) -> None:
        self._literals: dict[Sizes, tuple[Any, ...]] = {}
        self._rows: dict[Sizes, TableRow] = {}  # made of the literals when they are asked for
        self._measured: MeasuredSizes | None = None
        self._selection: TableSelection | tuple[Any, ...] | None = None

    def add_row(self, sizes: Sizes, literal: tuple[Any, ...]) -> None:
        """Add a row of the table."""
        self._literals[sizes] = literal

    def select_by(self, literal: tuple[Any, ...]) -> None:
        """Take a selection of the table."""
        self._selection = literal

    @property
    def selection(self) -> TableSelection | None:
        """The selection, if there is one."""
        if isinstance(self._selection, tuple):
            self._selection = selection_of(self._selection)
        return self._selection

    def row(self, sizes: Sizes) -> TableRow | None:
        """Return the row that was measured at these sizes, if there is one."""
        literal = self._literals.get(sizes)
        if literal is None:
            return None
        if sizes not in self._rows:
            self._rows[sizes] = row_of(literal)
        return self._rows[sizes]

    def nearest(self, sizes: Sizes) -> TableRow | None:
        """Return the row nearest to these sizes; None without rows."""
        if not self._literals:
            return None
        if self._measured is None:
            self._measured = MeasuredSizes(self._literals)
        return self.row(self._measured.nearest(sizes))


class OfSpecialisation:
    """What a table has for one specialisation, by device, and in which order devices answer for others."""

    __slots__ = ("_alike", "_own", "devices")

    def __init__(self) -> None:
        self.devices: dict[str, OfDevice] = {}
        # By the ordinals of this machine's devices: the device itself, and those that are asked in turn.
        self._own: dict[int, Match | None] = {}
        self._alike: dict[int, list[list[Match]]] = {}

    def answer(self, problem: CalledProblem, facts: Devices) -> TableAnswer | None:
        """Return what answers for a problem: of its device, else of the nearest device like it.

        On each device a row for these very sizes comes before the selection. Rows of other sizes come last: between
        sizes more is lost than between devices that are alike. What is taken with a warning comes behind all that.
        """
        device = problem.device
        if device.ordinal in self._own:
            own = self._own[device.ordinal]
        else:
            own = itself(device, self.devices, facts)
            if device.ordinal >= 0:  # not one that is only named
                self._own[device.ordinal] = own
        if own is not None and (found := self._sure(own, problem.sizes)) is not None:
            return found  # siblings need not be compared, which asks the driver for the memory's bandwidth
        for matches in self._matches(device, own, facts):
            if (found := self.first(matches, problem.sizes)) is not None:
                return found
        return None

    def first(self, matches: list[Match], sizes: Sizes) -> TableAnswer | None:
        """Return what answers of these devices: rows of these very sizes and selections first, then the nearest row."""
        for match in matches:
            if (found := self._sure(match, sizes)) is not None:
                return found
        for match in matches:
            of_device = self.devices.get(match.name)
            if of_device is not None and (row := of_device.nearest(sizes)) is not None:
                return TableAnswer(match, of_device, row, exact=False)
        return None

    def _sure(self, match: Match, sizes: Sizes) -> TableAnswer | None:
        of_device = self.devices.get(match.name)
        if of_device is None:
            return None
        row = of_device.row(sizes)
        return None if row is None and of_device.selection is None else TableAnswer(match, of_device, row, exact=True)

    def _matches(self, device: Device, own: Match | None, facts: Devices) -> list[list[Match]]:
        """Return the devices to ask, the best first: those that are alike, those that are taken with a warning."""
        found = self._alike.get(device.ordinal)
        if found is None:
            others = siblings(device, [name for name in self.devices if own is None or name != own.name], facts)
            alike = [*([own] if own is not None else []), *(one for one in others if not one.doubt)]
            found = [alike, [one for one in others if one.doubt]]
            if device.ordinal >= 0:
                self._alike[device.ordinal] = found
        return found


class TableOfKernel:
    """A kernel's rows and selections, by specialisation; `devices` are those that it names."""

    __slots__ = ("_in_order", "_kernel", "_rows", "_selections", "devices")

    def __init__(self, kernel: Kernel, rows: RowLiterals, selections: SelectionLiterals) -> None:
        self._kernel, self._rows, self._selections = kernel, rows, selections
        self.devices = {name for literal in (rows, selections) for name, entries in literal.items() if entries}
        self._in_order: dict[tuple[Value, ...], OfSpecialisation] | None = None

    def of(self, key: tuple[Value, ...]) -> OfSpecialisation:
        """Return what there is for a specialisation, by its values."""
        if self._in_order is None:
            self._in_order = self._put_in_order()
        if alike := self._kernel.alike:
            names = self._kernel.specialisation_names
            key = tuple([alike[name][str(one)] if name in alike else one for name, one in zip(names, key, strict=True)])
        return self._in_order.get(key) or OfSpecialisation()

    def _put_in_order(self) -> dict[tuple[Value, ...], OfSpecialisation]:
        names, dims = self._kernel.specialisation_names, self._kernel.free_dims
        found: dict[tuple[Value, ...], OfSpecialisation] = {}

        def of(device: str, values: dict[str, Value]) -> OfDevice:
            one = found.setdefault(tuple([values[name] for name in names]), OfSpecialisation())
            return one.devices.setdefault(device, OfDevice())

        for device, rows in self._rows.items():
            for row in rows:
                values, measured, *_ = row
                of(device, values).add_row(tuple([measured[name] for name in dims]), row)
        for device, selections in self._selections.items():
            for selection in selections:
                of(device, selection[0]).select_by(selection)
        return found


class LockTable:
    """A lock that is read in place of the package's table: facts of its devices, rows and selections by kernel."""

    __slots__ = ("_known", "_rows", "_selections", "devices")

    def __init__(
        self, devices: Devices, rows: dict[str, RowLiterals], selections: dict[str, SelectionLiterals]
    ) -> None:
        self.devices, self._rows, self._selections = devices, rows, selections
        self._known: dict[str, TableOfKernel] = {}

    def of(self, kernel: Kernel) -> TableOfKernel:
        """Return what it has for a kernel."""
        if kernel.name not in self._known:
            rows, selections = self._rows.get(kernel.name, {}), self._selections.get(kernel.name, {})
            self._known[kernel.name] = TableOfKernel(kernel, rows, selections)
        return self._known[kernel.name]


_own: dict[Kernel, TableOfKernel] = {}


def table_of(kernel: Kernel) -> TableOfKernel:
    """Return what the package has for a kernel."""
    if kernel not in _own:
        _, rows, selections, _ = kernel.literals
        _own[kernel] = TableOfKernel(kernel, rows, selections)
    return _own[kernel]
