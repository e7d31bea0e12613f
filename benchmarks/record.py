"""Records whole spaces of our own templates on a GPU, for replaying: `python benchmarks/record.py --out FOLDER`.

Every legal configuration at one problem is compiled, verified, and screened three times. What comes out are T4 files,
one a space, that `replay.py` reads.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import tomllib
from pathlib import Path

from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.config import GPU, Place
from pretuned.exchange import t4
from pretuned.exchange.results import Results
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import Runner
from pretuned.outcome import CompileError, Crashed, LaunchFailed, Timed, TimedOut, WrongResult
from pretuned.render import source_of
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import all_problems
from pretuned.tune.request import find_device
from pretuned.tune.space.points import Points

ROOT = Path(__file__).parents[1]
PASSES = 3
INVALIDITY = {
    CompileError: "compile",
    LaunchFailed: "runtime",
    Crashed: "runtime",
    WrongResult: "correctness",
    TimedOut: "timeout",
}
# By name: the spec, what its space becomes (that of the default implementation), the constraints without which nothing
# works then, and the problem.
SPACES = {
    "stream": (
        ROOT / "benchmarks" / "spaces" / "stream.toml",
        {"block": list(range(32, 1025, 32)), "unroll": [1, 2, 3, 4, 5, 6, 8], "waves": [0, 1, 2, 4, 8]},
        ["n % vec == 0", "waves > 0 or unroll * vec <= 16"],
        {"n": 16777216},
    ),
    "sgemm": (
        ROOT / "templates" / "sgemm.toml",
        {
            "tile_m": [16, 32, 48, 64, 96, 128, 192],
            "tile_n": [16, 32, 48, 64, 96, 128, 192],
            "depth": [4, 8, 12, 16, 24, 32],
            "thread_m": [2, 4, 6, 8],
            "thread_n": [2, 4, 6, 8],
            "blocks_per_sm": [1, 2, 3],
        },
        [
            "tile_m % (4 * thread_m) == 0",  # warps
            "tile_n % (8 * thread_n) == 0",
            "tile_m // thread_m * (tile_n // thread_n) <= 1024",  # threads, each of which copies as many vectors
            "tile_m * depth % (tile_m // thread_m * (tile_n // thread_n) * 4) == 0",
            "tile_n * depth % (tile_m // thread_m * (tile_n // thread_n) * 4) == 0",
        ],
        {"m": 1024, "n": 1024, "k": 2048},
    ),
}


def wider(path, space, where):
    """The spec with a larger space, of one implementation, and only the constraints without which it does not work."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    name = document["default"].get("implementation")
    if name:
        document["implementations"] = {name: document["implementations"][name]}
    widened = document["implementations"][name] if name else document
    widened["space"] |= space
    widened["constraints"] = {"where": where}
    return KernelSpec(**document, name=path.stem, folder=path.parent)


def record(spec, problem, target):
    """Measure every configuration of `spec` at `problem`."""
    points = list(Points.of(spec, problem.specialisation, [problem], target.facts))
    started = time.perf_counter()
    modules = {c: source_of(spec, problem.specialisation, c) for c in points}
    binaries = compile_all(modules.values(), target.record.architecture)
    compiled = time.perf_counter()
    samples, invalidity = {c: [] for c in points}, dict.fromkeys(points, "compile")
    made = {c: binaries[modules[c].key] for c in points}
    entries = {c: CompiledCandidate.of(c, binary) for c, binary in made.items() if isinstance(binary, Binary)}
    with Runner(spares=1) as runner:
        runner.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[points[0]]))
        for turn in range(PASSES):
            alive = [c for c in entries if turn == 0 or invalidity[c] == "correct"]
            for c, screened in zip(alive, runner.screen([entries[c] for c in alive], verify=turn == 0), strict=True):
                outcome = screened.outcome
                invalidity[c] = "correct" if isinstance(outcome, Timed) else INVALIDITY[type(outcome)]
                if isinstance(outcome, Timed):
                    samples[c].append(outcome.time_us)
    print(
        f"{spec.name}: {len(points)} configurations, {sum(i == 'correct' for i in invalidity.values())} right; "
        f"{compiled - started:.1f} s compiling, {time.perf_counter() - compiled:.1f} s measuring",
        flush=True,
    )
    return Results.of(
        [dict(c.values) for c in points],
        [math.inf] * len(points),
        [invalidity[c] for c in points],
        [samples[c] if invalidity[c] == "correct" else [] for c in points],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count-only", action="store_true")
    options = parser.parse_args()
    target = find_device(Place(backend="host") if options.count_only else GPU, {})
    for name, (path, space, where, dims) in SPACES.items():
        spec = wider(path, space, where)
        (problem,) = [p for p in all_problems(spec) if dict(p.dims) == dims]
        if options.count_only:
            print(name, len(Points.of(spec, problem.specialisation, [problem], target.facts)))
            continue
        t4.write(options.out / f"{name}_T4.json.gz", record(spec, problem, target))
    if not options.count_only:
        provenance = {"device": target.name, "driver": target.driver, "command": "python benchmarks/record.py"}
        (options.out / "provenance.json").write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
