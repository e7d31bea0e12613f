"""What Kernel Tuner spends on this kernel and space at one input: `python kernel_tuner_peer.py > kernel_tuner.json`.

It gets the very text that pretuned renders for each configuration and the very legal set, through its CuPy back end,
and verifies each result, as pretuned does. `--limit-s` bounds it: its random sampling visits the space without
repetition, so a run that is not cut off is a brute force.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import cupy
import kernel_tuner
import numpy as np
from kernel_tuner.backends.cupy import CupyFunctions
from problems import INPUTS, label

from pretuned.measure import launch
from pretuned.render import source_of
from pretuned.runtime.recompile import include_flags
from pretuned.spec import space
from pretuned.spec.loader import load

SPEC = Path(__file__).with_name("hgemm.toml")
ATOL = 1.0  # Kernel Tuner knows no relative tolerance; sums of 4,096 products are 64 in size, and rounded by 1/32


def keep_shared_memory(functions: CupyFunctions, smem_args: dict[str, int]) -> None:
    """What CupyFunctions does with the bytes of shared memory, and what it leaves out: to ask for more than 48 KB."""
    functions.smem_size = smem_args["size"]
    functions.func.max_dynamic_shared_size_bytes = smem_args["size"]


def device_facts() -> space.DeviceFacts:
    attributes = cupy.cuda.Device(0).attributes
    return space.DeviceFacts(
        sm_count=attributes["MultiProcessorCount"],
        compute_capability=int(cupy.cuda.Device(0).compute_capability),
        shared_bytes=attributes["MaxSharedMemoryPerBlockOptin"],
        l2_bytes=attributes["L2CacheSize"],
    )


def legal(spec, problem, facts):
    """The legal configurations and what each launches, by their values."""
    found = {}
    for configuration in space.configurations(spec, problem, facts):
        first = launch.launches(spec, problem, configuration, facts)[0]
        found[configuration.values] = (configuration, first)
    return found


def tune(spec, problem, facts, limit_s):
    """Let Kernel Tuner tune; return its results, one dict a configuration tried, and how many are legal."""
    known = legal(spec, problem, facts)
    names = sorted(space.parameters(spec.all_implementations["main"]))

    def found(params):
        return known.get(tuple((name, params[name]) for name in names))

    def admitted(params):  # no lambda: Kernel Tuner would rewrite its source
        at = found(params)
        return at is not None and at[1].block[0] == params["block_size_x"]

    dims = dict(problem.dims)
    m, n, k = dims["m"], dims["n"], dims["k"]
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
    answer = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    threads = sorted({first.block[0] for _, first in known.values()})
    CupyFunctions.copy_shared_memory_args = keep_shared_memory
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = kernel_tuner.tune_kernel(
            "hgemm",
            lambda params: source_of(spec, problem.specialisation, found(params)[0]).text,
            lambda params: (found(params)[1].grid[0],),
            [np.zeros((m, n), np.float16), a, b, np.int32(m), np.int32(n), np.int32(k)],
            {name: list(spec.all_implementations["main"].space[name]) for name in names} | {"block_size_x": threads},
            grid_div_x=[],
            restrictions=admitted,
            smem_args={"size": lambda params: found(params)[1].shared_bytes},
            defines={},
            answer=[answer, None, None, None, None, None],
            atol=ATOL,
            lang="CUPY",
            compiler_options=["--std=c++17", *include_flags()],
            strategy="random_sample",
            strategy_options={"fraction": 1.0, "time_limit": limit_s},
            quiet=True,
        )
    return results, len(known)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=int, nargs=3, default=INPUTS[-1], metavar=("M", "N", "K"))
    parser.add_argument("--limit-s", type=float, default=120.0)
    given = parser.parse_args()
    spec = load(SPEC)
    m, n, k = given.input
    problem = space.Problem(specialisation=(), dims=space.pairs({"m": m, "n": n, "k": k}))
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CUPY_CACHE_DIR"] = cache
        facts = device_facts()
        begun = time.perf_counter()
        results, count = tune(spec, problem, facts, given.limit_s)
        wall_s = time.perf_counter() - begun
    good = [result for result in results if isinstance(result.get("time"), float)]
    best = min(good, key=lambda result: result["time"])
    document = {
        "kernel_tuner": kernel_tuner.__version__,
        "device": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "input": label(m, n, k),
        "legal": count,
        "tried": len(results),
        "right": len(good),
        "wall_s": wall_s,
        "wall_s_each": wall_s / max(1, len(results)),
        "compile_s_each": statistics.fmean(result["compile_time"] for result in results) / 1e3,
        "verify_s_each": statistics.fmean(result["verification_time"] for result in results) / 1e3,
        "measure_s_each": statistics.fmean(result["benchmark_time"] for result in results) / 1e3,
        "best_us": best["time"] * 1e3,
        "best": {name: best[name] for name in sorted(space.parameters(spec.all_implementations["main"]))},
    }
    json.dump(document, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
