"""Which configuration runs a problem: pure, so that a call and `explain` cannot differ.

In order: an override that fits, the choices of the row, the default. A choice is passed over where a condition on the
dims or an alignment does not hold, or where it does not fit the device in hand; the reason is kept. Beyond the sizes
measured, only choices that have beaten the default there as well are taken.
"""

from __future__ import annotations

import math
from bisect import bisect_right

from .configurations import describe, fits, not_shipped, same
from .devices import match, runs
from .errors import ArgumentError, UntunedError, qualified
from .expressions import Integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from . import Choice, Formula, Kernel, Launch, Row, Shipped, Value, Values
    from .devices import Device
    from .overrides import Overrides

    Extent = tuple[int, int, int]
    Aligned = Callable[[str, int], bool]  # whether an argument's address is a multiple of so many bytes

GRID_LIMITS = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS = (1024, 1024, 64)
_REGISTER_UNIT = 8  # registers are given out by 8 a thread, to warps of 32 threads
_WARP = 32


class Decision:
    """What runs, and why. `row` is None where the table has none that answers, `tuned` where that is for lack of rows.

    `device` names whose rows answered; `choice` is the row's entry for what runs, if it has one.
    """

    __slots__ = ("choice", "device", "row", "shipped", "tuned", "values", "why")

    def __init__(self, shipped: Shipped, values: Values) -> None:
        self.shipped, self.values = shipped, values
        self.row: Row | None = None
        self.choice: Choice | None = None
        self.device: str | None = None
        self.tuned = True
        self.why: list[str] = []


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
    shipped = [entry for entry in kernel.shipped if entry[0] == specialisation]
    decision = Decision(shipped[0], values)
    for candidate, choice, why in _candidates(kernel, device, shipped, decision, overrides):
        known = values | candidate[2]
        reason = refusal(kernel, candidate, known, device, aligned)
        called = kernel.implementations[candidate[1]].call
        if reason is None and called is not None:
            reason = libraries(called[0], called[1])
        if reason is None:
            decision.shipped, decision.choice, decision.values = candidate, choice, known
            decision.why.append(why)
            return decision
        decision.why.append(f"passed over {describe(candidate[1], candidate[2])}: {reason}")
    dims = ", ".join(f"{name}={values[name]}" for name in sorted(kernel.dims))
    reasons = "; ".join(dict.fromkeys(reason for reason in decision.why if reason.startswith("passed over")))
    raise ArgumentError(f"{qualified(kernel.name)}: no configuration can run this call ({dims}): {reasons}")


def _candidates(
    kernel: Kernel, device: Device, shipped: list[Shipped], decision: Decision, overrides: Overrides
) -> Iterator[tuple[Shipped, Choice | None, str]]:
    """Yield what may run, the best first and the default last; notes on the way go to `decision`."""
    default = shipped[0]
    if (wanted := overrides.configurations.get(kernel.name)) is not None:
        forced = [entry for entry in shipped if fits(wanted, entry)]
        if not forced:
            raise not_shipped(kernel, wanted, tuple(shipped), overrides.asked_by("config", kernel))
        for entry in forced:
            yield entry, None, overrides.asked_by("config", kernel)
    if overrides.defaults(kernel):
        yield default, None, f"{overrides.asked_by('defaults', kernel)}: the default"
        return
    find_row(kernel, device, default[0], decision, overrides)
    if decision.row is None:
        if overrides.strict:
            raise UntunedError(f"{qualified(kernel.name)}: {decision.why[-1]}, and strict is set (PRETUNED_STRICT)")
        yield default, None, "the default"
        return
    directions = beyond(kernel, decision.values)
    for choice in decision.row[3]:
        candidate = _shipped(shipped, choice)
        if candidate is None or (candidate is not default and not directions <= set(choice[4])):
            what = describe(choice[0], choice[1])
            reason = (
                "not shipped"
                if candidate is None
                else f"not confirmed beyond the sizes ({', '.join(sorted(directions))})"
            )
            decision.why.append(f"passed over {what}: {reason}")
            continue
        yield candidate, choice, "the row's default" if candidate is default else "the row's choice"
    yield default, None, "the default"


def _shipped(shipped: list[Shipped], choice: Choice) -> Shipped | None:
    return next((entry for entry in shipped if entry[1] == choice[0] and same(choice[1], entry[2])), None)


