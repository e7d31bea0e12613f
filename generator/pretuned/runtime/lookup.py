"""Which configuration runs a problem: pure, so that a call and `explain` cannot differ.

In order: an override that fits, the choices of the row, the default. A choice is passed over where a condition on the
dims or an alignment does not hold, or where it does not fit the device at hand; the reason is kept. Beyond the sizes
measured, only choices that have beaten the default there as well are taken.
"""

from __future__ import annotations

import math

from .buckets import bucket_of, distance
from .devices import Match, itself, runs, siblings, too_far
from .errors import ArgumentError, UntunedError, qualified
from .expressions import Integer
from .limits import BLOCK_LIMITS, GRID_LIMITS, registers_taken
from .records import EntryPoint
from .text import described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .devices import Device
    from .overrides import Overrides
    from .records import ShippedConfiguration, TableChoice, TableRow, Value, Values
    from .table import Devices, Formula, Kernel, Launch

    Extent = tuple[int, int, int]
    Aligned = Callable[[str, int], bool]  # whether an argument's address is a multiple of so many bytes


class Decision:
    """What runs, and why. `row` is None where the table has none that answers, `tuned` whether it has rows at all.

    `device` names whose rows answered; `choice` is the row's entry for what runs, if it has one. `why` holds the steps
    that led there, `passed_over` those of them that passed over a configuration. `warning` says what speaks against the
    rows, or that there are none.
    """

    __slots__ = ("choice", "device", "passed_over", "row", "shipped", "tuned", "values", "warning", "why")

    def __init__(self, shipped: ShippedConfiguration, values: Values) -> None:
        self.shipped, self.values = shipped, values
        self.row: TableRow | None = None
        self.choice: TableChoice | None = None
        self.device: str | None = None
        self.tuned = True
        self.warning = ""
        self.why: list[str] = []
        self.passed_over: list[str] = []

    def pass_over(self, one: ShippedConfiguration | TableChoice, reason: str) -> None:
        """Note that a configuration does not run, and why."""
        note = f"passed over {described(one.implementation, one.configuration)}: {reason}"
        self.why.append(note)
        self.passed_over.append(note)


