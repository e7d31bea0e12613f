"""A tuning as results: every candidate that the user cache remembers of a row, or else what the row itself lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pretuned.exchange.results import CORRECT, ParameterValue, Results
from pretuned.outcome import CompileError, Crashed, LaunchFailed, Outcome, TimedOut, WrongResult
from pretuned.record.cache import Cache
from pretuned.record.rows import Row, TunedDevice
from pretuned.render import RenderError, candidate
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts
from pretuned.tune.results import KnownResults, context_of

ABSENT: Final = "-"  # what a configuration has for a parameter of another implementation
_INVALIDITY: Final[dict[type[Outcome], str]] = {
    CompileError: "compile",
    LaunchFailed: "runtime",
    Crashed: "runtime",
    WrongResult: "correctness",
    TimedOut: "timeout",
}
Measured = tuple[Configuration, float, str]  # with the time in microseconds, and T4's word for what became of it


def results_of(rows: Iterable[Row], device: TunedDevice, spec: KernelSpec | None, cache: Cache | None) -> Results:
    """Return what was measured for `rows`, all of one kernel on one device.

    A configuration has the parameters' values, the dims and the specialisation of its problem, and the name of its
    implementation where the kernel has several. Without a spec or a cache, the rows' own choices are all there is.
    """
    entries: list[tuple[Mapping[str, ParameterValue], float, str]] = []
    for row in rows:
        remembered = list(_remembered(row, device, spec, cache)) if spec is not None and cache is not None else []
        listed = {choice.configuration: (choice.configuration, choice.time_us, CORRECT) for choice in row.choices}
        known = {configuration for configuration, _, _ in remembered}
        found = [*remembered, *(entry for configuration, entry in listed.items() if configuration not in known)]
        entries += [(_values(row, configuration), time_us, kind) for configuration, time_us, kind in found]
    names = sorted({name for values, _, _ in entries for name in values})
    return Results.of(
        [{name: values.get(name, ABSENT) for name in names} for values, _, _ in entries],
        [time_us for _, time_us, _ in entries],
        [kind for _, _, kind in entries],
    )


def _remembered(row: Row, device: TunedDevice, spec: KernelSpec, cache: Cache) -> Iterator[Measured]:
    """Yield what became of each configuration that was tried at the row's problem."""
    context = context_of(spec, row.device, device, row.driver, row.compiler, row.verification)
    known = KnownResults(
        cache,
        lambda: context,
        lambda wanted: candidate(spec, row.specialisation, wanted),
        (row.kernel, row.device),
    )
    facts = DeviceFacts(
        sm_count=device.sm_count,
        compute_capability=device.compute_capability,
        shared_bytes=device.shared_bytes,
        l2_bytes=device.l2_bytes,
    )
    for configuration in space.configurations(spec, row.problem, device=facts):
        try:
            outcome = known.outcome(configuration, row.problem)
        except RenderError:
            continue
        if outcome is not None:
            yield configuration, getattr(outcome, "time_us", math.inf), _INVALIDITY.get(type(outcome), CORRECT)


def _values(row: Row, configuration: Configuration) -> Mapping[str, ParameterValue]:
    several = {} if configuration.implementation == "main" else {"implementation": configuration.implementation}
    return {**dict(row.problem.dims), **dict(row.specialisation), **several, **dict(configuration.values)}
