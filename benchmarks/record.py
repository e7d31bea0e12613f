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
from dataclasses import dataclass, field
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


@dataclass(frozen=True, kw_only=True)
class Wide:
    """A kernel at one problem with a larger space: of one implementation, and with few constraints.

    `space` is what parameters may be in place of what the spec says, and `where` the constraints without which nothing
    works then. Without an `implementation` it is the default one.
    """

    path: Path
    implementation: str = ""
    space: dict[str, list[int]] = field(default_factory=dict)
    where: list[str]
    dims: dict[str, int]
    types: dict[str, str] = field(default_factory=dict)

    def spec(self):
        document = tomllib.loads(self.path.read_text(encoding="utf-8"))
        name = self.implementation or document["default"].get("implementation")
        if name:
            document["implementations"] = {name: document["implementations"][name]}
            document["default"] = {"implementation": name}
        widened = document["implementations"][name] if name else document
        widened["space"] |= self.space
        widened["constraints"] = {"where": self.where}
        return KernelSpec(**document, name=self.path.stem, folder=self.path.parent)

    def problem(self, spec):
        wanted = self.dims, self.types
        (found,) = [p for p in all_problems(spec) if (dict(p.dims), dict(p.specialisation)) == wanted]
        return found


SPACES = {
    "stream": Wide(
        path=ROOT / "benchmarks" / "spaces" / "stream.toml",
        space={"block": list(range(32, 1025, 32)), "unroll": [1, 2, 3, 4, 5, 6, 8], "waves": [0, 1, 2, 4, 8]},
        where=["n % vec == 0", "waves > 0 or unroll * vec <= 16"],
        dims={"n": 16777216},
    ),
    "sgemm": Wide(
        path=ROOT / "templates" / "sgemm.toml",
        space={
            "tile_m": [16, 32, 48, 64, 96, 128, 192],
            "tile_n": [16, 32, 48, 64, 96, 128, 192],
            "depth": [4, 8, 12, 16, 24, 32],
            "thread_m": [2, 4, 6, 8],
            "thread_n": [2, 4, 6, 8],
            "blocks_per_sm": [1, 2, 3],
        },
        where=[
            "tile_m % (4 * thread_m) == 0",  # warps
            "tile_n % (8 * thread_n) == 0",
            "tile_m // thread_m * (tile_n // thread_n) <= 1024",  # threads, each of which copies as many vectors
            "tile_m * depth % (tile_m // thread_m * (tile_n // thread_n) * 4) == 0",
            "tile_n * depth % (tile_m // thread_m * (tile_n // thread_n) * 4) == 0",
        ],
        dims={"m": 1024, "n": 1024, "k": 2048},
    ),
    "skinny_gemm": Wide(
        path=ROOT / "templates" / "skinny_gemm.toml",
        implementation="clusters",
        where=["room <= device.shared_bytes", "warps_n * warps_k <= 16", "bn * bm <= 8192"],
        dims={"m": 16, "n": 4096, "k": 14336},
        types={"T": "float16"},
    ),
    "hgemm": Wide(
        path=ROOT / "templates" / "hgemm.toml",
        implementation="mma",
        space={
            "bm": [16, 32, 64, 128, 256],
            "bn": [32, 64, 128, 256],
            "bk": [32, 64, 128],
            "stages": [2, 3, 4, 5, 6],
            "warps_m": [1, 2, 4],
            "warps_n": [1, 2, 4],
        },
        where=[
            "stages * (bm + bn) * bk * sizeof(T) <= device.shared_bytes",
            "bm // warps_m >= 16 and bn // warps_n >= 16",
            "(bm // warps_m) * (bn // warps_n) <= 8192",
            "bm * bk % (256 * warps_m * warps_n) == 0 and bk * bn % (256 * warps_m * warps_n) == 0",
        ],
        dims={"m": 1024, "n": 1024, "k": 4096},
        types={"T": "float16"},
    ),
}


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
    parser.add_argument("--only", nargs="+", choices=SPACES, default=list(SPACES))
    parser.add_argument("--count-only", action="store_true")
    options = parser.parse_args()
    target = find_device(Place(backend="host") if options.count_only else GPU, {})
    for name in options.only:
        spec = SPACES[name].spec()
        problem = SPACES[name].problem(spec)
        if options.count_only:
            print(name, len(Points.of(spec, problem.specialisation, [problem], target.facts)))
            continue
        t4.write(options.out / f"{name}_T4.json.gz", record(spec, problem, target))
    if not options.count_only:
        provenance = {"device": target.name, "driver": target.driver, "command": "python benchmarks/record.py"}
        (options.out / "provenance.json").write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
