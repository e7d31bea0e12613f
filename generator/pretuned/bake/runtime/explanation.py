"""`explain`: which configuration would run a problem, on which evidence. Needs no GPU where a device is named."""

from __future__ import annotations

from . import KERNELS, PACKAGE
from .arrays import cupy as find_cupy
from .checks import admit, stated
from .devices import Device, in_hand, named, unknown
from .errors import ArgumentError, closest, qualified
from .lookup import decide
from .overrides import describe, overrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Kernel, Row, Values
    from .lookup import Decision
    from .overrides import Overrides


class Explanation:
    """What would run, and why; `str()` of it is for people.

    `device` is the device asked for and `rows_of` the one whose row answers; `bucket` the row's lower bounds and
    `measured` its sizes. Times are in us; `ratio` is the 95% interval of the time over the default's. `alternatives`
    are the row's other choices as (implementation, configuration, time_us). What the table does not have is
    None or an empty string.
    """

    __slots__ = (
        "alternatives",
        "bucket",
        "compiler",
        "configuration",
        "date",
        "default_us",
        "device",
        "driver",
        "implementation",
        "kernel",
        "measured",
        "problem",
        "ratio",
        "recompiled",
        "rows_of",
        "time_us",
        "tuned",
        "why",
    )

    def __init__(self, kernel: Kernel, device: Device, problem: Values, decision: Decision) -> None:
        choice, row = decision.choice, decision.row
        self.kernel = qualified(kernel.name)
        self.device, self.rows_of = device.name, decision.device
        self.problem = problem
        self.implementation, self.configuration = decision.shipped[1], decision.shipped[2]
        self.why, self.tuned = tuple(decision.why), decision.tuned
        self.bucket = row[1] if row else None
        self.measured = row[2] if row else None
        self.time_us = choice[2] if choice else None
        self.default_us = row[3][-1][2] if row and row[3] else None
        self.ratio = choice[3] if choice else None
        self.recompiled = bool(choice and choice[5])
        self.date, self.driver, self.compiler = row[4] if row else ("", "", "")
        self.alternatives = _others(row, decision)

    def __str__(self) -> str:
        problem = ", ".join(f"{name}={value}" for name, value in sorted(self.problem.items()))
        lines = [
            f"{self.kernel}({problem}) on {self.device}",
            f"  runs    {describe(self.implementation, self.configuration)}",
            f"  why     {'; '.join(self.why)}",
        ]
        if self.measured is not None:
            sizes = ", ".join(f"{name}={size}" for name, size in sorted(self.measured.items()))
            lower = ", ".join(f"{name} from {size}" for name, size in sorted((self.bucket or {}).items()))
            lines.append(f"  row     {self.rows_of}: measured at {sizes}{f' ({lower})' if lower else ''}")
        if self.time_us is not None and self.ratio is not None:
            low, high = self.ratio
            default = f", default {self.default_us:.2f} us" if self.default_us is not None else ""
            lines.append(f"  time    {self.time_us:.2f} us{default}, ratio {low:.3f} to {high:.3f}")
        if self.date:
            recompiled = "; what ships was recompiled since" if self.recompiled else ""
            lines.append(f"  on      {self.date}, driver {self.driver}, NVRTC {self.compiler}{recompiled}")
        lines += [f"  else    {describe(way, values)} ({time_us:.2f} us)" for way, values, time_us in self.alternatives]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Explanation of {self.kernel}: {describe(self.implementation, self.configuration)}>"


def _others(row: Row | None, decision: Decision) -> tuple[tuple[str, Values, float], ...]:
    choices = row[3] if row else ()
    return tuple((choice[0], choice[1], choice[2]) for choice in choices if choice is not decision.choice)


def explain(kernel: object, device: str | None, problem: Values) -> Explanation:
    """Return what would run `problem` (dims and specialisations by name) with aligned arrays.

    Without `device`, and without PRETUNED_DEVICE, the current GPU is asked. Raises a PretunedError for a kernel,
    device or problem that the package does not know.
    """
    name = kernel if isinstance(kernel, str) else str(getattr(kernel, "__name__", kernel))
    name = name.removeprefix(f"{PACKAGE}.")
    if name not in KERNELS:
        raise ArgumentError(
            f"{PACKAGE} has no kernel '{name}'{closest(name, KERNELS)}; it has {', '.join(sorted(KERNELS))}"
        )
    found, wishes = KERNELS[name], overrides()
    facts = _device(found, device, wishes)
    specialisation, values = stated(found, problem)
    admit(found, values, facts)
    decision = decide(found, facts, specialisation, values, lambda _name, _size: True, wishes)
    return Explanation(found, facts, {key: values[key] for key in {**found.dims, **specialisation}}, decision)


def _device(kernel: Kernel, wanted: str | None, wishes: Overrides) -> Device:
    """Return the device to explain for: the one asked for, PRETUNED_DEVICE's, or the current one."""
    wanted = wanted or wishes.device
    if wanted is None:
        cupy = find_cupy(kernel.name)
        return in_hand(cupy, cupy.cuda.runtime.getDevice())
    facts = wishes.facts(kernel)
    if (name := named(wanted, facts)) is None:
        raise ArgumentError(f"{qualified(kernel.name)}: {unknown(wanted, facts)}")
    return Device(name, facts[name])
