"""Which configuration runs a problem: pure, so that a call and `explain` cannot differ.

In order: an override that fits; at a problem that has a row, the row's choices; elsewhere what the selection predicts
to be fastest, if it beats the default by the selection's margin; the default. Without a selection the nearest row's
choices are taken. A choice is passed over where a condition on the dims or an alignment does not hold, or where it does
not fit the device at hand; the reason is kept.
"""

from __future__ import annotations

from .devices import Match, too_far
from .errors import ArgumentError, UntunedError, qualified
from .problem import default_at
from .refusal import refusal
from .text import described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .answers import TableAnswer
    from .overrides import Overrides
    from .problem import CalledProblem, Operands
    from .records import (
        SelectedConfiguration,
        Shipment,
        ShippedConfiguration,
        TableChoice,
        TableRow,
        TableSelection,
    )
    from .refusal import Aligned, Extents, Residency
    from .table import Kernel

    Candidate = tuple[ShippedConfiguration, TableChoice | None, str]  # what may run, as the row has it, why


class Decision:
    """What runs, and why. `default` is that of the problem. `answer` is what the table has for it, None for nothing.

    `choice` is the row's entry for what runs, if it has one; `selection` what decided, and `costs` what it says of each
    of its choices, if a selection did, `default_cost` of the default. `operands` are those of the problem with the
    configuration, `extents` the grid, the block, the shared bytes and the cluster of each launch. `why` holds the steps
    that led there, `passed_over` those of them that passed over a configuration. `warning` says what speaks against the
    rows, or that there are none.
    """

    __slots__ = (
        "answer",
        "choice",
        "costs",
        "default",
        "default_cost",
        "extents",
        "operands",
        "passed_over",
        "problem",
        "selection",
        "shipment",
        "shipped",
        "warning",
        "why",
    )

    def __init__(self, kernel: Kernel, problem: CalledProblem) -> None:
        self.shipment, self.problem = kernel.shipments[problem.key], problem
        self.default = self.shipped = self.shipment.default(default_at(kernel, problem.operands))
        self.answer: TableAnswer | None = None
        self.choice: TableChoice | None = None
        self.selection: TableSelection | None = None
        self.costs: tuple[int, ...] = ()
        self.default_cost: int | None = None
        self.operands: Operands = problem.operands
        self.extents: Extents = []
        self.warning = ""
        self.why: list[str] = []
        self.passed_over: list[str] = []

    @property
    def row(self) -> TableRow | None:
        """The row that answers, if one does."""
        return self.answer.row if self.answer else None

    @property
    def tuned(self) -> bool:
        """Whether the table has anything for the problem, as far as it was asked."""
        return self.answer is not None or not self.warning

    @property
    def device(self) -> str | None:
        """Whose rows or selection answers."""
        return self.answer.match.name if self.answer else None

    def pass_over(self, one: ShippedConfiguration | TableChoice | SelectedConfiguration, reason: str) -> None:
        """Note that a configuration does not run, and why."""
        note = f"passed over {described(one.implementation, one.configuration)}: {reason}"
        self.why.append(note)
        self.passed_over.append(note)


def decide(
    kernel: Kernel,
    problem: CalledProblem,
    aligned: Aligned,
    overrides: Overrides,
    libraries: Callable[[str, str], str | None] = lambda _module, _function: None,
    residency: Residency | None = None,
) -> Decision:
    """Return what runs the problem; `libraries` says why a library's function cannot be called, or None.

    `residency` says how many blocks the device holds at once, where the device can be asked.
    """
    decision = Decision(kernel, problem)
    tried: set[ShippedConfiguration] = set()
    for candidate, choice, why in _candidates(kernel, decision, overrides):
        if candidate in tried:
            continue
        tried.add(candidate)
        operands: Operands = {**problem.operands, **candidate.operands}
        extents: Extents = []
        reason = refusal(kernel, candidate, operands, problem.device, aligned, extents, residency)
        called = kernel.implementations[candidate.implementation].call
        if reason is None and called is not None:
            reason = libraries(called.module, called.function)
        if reason is None:
            decision.shipped, decision.choice = candidate, choice
            decision.operands, decision.extents = operands, extents
            decision.why.append(why)
            return decision
        decision.pass_over(candidate, reason)
    dims = ", ".join(f"{name}={problem.values[name]}" for name in (*sorted(kernel.dims), *kernel.strides))
    raise ArgumentError(
        f"{qualified(kernel.name)}: no configuration can run this call ({dims}): {'; '.join(decision.passed_over)}"
    )


