"""The whole tuning over recorded times of an H100: how near its winners come to the best of every configuration."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from fake_runner import FakeRunner, fake_workbench
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.tune.request import TuningRequest
from pretuned.tune.tuner import Tuner

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TIMES = json.loads((BENCHMARKS / "results" / "hochgraf_gemm_brute_force.json").read_text())["time_us"]


@pytest.fixture(scope="module")
def tuned():
    spec = load(BENCHMARKS / "hochgraf" / "hgemm.toml")
    problems = tuple(all_problems(spec))
    by_dims = {problem.dims: TIMES[str(problem)] for problem in problems}
    texts = {}

    def model(values, dims):
        key = tuple(sorted(values.items()))
        text = texts.setdefault(key, ", ".join(f"{name}={value}" for name, value in key))
        return by_dims.get(tuple(sorted(dims.items())), {}).get(text, 10.0)  # beyond the sizes all are alike

    gpu = FakeRunner(model)
    return list(Tuner(fake_workbench(gpu)).tune([TuningRequest(spec=spec, problems=problems)])), gpu


def test_winners_are_near_the_best_at_every_size(tuned, record_property):
    rows, _ = tuned
    shares = [
        min(TIMES[str(row.problem)].values()) / TIMES[str(row.problem)][str(row.winner.configuration)] for row in rows
    ]
    geomean = math.exp(sum(map(math.log, shares)) / len(shares))
    record_property(
        "figure", f"hgemm, recorded: {geomean:.4f} of the optimum over {len(rows)} sizes, worst {min(shares):.4f}"
    )
    assert len(rows) == 64
    assert geomean > 0.985
    assert min(shares) > 0.9


def test_most_pairs_are_never_measured(tuned):
    _, gpu = tuned
    assert gpu.requests.count("screen") < 106 * 64 / 2
