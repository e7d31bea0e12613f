"""Selections made from recorded times of an H100, judged at sizes that they do not know, beside other rules."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import replay_sizes
from pretuned.spec import space
from sizes import matrix, rules

ROOT = Path(__file__).parents[2]
OURS, _, ALONE, SHIPPED = rules.OF_OURS
OTHERS = ("hgemm", "reduce_sum_float16", "row_softmax_float16", "transpose_float16")
DIVIDED = ("column_argmax_float32", "row_argmax_float16", "row_max_float32")  # launches that divide by expressions
REFINED = (
    "cross_entropy_backward_float32",
    "cross_entropy_backward_float16",
    "reduce_sum_float16",
    "row_argmax_float32",
)
SAMPLE = ("axpby_float16", "sgemm", "transpose_float32")


def outcomes(names, seeds=(0,)):
    """What every rule loses at each problem inside the sizes that it does not know, over the recordings of `names`."""
    found = {}
    for name in names:
        recorded = matrix.read(matrix.RECORDED / f"{name}.json.gz")
        drawn = min(100, 3 * len(recorded.places("inside")) // 4)
        for (part, rule), judged in replay_sizes.outcomes(recorded, drawn, seeds).items():
            if part == "inside":
                found.setdefault(rule, []).extend(judged)
    return found


def our_outcomes(names, rule=OURS):
    """What one of our rules and the default lose at each problem inside the sizes that it does not know."""
    found = []
    for name in names:
        recorded = matrix.read(matrix.RECORDED / f"{name}.json.gz")
        drawn = 3 * len(recorded.places("inside")) // 4
        found += replay_sizes.outcomes(recorded, drawn, [0], [rule])["inside", rule]
    return found


def means(found):
    return {rule: statistics.mean(loss for loss, _ in judged) for rule, judged in found.items()}


def slower(judged):
    """The share of problems at which picks are slower than the default by over 2%."""
    return statistics.mean(float(1 + loss > replay_sizes.SLOWER * (1 + default)) for loss, default in judged)


@pytest.fixture(scope="module")
def sample():
    return outcomes(SAMPLE)


def test_a_selection_loses_less_than_any_other_rule(sample, record_property):
    mean = means(sample)
    record_property("figure", ", ".join(f"{rule} {loss:.2%}" for rule, loss in mean.items()))
    others = [loss for rule, loss in mean.items() if rule not in rules.OF_OURS]
    assert mean[OURS] < 0.5 * min(others)
    assert mean[SHIPPED] <= mean[OURS]


def test_a_selection_is_hardly_ever_slower_than_the_default(sample):
    assert slower(sample[OURS]) <= 0.05


@pytest.mark.slow
def test_a_selection_loses_less_than_any_other_rule_over_other_kernels(record_property):
    found = outcomes(OTHERS, seeds=range(3))  # of one, a handful of problems decides
    mean, behind = means(found), {rule: slower(judged) for rule, judged in found.items()}
    figures = (f"{rule} {loss:.2%}, slower at {behind[rule]:.2%}" for rule, loss in mean.items())
    record_property("figure", "; ".join(figures))
    others = [rule for rule in mean if rule not in rules.OF_OURS and behind[rule]]  # without the default itself
    assert mean[OURS] < 0.7 * min(mean[rule] for rule in others)
    assert behind[OURS] < 0.5 * min(behind[rule] for rule in others)


@pytest.mark.parametrize("names", [DIVIDED[1:2], pytest.param(DIVIDED, marks=pytest.mark.slow, id="all")], ids="+".join)
def test_launches_that_divide_by_expressions_over_dims_are_predicted(names, record_property):
    judged = our_outcomes(names)
    loss, default = (statistics.mean(one[place] for one in judged) for place in (0, 1))
    record_property("figure", f"{loss:.2%}, the default {default:.2%}")
    assert loss < 0.4 * default
    assert slower(judged) < 0.15


@pytest.mark.parametrize("names", [REFINED[1:3], pytest.param(REFINED, marks=pytest.mark.slow, id="all")], ids="+".join)
def test_costs_that_are_refined_together_choose_better_than_those_fitted_alone(names, record_property):
    refined, alone = (our_outcomes(names, rule) for rule in (OURS, ALONE))
    losses = [statistics.mean(loss for loss, _ in judged) for judged in (refined, alone)]
    record_property("figure", f"{losses[0]:.2%}, fitted alone {losses[1]:.2%}")
    assert losses[0] < 0.8 * losses[1]
    assert slower(refined) < slower(alone)


@pytest.mark.parametrize("path", sorted(matrix.RECORDED.glob("*.json.gz")), ids=lambda path: path.name)
def test_a_recording_has_the_times_of_the_race_and_times_like_them(path):
    recorded = matrix.read(path)
    defaults = [recorded.default_at(problem) for problem in recorded.problems]
    assert all(
        recorded.configurations[at] == space.default_at(recorded.spec, problem)
        for at, problem in zip(defaults, recorded.problems, strict=True)
    )
    raced = ~np.isnan(recorded.raced)
    np.testing.assert_array_equal(recorded.times[raced], recorded.raced[raced])
    assert (np.isnan(recorded.times) == np.isnan(recorded.screened) & ~raced).all()
    best = np.nanmin(recorded.times, axis=1)
    np.testing.assert_array_equal(best, np.nanmin(recorded.raced, axis=1))
    assert raced[np.arange(len(defaults)), defaults].all(), "the default is raced everywhere"


@pytest.mark.slow
def test_the_benchmark_of_picks_between_sizes_runs_on_the_host_device(tmp_path):
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    for path in (ROOT / "templates").iterdir():
        if path.name.startswith("convert") or path.suffix == ".py" or path.name.endswith(".cuh.jinja"):
            (kernels / path.name).write_bytes(path.read_bytes())
    text = (kernels / "convert.toml").read_text()
    for old, new in (
        ("sizes = [16384, 262144, 4194304]", "sizes = [16384, 262144]"),
        ('dtypes = ["float32", "float16", "bfloat16"]', 'dtypes = ["float32"]'),
        ('values = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]', 'values = ["float16"]'),
        ('float32       = "float32"\n', ""),
        ('bfloat16      = "bfloat16"\n', ""),
        ('float8_e4m3fn = "float8_e4m3fn"\n', ""),
        ('float8_e5m2   = "float8_e5m2"\n', ""),
    ):
        assert old in text
        text = text.replace(old, new)
    (kernels / "convert.toml").write_text(text)
    options = ["--on", "host", "--rows-of", "NVIDIA H100 80GB HBM3", "--templates", kernels, "--per", "6"]
    command = [sys.executable, ROOT / "benchmarks" / "between_sizes.py", *options, "--out", tmp_path]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=300)
    report = (tmp_path / "between_sizes.txt").read_text()
    assert "inside: mean, p95, worst" in report
    assert "WRONG" not in report
