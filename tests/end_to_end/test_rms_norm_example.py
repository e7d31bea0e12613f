"""examples/rms-norm: its kernels, executed on the host device, and the gradient that their reference states."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pretuned.compile.host import compiler
from pretuned.spec.backward import backward_of
from pretuned.spec.loader import load_folder
from pretuned.tune.execute import execute
from pretuned.tune.modes import PLAIN, RACES

KERNELS = Path(__file__).parents[2] / "examples" / "rms-norm" / "kernels"
SPECS = load_folder(KERNELS)
REFERENCE = runpy.run_path(str(KERNELS / "reference.py"))
LIMIT_S = 120.0  # for one configuration: a machine that does much else at a time is no finding
AT = {"rows": 5, "cols": 72, "T": "bfloat16"}


def test_the_gradient_is_by_x_and_weight():
    found = backward_of(SPECS["rms_norm"], SPECS["rms_norm_backward"])
    assert [name for name, _ in found.outputs] == ["grad_x", "grad_weight"]
    assert ("rstd", "output", 1) in found.inputs


def test_the_reference_of_the_gradient_is_that_of_the_reference():
    """By central differences of what the outputs weigh, in float64."""
    draw = np.random.default_rng(0)
    x, weight, grad_y = draw.standard_normal((3, 5)), draw.standard_normal(5), draw.standard_normal((3, 5))
    forward, eps, step = REFERENCE["rms_norm"], 1e-3, 1e-6
    rstd = forward(x, weight, eps)["rstd"]
    found = REFERENCE["rms_norm_backward"](grad_y, x, weight, rstd)
    for name, one in (("x", x), ("weight", weight)):
        wanted = np.empty_like(one)
        for place in np.ndindex(one.shape):
            ends = []
            for sign in (1, -1):
                moved = {"x": x.copy(), "weight": weight.copy()}
                moved[name][place] += sign * step
                ends.append((forward(**moved, eps=eps)["y"] * grad_y).sum())
            wanted[place] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(found[f"grad_{name}"], wanted, atol=1e-7)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
@pytest.mark.parametrize("mode", [PLAIN, pytest.param(RACES, marks=pytest.mark.slow)], ids=["plain", "races"])
def test_defaults_are_right_at_one_problem(tmp_path, mode):
    chosen = {name: [AT] for name in SPECS}
    reports = list(execute(SPECS, [replace(mode, limit_s=LIMIT_S)], cache_folder=tmp_path, sample=1, chosen=chosen))
    assert {report.kernel: report.findings for report in reports} == {name: [] for name in SPECS}
    assert all(report.executions >= 1 for report in reports)
