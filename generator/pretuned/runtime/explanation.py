"""`explain`: which configuration would run a problem, on which evidence. Needs no GPU where a device is named."""

from __future__ import annotations

from dataclasses import dataclass

from .binaries import residency
from .checks import admit, stated
from .devices import Device, in_hand, named, unknown
from .driver import driver
from .errors import ArgumentError, UnavailableError, no_kernel, qualified
from .libraries import missing
from .lookup import decide, listed
from .overrides import ambient
from .records import Evidence
from .refusal import refusal
from .table import KERNELS, PACKAGE
from .text import described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .lookup import Decision
    from .overrides import Overrides
    from .records import ShippedConfiguration, TableCertificate, Values
    from .table import Foreign, Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another configuration that ships for the specialisation.

    `time_us` is what the row measured of it, `spread_us` the 10th, 50th and 90th percentile of that, and `predicted_us`
    what the selection predicts, each None where there is none; `refused` says why it cannot run the problem, and is
    empty where it can, and PRETUNED_CONFIG or `using` may ask for it.
    """

    implementation: str
    configuration: Values
    time_us: float | None
    predicted_us: float | None
    refused: str
    spread_us: tuple[float, float, float] | None = None

    def __str__(self) -> str:
        said = [] if self.time_us is None else [f"{self.time_us:.2f} us"]
        said += [] if self.predicted_us is None else [f"predicted {self.predicted_us:.2f} us"]
        said += [self.refused] if self.refused else []
        return described(self.implementation, self.configuration) + (f" ({'; '.join(said)})" if said else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What would run, and why; `str()` of it is for people.

    `device` is the device asked for and `rows_of` the one whose row or selection answers; `measured` are the sizes of
    the row that answers. Times are in us; `ratio` is the 95% interval of the time over the default's, and `spread_us`
    are the 10th, 50th and 90th percentile of what was measured. `library` names the library, with its version, whose
    function was measured.

    Where a selection decides, `predicted_us` is the time that it predicts and `default_predicted_us` the default's.
    `margin` says by which share of that another configuration has to be faster (0.02 is 2%), and `within_reach` whether
    the prediction was fitted to such sizes. `nearest` are the sizes of the row nearest to the problem,
    `nearest_choice` and `nearest_us` the fastest there and its time. `certificate` says what the selection loses at
    problems that it was not made from.

    What the table does not have is None or an empty string.
    """

    kernel: str
    device: str
    problem: Values
    implementation: str
    configuration: Values
    why: tuple[str, ...]
    tuned: bool
    rows_of: str | None
    measured: dict[str, int] | None
    time_us: float | None
    default_us: float | None
    ratio: tuple[float, float] | None
    predicted_us: float | None
    default_predicted_us: float | None
    margin: float | None
    within_reach: bool | None
    nearest: dict[str, int] | None
    nearest_choice: str
    nearest_us: float | None
    certificate: TableCertificate | None
    recompiled: bool
    library: str
    date: str
    driver: str
    compiler: str
    alternatives: tuple[Alternative, ...]
    spread_us: tuple[float, float, float] | None = None

    def __str__(self) -> str:
        problem = ", ".join(f"{name}={value}" for name, value in sorted(self.problem.items()))
        lines = [
            f"{self.kernel}({problem}) on {self.device}",
            f"  runs    {described(self.implementation, self.configuration)}",
            f"  why     {'; '.join(self.why)}",
        ]
        if self.measured is not None:
            where = f"measured at {listed(self.measured)}" if self.measured else "measured"
            lines.append(f"  row     {self.rows_of}: {where}")
        if self.time_us is not None and self.ratio is not None:
            low, high = self.ratio
            default = f", default {self.default_us:.2f} us" if self.default_us is not None else ""
            lines.append(f"  time    {self.time_us:.2f} us{default}, ratio {low:.3f} to {high:.3f}")
        if self.spread_us is not None:
            lines.append(f"  spread  {spread_in_words(self.spread_us)}")
        lines += self._predicted()
        if self.date:
            note = "; what ships was recompiled since" if self.recompiled else ""
            note = f"; measured with {self.library}" if self.library else note
            # NVRTC is known by a version alone; the host's driver and compiler name themselves
            made = (f"driver {self.driver}", f"NVRTC {self.compiler}")
            made = made if self.compiler[:1].isdigit() else (self.driver, self.compiler)
            lines.append(f"  on      {', '.join((self.date, *made))}{note}")
        others = [one for one in self.alternatives if one.time_us or one.predicted_us or not one.refused]
        return "\n".join([*lines, *(f"  else    {one}" for one in others)])

    def _predicted(self) -> Iterator[str]:
        """Yield what a selection says, and what speaks for it."""
        if self.predicted_us is None or self.default_predicted_us is None:
            return
        second = next((one for one in self.alternatives if one.predicted_us is not None and not one.refused), None)
        next_best = f", next {second.predicted_us:.2f} us" if second is not None else ""
        yield f"  model   {self.predicted_us:.2f} us predicted{next_best}, default {self.default_predicted_us:.2f} us"
        outside = "" if self.within_reach else ", as it does outside of the sizes that the prediction was fitted to"
        if any(one.predicted_us is not None for one in self.alternatives):  # else only the default ships
            yield f"  margin  what is to run in the default's place has to be {self.margin:.1%} faster{outside}"
        if self.nearest is not None:
            yield f"  near    at {listed(self.nearest)}, measured: {self.nearest_choice} {self.nearest_us:.2f} us"
        if self.certificate is None:
            yield "  proof   not certified: nothing was measured to judge the prediction by"
            return
        yield f"  proof   certified: {self.certificate.inside}"
        if self.certificate.outside is not None:
            yield f"          outside the sizes: {self.certificate.outside}"