def evaluate(function: Formula, values: Values, device: Device) -> int:
    """Return the value of an expression, given by the names it reads."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    result: int = function(**{name: device if name == "device" else _operand(values[name]) for name in names})
    return result


def _operand(value: Value) -> Value:
    return value if isinstance(value, str) else Integer(value)  # a string is a type, which only sizeof() reads


def holds(condition: Formula, values: Values, device: Device) -> bool:
    """Return whether a condition holds; one without a value does not."""
    try:
        return bool(evaluate(condition, values, device))
    except ArithmeticError:
        return False


def sizes_of(function: Formula, values: Values, device: Device) -> tuple[int, ...]:
    """Return the values of several expressions, such as a shape."""
    several: Any = evaluate(function, values, device)
    return tuple(int(size) for size in several)


def extent(function: Formula, values: Values, device: Device) -> Extent:
    """Return a grid or block as (x, y, z)."""
    x, y, z = sizes_of(function, values, device)
    return x, y, z


def decide(
    kernel: Kernel,
    device: Device,
    specialisation: Values,
    values: Values,
    aligned: Aligned,
    overrides: Overrides,
    libraries: Callable[[str, str], str | None] = lambda _module, _function: None,
) -> Decision:
    """Return what runs the problem; `values` holds dims, specialisation and the types that follow.

    `libraries` says why a library's function cannot be called, or None.
    """
    shipped = [one for one in kernel.shipped if one.specialisation == specialisation]
    decision = Decision(shipped[0], values)
    for candidate, choice, why in _candidates(kernel, device, shipped, decision, overrides):
        known = values | candidate.configuration
        reason = refusal(kernel, candidate, known, device, aligned)
        called = kernel.implementations[candidate.implementation].call
        if reason is None and called is not None:
            reason = libraries(called.module, called.function)
        if reason is None:
            decision.shipped, decision.choice, decision.values = candidate, choice, known
            decision.why.append(why)
            return decision
        decision.pass_over(candidate, reason)
    dims = ", ".join(f"{name}={values[name]}" for name in sorted(kernel.dims))
    reasons = "; ".join(dict.fromkeys(decision.passed_over))
    raise ArgumentError(f"{qualified(kernel.name)}: no configuration can run this call ({dims}): {reasons}")


def _candidates(
    kernel: Kernel, device: Device, shipped: list[ShippedConfiguration], decision: Decision, overrides: Overrides
) -> Iterator[tuple[ShippedConfiguration, TableChoice | None, str]]:
    """Yield what may run, the best first and the default last; notes on the way go to `decision`."""
    default = shipped[0]
    for forced in overrides.forced(kernel, shipped):
        yield forced, None, overrides.asked_by("config", kernel)
    if overrides.defaults(kernel):
        yield default, None, f"{overrides.asked_by('defaults', kernel)}: the default"
        return
    find_row(kernel, device, default.specialisation, decision, overrides)
    if decision.warning and overrides.strict:
        raise UntunedError(f"{qualified(kernel.name)}: {decision.warning}, and strict is set (PRETUNED_STRICT)")
    if decision.row is None:
        yield default, None, "the default"
        return
    directions = beyond(kernel, decision.values)
    for choice in decision.row.choices:
        candidate = next((one for one in shipped if one.runs(choice.implementation, choice.configuration)), None)
        if candidate is None:
            decision.pass_over(choice, "not shipped")
        elif candidate is not default and not directions <= set(choice.beyond):
            decision.pass_over(choice, f"not confirmed beyond the sizes ({', '.join(sorted(directions))})")
        else:
            yield candidate, choice, "the row's default" if candidate is default else "the row's choice"
    yield default, None, "the default"


def find_row(kernel: Kernel, device: Device, specialisation: Values, decision: Decision, overrides: Overrides) -> None:
    """Fill in the row that answers for the problem, and the device it was measured on; or why there is none."""
    rows = {
        name: [row for row in of_device if row.specialisation == specialisation]
        for name, of_device in sorted(overrides.rows(kernel).items())
    }
    rows = {name: of_device for name, of_device in rows.items() if of_device}
    wanted, facts, sizes = overrides.device(kernel), overrides.facts(kernel), bucket(kernel, decision.values)
    if wanted is None:
        found = _answering(device, rows, facts, decision.values, sizes)
    else:
        found = _row(Match(wanted, f"{overrides.asked_by('device', kernel)} '{wanted}'"), rows, decision.values, sizes)
    if found is None:
        decision.tuned = False
        because = too_far(device, rows, facts) if wanted is None else ""
        decision.warning = f"no row for the device '{wanted or device.name}' or one like it{because}"
        decision.why.append(decision.warning)
        return
    match, decision.row = found
    decision.device = match.name
    decision.why.append(match.why)
    if decision.row.measured != sizes:
        measured = _sizes(decision.row.measured)
        decision.why.append(f"the bucket of {_sizes(sizes)} has no row of its own, {measured} is nearest")
    if match.doubt:
        decision.warning = f"no row for the device '{device.name}', and those of '{match.name}' are used: {match.doubt}"
        decision.why.append(match.doubt)


def _answering(
    device: Device, rows: dict[str, list[TableRow]], facts: Devices, values: Values, sizes: dict[str, int]
) -> tuple[Match, TableRow] | None:
    """Return whose row answers, and the row: its own, else that of the nearest device, else that of another size.

    A device's own row at another size comes behind a row for this very size of a device like it: between sizes more is
    lost than between such devices. What is taken with a warning comes last.
    """
    own = itself(device, rows, facts)
    if own is not None and (found := _row(own, rows, values, sizes, exact=True)) is not None:
        return found  # siblings need not be compared, which asks the driver for the memory's bandwidth
    others = siblings(device, [name for name in rows if own is None or name != own.name], facts)
    alike = [*([own] if own is not None else []), *(one for one in others if not one.doubt)]
    for matches in (alike, [one for one in others if one.doubt]):
        for exact in (True, False):
            for match in matches:
                if (found := _row(match, rows, values, sizes, exact=exact)) is not None:
                    return found
    return None


def _row(
    match: Match, rows: dict[str, list[TableRow]], values: Values, sizes: dict[str, int], *, exact: bool = False
) -> tuple[Match, TableRow] | None:
    """Return a device's row of the bucket `sizes`, else the one that was measured nearest to the call's own sizes."""
    of_device = rows.get(match.name, [])
    row = next((row for row in of_device if row.measured == sizes), None)
    if row is None and of_device and not exact:
        called = {name: int(values[name]) for name in sizes}
        row = min(of_device, key=lambda row: (distance(row.measured, called), sorted(row.measured.items())))
    return None if row is None else (match, row)


def bucket(kernel: Kernel, values: Values) -> dict[str, int]:
    """Return the measured sizes that answer for the dims in `values`."""
    return {name: bucket_of(sizes, kernel.edges[name], int(values[name])) for name, sizes in kernel.sizes.items()}


def beyond(kernel: Kernel, values: Values) -> set[str]:
    """Return the directions (`n<`, `n>`) in which the dims lie outside what was measured; one size has no outside."""
    directions = set()
    for name, sizes in kernel.sizes.items():
        if len(sizes) > 1 and int(values[name]) < sizes[0]:
            directions.add(f"{name}<")
        if len(sizes) > 1 and int(values[name]) > sizes[-1]:
            directions.add(f"{name}>")
    return directions


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sorted(sizes.items()))


def refusal(
    kernel: Kernel, entry: ShippedConfiguration, values: Values, device: Device, aligned: Aligned
) -> str | None:
    """Return why a configuration cannot run the problem on the device, or None."""
    implementation = kernel.implementations[entry.implementation]
    for text, condition in implementation.where:
        if not holds(condition, values, device):
            return f"'{text}' does not hold"
    for name, size in entry.align.items():
        if not aligned(name, size):
            return f"{name} is not aligned to {size} bytes"
    for buffer in implementation.scratch:
        try:
            sizes_of(buffer.shape, values, device)
        except ArithmeticError as error:
            return f"the size of its scratch '{buffer.name}' cannot be worked out ({error})"
    for launch in implementation.launches:
        try:
            reason = _misfit(kernel, entry, launch, values, device)
        except ArithmeticError as error:
            reason = f"what it launches cannot be worked out ({error})"
        if reason is not None:
            return reason
    return None


def _misfit(kernel: Kernel, entry: ShippedConfiguration, launch: Launch, values: Values, device: Device) -> str | None:
    """Return what a launch takes more of than the device has, or None."""
    block = extent(launch.block, values, device)
    threads = math.prod(block)
    for axis, size, limit in zip("xyz", block, BLOCK_LIMITS, strict=True):
        if not 1 <= size <= limit:
            return f"a block of {size} threads along {axis}, and 1 to {limit} are possible"
    if not 0 < threads <= device.max_threads:
        return f"{threads} threads a block, and the device takes 1 to {device.max_threads}"
    resources = _resources(kernel, entry.source, launch.function, device)
    shared_bytes = resources.shared_bytes + evaluate(launch.shared, values, device)
    if 0 < device.shared_bytes < shared_bytes:
        return f"{shared_bytes} bytes of shared memory a block, and the device has {device.shared_bytes}"
    taken = registers_taken(resources.registers, threads)
    if taken > device.registers:
        return f"{taken} registers a block, and the device has {device.registers}"
    for axis, size, limit in zip("xyz", extent(launch.grid, values, device), GRID_LIMITS, strict=True):
        if not 0 <= size <= limit:
            return f"a grid of {size} blocks along {axis}, and 0 to {limit} are possible"
    return None


def _resources(kernel: Kernel, source: str, function: str, device: Device) -> EntryPoint:
    """Return what an entry point takes in the cubin for a device; zeros where that is not known."""
    cubins = [image for image in kernel.binaries[source].images if image.architecture.startswith("sm_")]
    fitting = [image for image in cubins if runs(image.architecture, device.compute_capability)]
    if not fitting:
        return EntryPoint()
    best = max(fitting, key=lambda image: int(image.architecture.removeprefix("sm_").rstrip("a")))
    return best.entry_points.get(function, EntryPoint())