def find_row(kernel: Kernel, device: Device, specialisation: Values, decision: Decision, overrides: Overrides) -> None:
    """Fill in the row that answers for the problem, and the device it was measured on; or why there is none."""
    rows = {
        name: [row for row in of_device if row[0] == specialisation]
        for name, of_device in sorted(overrides.rows(kernel).items())
    }
    rows = {name: of_device for name, of_device in rows.items() if of_device}
    wanted = overrides.device(kernel)
    if wanted is not None:
        found = (wanted, overrides.asked_by("device", kernel)) if wanted in rows else None
    else:
        found = match(device, rows, overrides.facts(kernel))
    if found is None:
        decision.tuned = False
        decision.why.append(f"no row for the device '{wanted or device.name}' or one like it")
        return
    decision.device, why = found
    sizes = bucket(kernel, decision.values)
    exact = [row for row in rows[decision.device] if row[2] == sizes]
    decision.row = (
        exact[0] if exact else min(rows[decision.device], key=lambda row: (_far(row[2], sizes), sorted(row[2].items())))
    )
    nearest = (
        "" if exact else f"; the bucket of {_sizes(sizes)} has no row of its own, {_sizes(decision.row[2])} is nearest"
    )
    decision.why.append(f"{why} '{decision.device}'{nearest}" if wanted is not None else f"{why}{nearest}")


def bucket(kernel: Kernel, values: Values) -> dict[str, int]:
    """Return the measured sizes that answer for the dims in `values`."""
    return {name: sizes[bisect_right(kernel.edges[name], int(values[name]))] for name, sizes in kernel.sizes.items()}


def beyond(kernel: Kernel, values: Values) -> set[str]:
    """Return the directions (`n<`, `n>`) in which the dims lie outside what was measured; one size has no outside."""
    directions = set()
    for name, sizes in kernel.sizes.items():
        if len(sizes) > 1 and int(values[name]) < sizes[0]:
            directions.add(f"{name}<")
        if len(sizes) > 1 and int(values[name]) > sizes[-1]:
            directions.add(f"{name}>")
    return directions


def _far(left: dict[str, int], right: dict[str, int]) -> float:
    return math.hypot(*(math.log(max(1, left[name]) / max(1, size)) for name, size in right.items()))


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sorted(sizes.items()))


def refusal(kernel: Kernel, entry: Shipped, values: Values, device: Device, aligned: Aligned) -> str | None:
    """Return why a configuration cannot run the problem on the device, or None."""
    implementation = kernel.implementations[entry[1]]
    for text, condition in implementation.where:
        if not holds(condition, values, device):
            return f"'{text}' does not hold"
    for name, size in entry[4].items():
        if not aligned(name, size):
            return f"{name} is not aligned to {size} bytes"
    for launch in implementation.launches:
        try:
            reason = _misfit(kernel, entry, launch, values, device)
        except ArithmeticError as error:
            reason = f"what it launches cannot be worked out ({error})"
        if reason is not None:
            return reason
    return None


def _misfit(kernel: Kernel, entry: Shipped, launch: Launch, values: Values, device: Device) -> str | None:
    """Return what a launch takes more of than the device has, or None."""
    block = extent(launch.block, values, device)
    threads = math.prod(block)
    for axis, size, limit in zip("xyz", block, BLOCK_LIMITS, strict=True):
        if not 1 <= size <= limit:
            return f"a block of {size} threads along {axis}, and 1 to {limit} are possible"
    if not 0 < threads <= device.max_threads:
        return f"{threads} threads a block, and the device takes 1 to {device.max_threads}"
    registers, static_bytes = _resources(kernel, entry[3], launch.function, device)
    shared_bytes = static_bytes + evaluate(launch.shared, values, device)
    if 0 < device.shared_bytes < shared_bytes:
        return f"{shared_bytes} bytes of shared memory a block, and the device has {device.shared_bytes}"
    taken = math.ceil(registers / _REGISTER_UNIT) * _REGISTER_UNIT * math.ceil(threads / _WARP) * _WARP
    if taken > device.registers:
        return f"{taken} registers a block, and the device has {device.registers}"
    for axis, size, limit in zip("xyz", extent(launch.grid, values, device), GRID_LIMITS, strict=True):
        if not 0 <= size <= limit:
            return f"a grid of {size} blocks along {axis}, and 0 to {limit} are possible"
    return None


def _resources(kernel: Kernel, module: str, function: str, device: Device) -> tuple[int, int]:
    """Return registers a thread and static shared bytes a block of the cubin for a device; (0, 0) where not known."""
    cubins = [image for image in kernel.modules[module][2] if image[0].startswith("sm_")]
    fitting = [(name, resources) for name, _, resources in cubins if runs(name, device.compute_capability)]
    if not fitting:
        return 0, 0
    _, resources = max(fitting, key=lambda image: int(image[0].removeprefix("sm_").rstrip("a")))
    return resources.get(function, (0, 0))
