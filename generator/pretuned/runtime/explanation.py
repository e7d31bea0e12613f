"""`explain`: which configuration would run a problem, on which evidence. Needs no GPU where a device is named."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import admit, stated
from .devices import Device, in_hand, named, unknown
from .driver import driver
from .errors import ArgumentError, UnavailableError, no_kernel, qualified
from .libraries import missing
from .lookup import decide, refusal
from .overrides import ambient
from .records import Evidence
from .table import KERNELS, PACKAGE
from .text import described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .lookup import Decision
    from .overrides import Overrides
    from .records import ShippedConfiguration, Values
    from .table import Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another configuration that ships for the specialisation.

    `time_us` is what the row measured of it, None where it did not; `refused` says why it cannot run the problem, and
    is empty where it can, and PRETUNED_CONFIG or `using` may ask for it.
    """

    implementation: str
    configuration: Values
    time_us: float | None
    refused: str

    def __str__(self) -> str:
        said = [] if self.time_us is None else [f"{self.time_us:.2f} us"]
        said += [self.refused] if self.refused else []
        return described(self.implementation, self.configuration) + (f" ({'; '.join(said)})" if said else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What would run, and why; `str()` of it is for people.

    `device` is the device asked for and `rows_of` the one whose row answers; `bucket` the row's lower bounds and
    `measured` its sizes. Times are in us; `ratio` is the 95% interval of the time over the default's. `library` names
    the library, with its version, whose function was measured. What the table does not have is None or an empty string.
    """

    kernel: str
    device: str
    problem: Values
    implementation: str
    configuration: Values
    why: tuple[str, ...]
    tuned: bool
    rows_of: str | None
    bucket: dict[str, int] | None
    measured: dict[str, int] | None
    time_us: float | None
    default_us: float | None
    ratio: tuple[float, float] | None
    recompiled: bool
    library: str
    date: str
    driver: str
    compiler: str
    alternatives: tuple[Alternative, ...]

    def __str__(self) -> str:
        problem = ", ".join(f"{name}={value}" for name, value in sorted(self.problem.items()))
        lines = [
            f"{self.kernel}({problem}) on {self.device}",
            f"  runs    {described(self.implementation, self.configuration)}",
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
            note = "; what ships was recompiled since" if self.recompiled else ""
            note = f"; measured with {self.library}" if self.library else note
            lines.append(f"  on      {self.date}, driver {self.driver}, NVRTC {self.compiler}{note}")
        others = [one for one in self.alternatives if one.time_us is not None or not one.refused]
        return "\n".join([*lines, *(f"  else    {one}" for one in others)])


def _explanation(kernel: Kernel, device: Device, problem: Values, decision: Decision) -> Explanation:
    choice, row = decision.choice, decision.row
    evidence = row.evidence if row else Evidence()
    return Explanation(
        kernel=qualified(kernel.name),
        device=device.name,
        problem=problem,
        implementation=decision.shipped.implementation,
        configuration=decision.shipped.configuration,
        why=tuple(decision.why),
        tuned=decision.tuned,
        rows_of=decision.device,
        bucket=row.lower if row else None,
        measured=row.measured if row else None,
        time_us=choice.time_us if choice else None,
        default_us=row.choices[-1].time_us if row and row.choices else None,
        ratio=choice.ratio if choice else None,
        recompiled=bool(choice and choice.recompiled),
        library=choice.library if choice else "",
        date=evidence.date,
        driver=evidence.driver,
        compiler=evidence.compiler,
        alternatives=tuple(_alternatives(kernel, device, decision)),
    )


def _alternatives(kernel: Kernel, device: Device, decision: Decision) -> list[Alternative]:
    """Return what else ships for the specialisation, what the row measured first, and the fastest of that."""

    def measured(shipped: ShippedConfiguration) -> float | None:
        choices = decision.row.choices if decision.row else ()
        return next((one.time_us for one in choices if shipped.runs(one.implementation, one.configuration)), None)

    found = []
    for one in kernel.shipped:
        ran = one.runs(decision.shipped.implementation, decision.shipped.configuration)
        if one.specialisation == decision.shipped.specialisation and not ran:
            reason = refusal(kernel, one, decision.values | one.configuration, device, lambda _name, _size: True)
            found.append(
                Alternative(
                    implementation=one.implementation,
                    configuration=one.configuration,
                    time_us=measured(one),
                    refused=reason or "",
                )
            )
    return sorted(found, key=lambda one: (one.time_us is None, one.time_us or 0.0, str(one)))


def explain(kernel: object, device: str | None, problem: Values) -> Explanation:
    """Return what would run `problem` (dims and specialisations by name) with aligned arrays.

    Without `device`, and without PRETUNED_DEVICE, the current GPU is asked; where there is none, only a kernel without
    rows can be explained. Raises a PretunedError for a kernel,
    device or problem that the package does not know.
    """
    name = kernel if isinstance(kernel, str) else str(getattr(kernel, "__name__", kernel))
    name = name.removeprefix(f"{PACKAGE}.")
    if name not in KERNELS:
        raise ArgumentError(no_kernel(name))
    found, overrides = KERNELS[name], ambient()
    facts = _device(found, device, overrides)
    specialisation, values = stated(found, problem)
    admit(found, values, facts)
    here = {"libraries": missing} if facts.ordinal >= 0 else {}  # beside a device that is only named, all are installed
    decision = decide(found, facts, specialisation, values, lambda _name, _size: True, overrides, **here)
    return _explanation(found, facts, {key: values[key] for key in {**found.dims, **specialisation}}, decision)


def _device(kernel: Kernel, wanted: str | None, overrides: Overrides) -> Device:
    """Return the device to explain for: the one asked for, PRETUNED_DEVICE's, or the current one."""
    wanted = wanted or overrides.device(kernel)
    if wanted is None:
        try:
            found = driver(qualified(kernel.name))
        except UnavailableError:
            if any(overrides.rows(kernel).values()):
                raise
            return Device("any GPU", {})  # without rows all run the default
        return in_hand(found, found.current())
    facts = overrides.facts(kernel)
    if (name := named(wanted, facts)) is None:
        raise ArgumentError(f"{qualified(kernel.name)}: {unknown(wanted, facts)}")
    return Device(name, facts[name])
