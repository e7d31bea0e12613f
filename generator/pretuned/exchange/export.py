"""A tuning as results: every candidate that the user cache remembers of a row, or else what the row itself lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pretuned.exchange.results import CORRECT, ParameterValue, Results
from pretuned.outcome import CompileError, Crashed, LaunchFailed, Outcome, TimedOut, WrongResult
from pretuned.record.cache import Cache
from pretuned.record.rows import Row, TunedDevice
from pretuned.render import Candidate, RenderError, candidate
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Pairs
from pretuned.tune.results import KnownResults, context_of

ABSENT: Final = "-"  # what a configuration has for a parameter of another implementation
_INVALIDITY: Final[dict[type[Outcome], str]] = {
    CompileError: "compile",
    LaunchFailed: "runtime",
    Crashed: "runtime",
    WrongResult: "correctness",
    TimedOut: "timeout",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedResult:
    """What became of a configuration: the time in microseconds, inf of a failure, and T4's word for it."""

    configuration: Configuration
    time_us: float
    invalidity: str


def results_of(rows: Iterable[Row], device: TunedDevice, spec: KernelSpec | None, cache: Cache | None) -> Results:
    """Return what was measured for `rows`, all of one kernel on one device.

    A configuration has the parameters' values, the dims and the specialisation of its problem, and the name of its
    implementation where the kernel has several. Without a spec or a cache, the rows' own choices are all there is.
    """
    entries: list[tuple[Mapping[str, ParameterValue], float, str]] = []
    of_rows: dict[Row, list[RememberedResult]] = {row: [] for row in rows}
    for row, one in remembered(of_rows, device, spec, cache) if spec is not None and cache is not None else ():
        of_rows[row].append(one)
    for row, found in of_rows.items():
        known = {one.configuration for one in found}
        entries += [(_values(row, one.configuration), one.time_us, one.invalidity) for one in found]
        listed = {one.configuration: one.time_us for one in row.choices if one.configuration not in known}
        entries += [(_values(row, configuration), time_us, CORRECT) for configuration, time_us in listed.items()]
    names = sorted({name for values, _, _ in entries for name in values})
    return Results.of(
        [{name: values.get(name, ABSENT) for name in names} for values, _, _ in entries],
        [time_us for _, time_us, _ in entries],
        [kind for _, _, kind in entries],
    )


def remembered(
    rows: Iterable[Row], device: TunedDevice, spec: KernelSpec, cache: Cache
) -> Iterator[tuple[Row, RememberedResult]]:
    """Yield what became of each configuration that was tried at the problems of `rows`, all of `spec` on `device`."""
    rendered: dict[tuple[Pairs, Configuration], Candidate] = {}  # once for all rows, which share most of them
    facts = DeviceFacts(
        sm_count=device.sm_count,
        compute_capability=device.compute_capability,
        shared_bytes=device.shared_bytes,
        l2_bytes=device.l2_bytes,
    )
    for row in rows:
        for one in _of_row(row, device, facts, spec, cache, rendered):
            yield row, one


def _of_row(
    row: Row,
    device: TunedDevice,
    facts: DeviceFacts,
    spec: KernelSpec,
    cache: Cache,
    rendered: dict[tuple[Pairs, Configuration], Candidate],
) -> Iterator[RememberedResult]:
    def candidate_of(wanted: Configuration) -> Candidate:
        key = row.specialisation, wanted
        if key not in rendered:
            rendered[key] = candidate(spec, *key)
        return rendered[key]

    context = context_of(spec, row.device, device, row.driver, row.compiler, row.verification)
    known = KnownResults(cache, lambda: context, candidate_of, (row.kernel, row.device))
    for configuration in space.configurations(spec, row.problem, device=facts):
        try:
            outcome = known.outcome(configuration, row.problem)
        except RenderError:
            continue
        if outcome is not None:
            yield RememberedResult(
                configuration=configuration,
                time_us=getattr(outcome, "time_us", math.inf),
                invalidity=_INVALIDITY.get(type(outcome), CORRECT),
            )


def _values(row: Row, configuration: Configuration) -> Mapping[str, ParameterValue]:
    several = {} if configuration.implementation == "main" else {"implementation": configuration.implementation}
    return {**dict(row.problem.dims), **dict(row.specialisation), **several, **dict(configuration.values)}
