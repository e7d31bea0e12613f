"""Kernel Tuner's strategies in its simulation mode, for replay.py; needs kernel_tuner and nothing of pretuned.

Reads a job (JSON) on the standard input and writes for each seed a line: the rows it evaluated, in order, each once.
The noise is in the times that it is given, so that every strategy meets the same measurements.
"""

import contextlib
import io
import json
import random
import sys
import tempfile
import warnings
from pathlib import Path

import kernel_tuner
import numpy as np

MICROSECOND_MS = 1e-3


def key_of(values):
    return ",".join(str(value) for value in values)


def cache_of(job, times_us):
    """The content of a cache file that holds the whole space."""
    entries = {}
    for values, time_us in zip(job["configurations"], times_us, strict=True):
        valid = np.isfinite(time_us)
        times = {"time": float(time_us) * MICROSECOND_MS if valid else "RuntimeFailedConfig"}
        times["times"] = [times["time"]] if valid else []
        costs = ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time")
        entries[key_of(values)] = {
            **dict(zip(job["names"], values, strict=True)),
            **times,
            **dict.fromkeys(costs, 0.0),
            "timestamp": "2026-01-01 00:00:00+00:00",
        }
    head = {"device_name": "recorded", "kernel_name": "recorded", "problem_size": [1], "objective": "time"}
    return {**head, "tune_params_keys": job["names"], "tune_params": parameters_of(job), "cache": entries}


def parameters_of(job):
    return dict(zip(job["names"], job["values"], strict=True))


def restrictions_of(job):
    """The space's own conditions; without them, membership among what was recorded."""
    if job["conditions"] is not None:
        return job["conditions"]
    allowed = {tuple(values) for values in job["configurations"]}
    names = ", ".join(job["names"])
    scope = {"allowed": allowed}
    exec(f"def recorded({names}):\n    return ({names},) in allowed", scope)  # it goes by argument names
    return [scope["recorded"]]


def evaluated(job, times_us, seed, cache):
    """Run one search and return the rows it evaluated."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what Kernel Tuner draws from
    cache.write_text(json.dumps(cache_of(job, times_us)))
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = kernel_tuner.tune_kernel(
            "recorded",
            "// not compiled",
            (1,),
            [],
            parameters_of(job),
            restrictions=restrictions_of(job),
            simulation_mode=True,
            cache=str(cache),
            strategy=job["strategy"],
            strategy_options={"max_fevals": job["evaluations"]},
            lang="CUDA",
            quiet=True,
        )
    row_of = {key_of(values): row for row, values in enumerate(job["configurations"])}
    keys = dict.fromkeys(key_of(result[name] for name in job["names"]) for result in results)
    return [row_of[key] for key in keys]


def main():
    warnings.simplefilter("ignore")
    job = json.load(sys.stdin)
    times_us = np.load(job["times"])
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(len(times_us)):
            rows = evaluated(job, times_us[seed], seed, Path(folder) / "cache.json")
            print(json.dumps(rows), flush=True)


if __name__ == "__main__":
    main()
