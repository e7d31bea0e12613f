"""All configurations of a kernel on the GPU at hand: compiled, verified and raced, in the process at hand.

A kernel that loses its context loses the process too, so tests run this in one of its own.
"""

from pathlib import Path

from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure.bench import Bench
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, RaceRequest
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load


def failures(file: Path) -> list[str]:
    """Return what is wrong with the kernel of a spec on GPU 0: configurations, problems and failures, as text."""
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - takes the GPU

    spec, machine, found = load(file), CudaMachine(0), []
    bench = Bench(machine)
    for specialisation in space.specialisations(spec):
        listed = list(space.combinations("main", spec.all_implementations["main"]))
        sources = {one: source_of(spec, specialisation, one) for one in listed}
        made = compile_all(list(sources.values()), f"sm_{machine.facts.compute_capability}", workers=2)
        binaries = {one: made[source.key] for one, source in sources.items()}
        found += [f"{one}: {made}" for one, made in binaries.items() if not isinstance(made, Binary)]
        entries = {one: CompiledCandidate.of(one, made) for one, made in binaries.items() if isinstance(made, Binary)}
        for problem in space.problems(spec, specialisation):
            bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[space.default(spec)]))
            legal = {one: entry for one, entry in entries.items() if space.legal(spec, problem, one, machine.facts)}
            verified = {one: bench.verify(entry).failure for one, entry in legal.items()}
            found += [f"{one} at {problem}: {failure}" for one, failure in verified.items() if failure is not None]
        request = RaceRequest(entries=tuple(legal.values()), estimates_us=(20.0,) * len(legal), rounds=3, judge=True)
        judged = zip(legal, bench.race(request).failures, strict=True)
        found += [f"{one} in a race: {failure}" for one, failure in judged if failure is not None]
    return found