def spread_in_words(spread_us: tuple[float, float, float]) -> str:
    """Return percentiles in words."""
    low, middle, high = spread_us
    return f"10% below {low:.2f} us, half below {middle:.2f} us, 90% below {high:.2f} us"


def _explanation(kernel: Kernel, decision: Decision) -> Explanation:
    choice, row, selection = decision.choice, decision.row, decision.selection
    evidence = row.evidence if row else selection.evidence if selection else Evidence()
    predicted = _predictions(decision)
    values, ran = decision.problem.values, decision.shipped
    selected = (
        next((one for one in selection.choices if ran.runs(one.implementation, one.configuration)), None)
        if (selection)
        else None
    )
    nearest = decision.answer.of_device.nearest(decision.problem.sizes) if decision.answer and selection else None
    first = nearest.choices[0] if nearest and nearest.choices else None
    within = selection.reaches(values) if selection else None
    return Explanation(
        kernel=qualified(kernel.name),
        device=decision.problem.device.name,
        problem={name: values[name] for name in (*{**kernel.dims, **decision.problem.specialisation}, *kernel.strides)},
        implementation=ran.implementation,
        configuration=ran.configuration,
        why=tuple(decision.why),
        tuned=decision.tuned,
        rows_of=decision.device,
        measured=row.measured if row else None,
        time_us=choice.time_us if choice else None,
        default_us=row.choices[-1].time_us if row and row.choices else None,
        ratio=choice.ratio if choice else None,
        spread_us=choice.spread_us if choice else None,
        predicted_us=predicted.get(ran),
        default_predicted_us=None if decision.default_cost is None else decision.default_cost / 1e9,
        margin=selection.margins[0 if within else 1] / 1000 if selection else None,
        within_reach=within,
        nearest=nearest.measured if nearest and first else None,
        nearest_choice=described(first.implementation, first.configuration) if first else "",
        nearest_us=first.time_us if first else None,
        certificate=selection.certificate if selection else None,
        recompiled=any(one is not None and one.recompiled for one in (choice, selected)),
        library=next((one.library for one in (choice, selected) if one is not None), ""),
        date=evidence.date,
        driver=evidence.driver,
        compiler=evidence.compiler,
        alternatives=tuple(_alternatives(kernel, decision, predicted)),
    )


def _predictions(decision: Decision) -> dict[ShippedConfiguration, float]:
    """Return what the selection predicts of what ships, in us."""
    choices = decision.selection.choices if decision.selection else ()
    shipment = decision.shipment
    found = [(shipment.of(one), cost / 1e9) for one, cost in zip(choices, decision.costs, strict=True)]
    return {one: time_us for one, time_us in found if one is not None}


def _alternatives(
    kernel: Kernel, decision: Decision, predicted: Mapping[ShippedConfiguration, float]
) -> list[Alternative]:
    """Return what else ships for the specialisation, what was measured or predicted first, and the fastest of that."""
    problem, choices = decision.problem, decision.row.choices if decision.row else ()
    measured = {decision.shipment.of(one): one for one in choices}
    found = []
    for one in decision.shipment.listed:
        if one is not decision.shipped:
            operands = {**problem.operands, **one.operands}
            reason = refusal(kernel, one, operands, problem.device, lambda _name, _size: True, [])
            found.append(
                Alternative(
                    implementation=one.implementation,
                    configuration=one.configuration,
                    time_us=measured[one].time_us if one in measured else None,
                    spread_us=measured[one].spread_us if one in measured else None,
                    predicted_us=predicted.get(one),
                    refused=reason or "",
                )
            )
    last = float("inf")
    return sorted(found, key=lambda one: (one.time_us or last, one.predicted_us or last, str(one)))


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
    called = stated(found, problem, facts)
    admit(found, called)
    here: Foreign = {}  # beside a device that is only named, all libraries are installed
    if facts.ordinal >= 0:
        here = {"libraries": missing, "residency": residency(driver(qualified(found.name)), found, facts, 0)}
    return _explanation(found, decide(found, called, lambda _name, _size: True, overrides, **here))


def _device(kernel: Kernel, wanted: str | None, overrides: Overrides) -> Device:
    """Return the device to explain for: the one asked for, PRETUNED_DEVICE's, or the current one."""
    wanted = wanted or overrides.device(kernel)
    if wanted is None:
        try:
            found = driver(qualified(kernel.name))
        except UnavailableError:
            if overrides.table_of(kernel).devices:
                raise
            return Device("any GPU", {})  # without rows all run the default
        return in_hand(found, found.current())
    facts = overrides.facts(kernel)
    if (name := named(wanted, facts)) is None:
        raise ArgumentError(f"{qualified(kernel.name)}: {unknown(wanted, facts)}")
    return Device(name, facts[name])
