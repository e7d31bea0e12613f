"""Search strategies on recorded spaces: `python benchmarks/replay.py [FILES...] --seeds 50 --noise 0,0.01`.

For each space the share of the optimum (the optimum's time over the noise-free time of the configuration that looks
best) after 64, 128, 256 and 448 evaluations: mean and worst tenth over the seeds. FILES are T4 results or cache files
of Kernel Tuner; without any, the two in tests/data. `NAME_T1.json` beside `NAME_DEVICE_T4.json` gives Kernel Tuner the
conditions of the space, which it needs for large ones.

Kernel Tuner's strategies run in its simulation mode, by the interpreter of --kernel-tuner (a virtual environment made
with `pip install kernel_tuner`), once for each number of evaluations, which they are told as their limit; only distinct
configurations count. Pretuned's own are read off one run of 448.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pretuned.exchange import kernel_tuner, t1, t4
from pretuned.exchange.files import FormatError
from pretuned.exchange.replay import Recording, measured, replay, shares
from pretuned.exchange.results import Results
from pretuned.report.text import columns
from pretuned.strategies.hybrid import Hybrid
from pretuned.strategies.random_sample import RandomSample

DATA = Path(__file__).parents[1] / "tests" / "data" / "benchmark_hub"
SIMULATION = Path(__file__).with_name("kernel_tuner_simulation.py")
EVALUATIONS = (64, 128, 256, 448)
PEERS = ("genetic_algorithm", "adaptive_tabu_greywolf", "pso")
HEAD = ("space", "noise", "strategy", *(f"{count}" for count in EVALUATIONS), "ms/proposal")


@dataclass(frozen=True)
class T1Space:
    name: str
    results: Results
    recording: Recording
    conditions: list[str] | None

    @classmethod
    def load(cls, path):
        try:
            results = t4.read(path)
        except FormatError:
            results = kernel_tuner.read(path)
        beside = path.with_name(f"{path.name.split('_')[0]}_T1.json")
        conditions = [str(condition) for condition in t1.read(beside).conditions] if beside.exists() else None
        name = path.name.removesuffix(".gz").removesuffix(".json").removesuffix("_T4")
        return cls(name, results, Recording.of(results), conditions)


def ours(recording, strategy, noise, seed):
    """Shares at each number of evaluations, and the seconds that a proposal took."""
    made = {"Hybrid": Hybrid, "RandomSample": RandomSample}[strategy]
    before = time.process_time()
    trace = replay(
        recording,
        made(len(recording.codes), evaluations=EVALUATIONS[-1], seed=seed),
        evaluations=EVALUATIONS[-1],
        noise=noise,
        seed=seed,
    )
    seconds = (time.process_time() - before) / len(trace.batches)
    return [trace.share(count) for count in EVALUATIONS], seconds


def peers(space, strategy, noise, python, seeds):
    """The same for a strategy of Kernel Tuner; one process for each number of evaluations."""
    found = np.zeros((seeds, len(EVALUATIONS)))
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times.npy"
        noisy = [measured(space.recording, noise, seed) for seed in range(seeds)]
        np.save(times, noisy)
        for place, count in enumerate(EVALUATIONS):
            job = {
                "names": space.results.names,
                "values": space.results.values,
                "configurations": space.results.configurations,
                "conditions": space.conditions,
                "times": str(times),
                "strategy": strategy,
                "evaluations": count,
            }
            done = subprocess.run(
                [python, SIMULATION], input=json.dumps(job), capture_output=True, text=True, check=False
            )
            if done.returncode:  # its own bug, and no reason to leave the others out
                print(f"{space.name}: {strategy}: {done.stderr.splitlines()[-1]}", file=sys.stderr)
                found[:, place] = np.nan
                continue
            for seed, line in enumerate(done.stdout.splitlines()):
                rows = json.loads(line)[:count]
                found[seed, place] = shares(space.recording, tuple(rows), noisy[seed])[-1]
    return found


def version_of(python):
    """Kernel Tuner's version under an interpreter, or None."""
    code = "import importlib.metadata as m, kernel_tuner; print(m.version('kernel_tuner'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def cells(space, noise, strategy, found, seconds):
    lows = np.quantile(found, 0.1, axis=0)
    marks = (
        "fails" if np.isnan(mean) else f"{mean:.3f}/{low:.3f}" for mean, low in zip(found.mean(0), lows, strict=True)
    )
    return (space.name, f"{noise:g}", strategy, *marks, f"{1e3 * seconds:.0f}" if seconds else "-")


def table(pool, spaces, noises, seeds, python):
    """Yield a row for each space, noise and strategy."""
    asked = []
    for space in spaces:
        for noise in noises:
            for strategy in ("Hybrid", "RandomSample"):
                futures = [pool.submit(ours, space.recording, strategy, noise, seed) for seed in range(seeds)]
                asked.append((space, noise, strategy, futures))
            asked.extend(
                (space, noise, strategy, pool.submit(peers, space, strategy, noise, python, seeds))
                for strategy in (PEERS if python else ())
            )
    for space, noise, strategy, future in asked:
        if isinstance(future, list):
            runs = [each.result() for each in future]
            seconds = float(np.mean([taken for _, taken in runs]))
            yield cells(space, noise, strategy, np.array([found for found, _ in runs]), seconds)
        else:
            yield cells(space, noise, strategy, future.result(), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, default=sorted(DATA.glob("*_T4.json.gz")))
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--noise", default="0,0.01", help="relative standard deviations, with commas")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kernel-tuner", default=sys.executable, help="a Python that has kernel_tuner")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes are the parallelism; inherited by them
    peer = version_of(options.kernel_tuner)
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, Kernel Tuner {peer or 'skipped: not installed'}"
    )
    print(f"{options.seeds} seeds; mean/worst tenth of the share of the optimum after so many evaluations")
    noises = [float(text) for text in options.noise.split(",")]
    spaces = [T1Space.load(path) for path in options.files]
    with ProcessPoolExecutor(options.processes) as pool:
        python = options.kernel_tuner if peer else None
        rows = list(table(pool, spaces, noises, options.seeds, python))
    print("\n".join(columns([HEAD, *rows], frozenset(range(3, 8)))))


if __name__ == "__main__":
    main()