def _candidates(kernel: Kernel, decision: Decision, overrides: Overrides) -> Iterator[Candidate]:
    """Yield what may run, the best first and the default last; notes on the way go to `decision`."""
    shipment, default = decision.shipment, decision.default
    for forced in overrides.forced(kernel, shipment.listed):
        yield forced, None, overrides.asked_by("config", kernel)
    if overrides.defaults(kernel):
        yield default, None, f"{overrides.asked_by('defaults', kernel)}: the default"
        return
    find_answer(kernel, decision, overrides)
    if decision.warning and overrides.strict:
        raise UntunedError(f"{qualified(kernel.name)}: {decision.warning}, and strict is set (PRETUNED_STRICT)")
    last = _default_of_row(decision)
    for choice in decision.row.choices if decision.row is not None else ():
        candidate = shipment.of(choice)
        if candidate is default or _is_default_there(candidate, choice, decision):
            break
        if candidate is None:
            decision.pass_over(choice, "not shipped")
        else:
            yield candidate, choice, "the row's choice"
    if decision.row is not None and decision.row.choices[:1] == (last[1],):
        yield last
    if decision.answer is not None and decision.answer.selection is not None:
        yield from _selected(decision, decision.answer.selection, last)
    yield last


def _default_of_row(decision: Decision) -> Candidate:
    """Return the problem's default as the row has it, if it does."""
    for choice in decision.row.choices if decision.row is not None else ():
        if decision.shipment.of(choice) is decision.default:
            return decision.default, choice, "the row's default"
    return decision.default, None, "the default"


def _is_default_there(candidate: ShippedConfiguration | None, choice: TableChoice, decision: Decision) -> bool:
    """Return whether a choice is the default at the sizes of the nearest row, which may not be the one here."""
    row = decision.row
    return candidate in decision.shipment.defaults and row is not None and choice is row.choices[-1]


def _selected(decision: Decision, selection: TableSelection, last: Candidate) -> Iterator[Candidate]:
    """Yield what a selection predicts to be faster than the default by its margin, the fastest first."""
    shipment, default, values = decision.shipment, decision.default, decision.problem.values
    decision.selection, decision.costs = selection, selection.costs_at(values)
    faster: list[SelectedConfiguration] = []
    if (place := _place_of(default, selection, shipment)) is not None:
        decision.default_cost = decision.costs[place]
        *faster, _ = selection.ranked(decision.costs, values, place)
    for one in faster:
        candidate = shipment.of(one)
        if candidate is None:
            decision.pass_over(one, "not shipped")
        else:
            yield candidate, None, "the selection's choice"
    yield default, last[1], last[2] if last[1] else "the selection's default"


def _place_of(default: ShippedConfiguration, selection: TableSelection, shipment: Shipment) -> int | None:
    """Return the place of the default among a selection's choices: the last, or None for one that was never timed."""
    last = len(selection.choices) - 1
    if len(shipment.defaults) == 1:
        return last
    return next((place for place in range(last, -1, -1) if shipment.of(selection.choices[place]) is default), None)


def find_answer(kernel: Kernel, decision: Decision, overrides: Overrides) -> None:
    """Fill in what the table has for the problem, and on which device it was measured; or why there is nothing."""
    problem, facts = decision.problem, overrides.facts(kernel)
    table, wanted = overrides.table_of(kernel).of(problem.key), overrides.device(kernel)
    if wanted is None:
        found = table.answer(problem, facts)
    else:
        match = Match(wanted, f"{overrides.asked_by('device', kernel)} '{wanted}'")
        found = table.first([match], problem.sizes)
    if found is None:
        because = too_far(problem.device, table.devices, facts) if wanted is None else ""
        decision.warning = f"no row for the device '{wanted or problem.device.name}' or one like it{because}"
        decision.why.append(decision.warning)
        return
    decision.answer, match = found, found.match
    decision.why.append(match.why)
    if found.row is not None and not found.exact:
        decision.why.append(f"there is no selection, and {listed(found.row.measured)} was measured nearest")
    if match.doubt:
        decision.warning = (
            f"no row for the device '{problem.device.name}', and those of '{match.name}' are used: {match.doubt}"
        )
        decision.why.append(match.doubt)


def listed(sizes: dict[str, int]) -> str:
    """Return sizes as messages have them."""
    return ", ".join(f"{name}={size}" for name, size in sorted(sizes.items()))
