"""Measuring every configuration of a kernel at any problem: all are screened, and those of interest are raced."""

from __future__ import annotations

import datetime as dt
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure.launch import launches
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, Raced
from pretuned.measure.runner import Runner
from pretuned.outcome import Failure, LaunchFailed, Timed
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.tune.request import TuningDevice
from pretuned.tune.space.points import Points

NEAR = 1.10  # of the best of the screening: what is slower is not raced unless it is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The configurations of a kernel and specialisation that compiled, the defaults first, and their binaries."""

    spec: KernelSpec
    specialisation: Pairs
    entries: Mapping[Configuration, CompiledCandidate]
    binaries: Mapping[Configuration, Binary]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Microseconds of a call, by configuration: of all from the screening, of some from rounds of a race.

    A screening holds each launch back until the one before has ended, so that its times have gaps in them that a race,
    which replays graphs, does not have. `wrong` is what is wrong with those whose results were to be judged.
    """

    problem: Problem
    screened: Mapping[Configuration, float]
    rounds: Mapping[Configuration, Sequence[float]]
    wrong: Mapping[Configuration, Failure]

    @property
    def raced(self) -> dict[Configuration, float]:
        return {c: statistics.median(times) for c, times in self.rounds.items() if times}


def compile_spaces(
    wanted: Sequence[tuple[KernelSpec, Pairs, Sequence[Problem]]], device: TuningDevice
) -> Iterator[Compiled]:
    """Compile all that is legal at one of the problems or more, of every kernel and specialisation at once."""
    backend, spaces, by_architecture = device.backend, [], {}
    for spec, specialisation, problems in wanted:
        points = list(Points.of(spec, specialisation, problems, device.facts))
        called = {c for c in points if spec.all_implementations[c.implementation].call is not None}
        sources = {c: source_of(spec, specialisation, c) for c in points if c not in called}
        spaces.append((spec, specialisation, points, called, sources))
        for source in sources.values():
            by_architecture.setdefault(device.record.architecture_of(source), []).append(source)
    binaries = {}
    for architecture, sources in by_architecture.items():
        binaries |= compile_all(sources, architecture, toolchain=backend.toolchain)
    for spec, specialisation, points, called, sources in spaces:
        made = {c: binaries[source.key] for c, source in sources.items()}
        kept = {c: binary for c, binary in made.items() if isinstance(binary, Binary)}
        entries = {
            c: CompiledCandidate.of_call(c) if c in called else CompiledCandidate.of(c, kept[c])
            for c in points
            if c in called or c in kept
        }
        yield Compiled(spec=spec, specialisation=specialisation, entries=entries, binaries=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where the configurations of one kernel and specialisation are measured."""

    runner: Runner
    device: TuningDevice
    compiled: Compiled


def measure(
    bench: Bench,
    problem: Problem,
    *,
    also: Iterable[Configuration] = (),
    best: int = 12,
    rounds: int = 5,
    judged: Sequence[Configuration] = (),
    again: float = 0.0,
) -> Measured | None:
    """Screen all that are legal at `problem`; race the `best` of them, those of `also` and `judged`, and the default.

    The results of `judged` must be what the default writes. What is not raced and takes up to `again` times as long as
    the best is screened once more, and the lesser time is taken: a disturbance doubles a time now and then. None where
    the problem does not fit into memory.
    """
    runner, device, compiled = bench.runner, bench.device, bench.compiled
    spec, entries, default = compiled.spec, compiled.entries, space.default_at(compiled.spec, problem)
    ok = [c for c in entries if space.legal(spec, problem, c, device.facts) and _launches(spec, problem, c, device)]
    checked = [c for c in dict.fromkeys((default, *judged)) if c in ok]
    asked = [c for c in dict.fromkeys((*checked, *also)) if c in ok]
    reference = "now" if judged else "none"
    prepared = PrepareRequest(
        spec=spec, problem=problem, default=entries[default], reference=reference, trust_default=True
    )
    if runner.prepare(prepared) is not None:
        return None
    screened, wrong = {}, {}
    best_us = float("inf")
    for group, verify in ((checked, bool(judged)), ([c for c in ok if c not in checked], False)):
        for c, one in zip(
            group, runner.screen([entries[c] for c in group], verify=verify, best_us=best_us), strict=True
        ):
            if isinstance(one.outcome, Timed):
                screened[c] = one.outcome.time_us
            elif c in checked:
                wrong[c] = one.outcome
        best_us = min(screened.values(), default=best_us)
    if not screened:
        return None
    leaders = sorted(screened, key=lambda c: screened[c])[:best]
    near = [c for c in leaders if screened[c] <= NEAR * screened[leaders[0]]]
    racers = list(dict.fromkeys((*near, *(c for c in asked if c in screened))))
    raced = runner.race([entries[c] for c in racers], rounds, estimates_us=[screened[c] for c in racers])
    times = raced.times_us if isinstance(raced, Raced) else ((),) * len(racers)
    rest = [c for c in screened if c not in racers and screened[c] <= again * screened[leaders[0]]]
    for c, one in zip(rest, runner.screen([entries[c] for c in rest], verify=False), strict=True):
        if isinstance(one.outcome, Timed):
            screened[c] = min(screened[c], one.outcome.time_us)
    return Measured(problem=problem, screened=screened, rounds=dict(zip(racers, times, strict=True)), wrong=wrong)


def _launches(spec: KernelSpec, problem: Problem, configuration: Configuration, device: TuningDevice) -> bool:
    if spec.all_implementations[configuration.implementation].call is not None:
        return True
    return not isinstance(launches(spec, problem, configuration, device.facts), LaunchFailed)


def provenance(device: TuningDevice) -> dict[str, str]:
    """On what, when and by which command something is measured."""
    words = [("FOLDER" if before == "--out" else word) for before, word in zip(["", *sys.argv], sys.argv, strict=False)]
    return {
        "device": device.name,
        "driver": device.driver,
        "compiler": device.backend.toolchain.installed() or "",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "command": " ".join(["python", *words]),
    }
