"""Hochgraf's experiment: a tensor-core GEMM with 106 configurations tuned for 64 inputs, beside Triton's autotuner.

    python benchmarks/hochgraf_gemm.py --out results [--brute-force] [--triton-s 280] [--kernel-tuner-s 100]

Tunes the spec in `hochgraf/` from nothing (an empty cache, cold compilers) and prints what it took. `--brute-force`
also times every configuration at every input in interleaved rounds, which says how near the winners are to the best;
without it, the recorded times in `results/` do. The other options run the peers on the same machine. Triton runs what
its limit allows of configurations and inputs that a stated seed draws (`hochgraf/problems.py`), scaled per
configuration and per (configuration, input); its compiler is also counted as if it ran on 16 processes. Results go into
files of the folder `--out`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.config import GPU
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, Raced
from pretuned.measure.runner import Runner
from pretuned.render import source_of
from pretuned.report.effort import stages
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune

HERE = Path(__file__).parent / "hochgraf"
ROUNDS = 7


def tuned(spec, problems, target, folder):
    """Tune from nothing and return the rows with what it took."""
    started = time.perf_counter()
    result = tune([TuningRequest(spec=spec, problems=tuple(problems))], target, cache_folder=folder)
    return result, time.perf_counter() - started


def brute_force(spec, problems, facts):
    """Return the median time of every configuration at every problem, in microseconds, over interleaved rounds."""
    configurations = list(space.configurations(spec, problems[0], facts))
    modules = {c: source_of(spec, problems[0].specialisation, c) for c in configurations}
    binaries = compile_all(modules.values(), "sm_90")
    entries = []
    for configuration in configurations:
        binary = binaries[modules[configuration].key]
        assert isinstance(binary, Binary), binary
        entries.append(CompiledCandidate.of(configuration, binary))
    found = {}
    with Runner() as runner:
        for problem in problems:
            runner.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[0], reference="none"))
            screened = [one.outcome.time_us for one in runner.screen(entries, verify=False)]
            raced = runner.race(entries, ROUNDS, estimates_us=screened)
            assert isinstance(raced, Raced), raced
            found[str(problem)] = {
                str(c): round(statistics.median(times), 3)
                for c, times in zip(configurations, raced.times_us, strict=True)
            }
    return found


def shares(rows, times):
    """Return each row's winner as a share of the best that brute force found, by problem."""
    return {
        str(row.problem): min(times[str(row.problem)].values()) / times[str(row.problem)][str(row.winner.configuration)]
        for row in rows
    }


def geomean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def peer(folder, name, *options):
    """Run a peer in a process of its own, keep what it prints, and return that; None where it fails."""
    command = [sys.executable, str(HERE / f"{name}.py"), *map(str, options)]
    generator = str(Path(__file__).parents[1] / "generator")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([generator, os.environ.get("PYTHONPATH", "")])}
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, env=environment, text=True)
    if ended.returncode:
        print(f"{name} ended with status {ended.returncode}", file=sys.stderr)
        return None
    (folder / f"hochgraf_{name}.json").write_text(ended.stdout, encoding="utf-8")
    return json.loads(ended.stdout)


