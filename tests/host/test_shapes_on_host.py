"""Kernels whose shapes and problems are more than dims: executed and tuned on the host device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from host_tuning import ROWS_ALONE
from pretuned.compile.host import compiler
from pretuned.config.settings import Place
from pretuned.report.execution import finding_lines
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.tune.execute import execute
from pretuned.tune.modes import PLAIN
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


def kernel(folder, spec, template, reference):
    """Write the kernel `k` and load it."""
    (folder / "k.toml").write_text("format = 1\n" + spec)
    (folder / "k.cu.jinja").write_text(template)
    (folder / "reference.py").write_text("import numpy as np\n\n\n" + reference)
    return load(folder / "k.toml")


def executed(spec, **options):
    """Return how often the configurations of a kernel were executed; all of them have to be right."""
    (report,) = execute({spec.name: spec}, [PLAIN], cache_folder=None, **options)
    assert not report.findings, "\n".join(finding_lines(report, spec))
    return report.executions


def tuned(spec):
    """Return the rows of a tuning."""
    request = TuningRequest(spec=spec, problems=tuple(all_problems(spec)))
    device = replace(find_device(Place(backend="host"), {}), effort=ROWS_ALONE)
    return tune([request], device, cache_folder=None).rows


SHAPES = Path(__file__).parents[1] / "data" / "shapes"
ADD = """\
arguments = [
  { name = "y", role = "out", dtype = "float32", shape = ["rows", "cols"] },
  { name = "x", role = "in", dtype = "float32", shape = ["rows", "cols"] },
  { name = "b", role = "in", dtype = "float32", shape = ["cols"] },
  { name = "rows", dtype = "int32" },
  { name = "cols", dtype = "int32" },
]
problems = [{ rows = 200, cols = 3 }, { rows = 3, cols = 200 }]
dims = { rows = {}, cols = {} }
space = { block = { from = 32, to = 64, factor = 2 } }
default = { block = 32 }
launches = [{ function = "add", grid = ["ceil_div(rows * cols, block)"], block = ["block"] }]
verify = { reference = "reference.py:add" }
"""
ADD_TEMPLATE = """\
constexpr int block = {{ block }};
extern "C" __global__ void add(float* y, const float* x, const float* b, int rows, int cols) {
    const int i = blockIdx.x * block + threadIdx.x;
    if (i < rows * cols) {
        y[i] = x[i] + b[i % cols];
    }
}
"""
ADD_REFERENCE = "def add(x, b):\n    return x + b\n"


def test_joint_sizes_are_tuned(tmp_path):
    spec = kernel(tmp_path, ADD, ADD_TEMPLATE, ADD_REFERENCE)

    assert [str(row.problem) for row in tuned(spec)] == ["cols=3, rows=200", "cols=200, rows=3"]
    assert executed(spec) > 4


@pytest.mark.parametrize("name", ["arranged", "halves", "ramp", "repeated", "row_sums", "silu_and_mul", "topk_softmax"])
def test_shapes_that_are_solved_told_by_outputs_or_by_keywords_are_executed(name):
    spec = load(SHAPES / f"{name}.toml")

    assert executed(spec) >= 10