def report(result, wall_s, configurations, times, peers):
    """Yield the lines of the report."""
    spending, rows = result.spending, result.rows
    pairs = configurations * len(rows)
    waiting_s = spending.seconds["waiting for compilers"]
    decided = f"{pairs} pairs decided, {spending.launched} measurements"
    yield f"{len(rows)} inputs, {configurations} configurations: {decided}"
    yield f"(a) wall for all                        {wall_s:8.2f} s"
    yield f"(b) a decided pair, with compiles       {1e3 * wall_s / pairs:8.3f} ms"
    yield f"(c) a measurement, without compiles     {1e3 * (wall_s - waiting_s) / spending.launched:8.3f} ms"
    yield f"    waiting for compilers               {waiting_s:8.2f} s ({waiting_s / wall_s:.0%})"
    yield f"    candidates on the device            {spending.device_s:8.2f} s ({spending.device_s / wall_s:.0%})"
    faster = [row.default.time_us / row.winner.time_us for row in rows]
    yield f"winner against default: geomean {geomean(faster):.2f}x, most {max(faster):.2f}x"
    if times:
        found = sorted(shares(rows, times).values())
        yield f"share of the exhaustive optimum: geomean {geomean(found):.4f}, worst {found[0]:.4f}"
        default = str(rows[0].default.configuration)
        yield f"the default's share: geomean {geomean(min(t.values()) / t[default] for t in times.values()):.4f}"
    if "cublas" in peers:
        cublas = peers["cublas"]["time_us"]
        ratios = [cublas[labelled(row.problem)] / row.winner.time_us for row in rows]
        yield f"cuBLAS's time as a share of the winner's: geomean {geomean(ratios):.2f}, least {min(ratios):.2f}"
    yield ""
    yield from stages(spending)
    if "triton" in peers:
        yield ""
        yield from triton_lines(peers["triton"], wall_s)
    if "kernel_tuner" in peers:
        yield ""
        yield "Kernel Tuner, our source and space, one input: " + json.dumps(peers["kernel_tuner"])


def labelled(problem):
    dims = dict(problem.dims)
    return f"m={dims['m']}, n={dims['n']}, k={dims['k']}"


def triton_lines(found, wall_s):
    scaled = found["scaled"]
    yield f"Triton's autotuner, scaled to {scaled['configurations']} configurations x 64 inputs: " + json.dumps(
        {key: value for key, value in found.items() if isinstance(value, int | float | str)}
    )
    yield f"    compiling in turn                   {scaled['compile_in_turn_s']:8.1f} s"
    yield f"    measuring                           {scaled['measure_s']:8.1f} s"
    yield f"    in all                              {scaled['total_s']:8.1f} s: {scaled['total_s'] / wall_s:.0f}x ours"
    over = scaled["total_over_16_s"]
    yield f"    (d) with compiles over 16 processes {over:8.1f} s: {over / wall_s:.0f}x ours"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--brute-force", action="store_true")
    parser.add_argument("--triton-s", type=float, default=0.0)
    parser.add_argument("--triton-workers", type=int, default=1)
    parser.add_argument("--triton-inputs", type=int, default=12)
    parser.add_argument("--kernel-tuner-s", type=float, default=0.0)
    parser.add_argument("--cublas", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    spec, target = load(HERE / "hgemm.toml"), find_device(GPU, {})
    problems = all_problems(spec)
    with tempfile.TemporaryDirectory() as folder:
        result, wall_s = tuned(spec, problems, target, Path(folder))
    configurations = len(list(space.configurations(spec, problems[0], target.facts)))
    provenance = {
        "device": target.name,
        "driver": target.driver,
        "compiler": result.rows[0].compiler,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "command": "python " + " ".join(sys.argv).replace(str(options.out), "FOLDER"),
    }
    name = "hochgraf_gemm_brute_force.json"
    kept = Path(__file__).parent / "results" / name
    if options.brute_force:
        kept = options.out / name
        data = {"provenance": provenance, "time_us": brute_force(spec, problems, target.facts)}
        kept.write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8")
    times = json.loads(kept.read_text(encoding="utf-8"))["time_us"] if kept.is_file() else {}
    peers = {}
    if options.cublas:
        peers["cublas"] = peer(options.out, "cublas_peer")
    if options.triton_s:
        limits = ("--limit-s", options.triton_s, "--workers", options.triton_workers)
        peers["triton"] = peer(
            options.out, "triton_peer", "--configurations", 100, "--inputs", options.triton_inputs, *limits
        )
    if options.kernel_tuner_s:
        peers["kernel_tuner"] = peer(
            options.out, "kernel_tuner_peer", "--input", 4096, 4096, 4096, "--limit-s", options.kernel_tuner_s
        )
    peers = {name: found for name, found in peers.items() if found is not None}
    lines = [json.dumps(provenance), *report(result, wall_s, configurations, times, peers)]
    print("\n".join(lines))
    (options.out / "hochgraf_gemm.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
