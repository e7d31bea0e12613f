"""Cooperative launches, clusters and early launches on the host device, which runs blocks one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from attributed import SPEC
from pretuned.compile.host import compiler
from pretuned.spec.loader import load, load_folder
from pretuned.tune.execute import execute
from pretuned.tune.modes import PLAIN

FOLDER = Path(__file__).parents[1] / "gpu" / "launches"
TEMPLATE = """\
{include}
extern "C" __global__ void affine(float* out, const float* x, int n) {{
    {call}
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) out[i] = x[i] + 1 + 0 * {{{{ size }}}};
}}
"""
GROUPS = "#include <cooperative_groups.h>"
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


def executed(folder, launch, call="", grid="ceil_div(n, 256 * size) * size", include=GROUPS):
    text = SPEC.format(launch=launch, grid=grid).replace("[1, 2, 4, 16]", "[2]").replace("size = 1 }", "size = 2 }")
    text = text.replace("1024, 65536", "500, 1024")
    (folder / "wide.toml").write_text(text + '[verify]\nreference = "reference.py:wide"\n')
    (folder / "wide.cu.jinja").write_text(TEMPLATE.format(include=include, call=call))
    (folder / "reference.py").write_text("def wide(x):\n    return x + 1\n")
    (report,) = execute({"wide": load(folder / "wide.toml")}, [PLAIN], cache_folder=None)
    return report


def test_a_grid_of_resident_blocks_waits_for_itself(tmp_path):
    grid = "min(ceil_div(n, 256), device.resident_blocks)"
    report = executed(tmp_path, "cooperative = true", "cooperative_groups::this_grid().sync();", grid)
    assert (report.findings, report.configurations, report.gpu_only) == ([], 1, {})


@pytest.mark.slow
def test_a_larger_cooperative_grid_is_for_gpus_only(tmp_path):
    report = executed(tmp_path, "cooperative = true", grid="4 * size")
    assert (report.findings, report.configurations) == ([], 0)
    assert next(iter(report.gpu_only.values())) == (
        "affine: for GPUs only: a cooperative grid of 8 blocks; the host device runs one after the other"
    )


@pytest.mark.slow
def test_a_barrier_of_the_grid_in_a_plain_launch_is_found(tmp_path):
    report = executed(tmp_path, "", "cooperative_groups::this_grid().sync();")
    found = {finding.detail.partition(" at wide")[0] for finding in report.findings}
    assert any("grid.sync() in a launch that is not cooperative" in detail for detail in found)


def test_clusters_run_unless_the_text_asks_for_what_they_have(tmp_path):
    plain = executed(tmp_path, 'cluster = ["size"]', "// cooperative_groups::this_cluster()")
    assert (plain.findings, plain.configurations) == ([], 1)
    report = executed(tmp_path, 'cluster = ["size"]', "cooperative_groups::this_cluster().sync();")
    assert (report.findings, report.configurations) == ([], 0)
    assert next(iter(report.gpu_only.values())).endswith("wide.cu.jinja:3: for GPUs only: clusters")


@pytest.mark.slow
def test_early_launches_run_in_order(tmp_path):
    include = "#include <cuda_device_runtime_api.h>"
    call = "cudaGridDependencySynchronize(); cudaTriggerProgrammaticLaunchCompletion();"
    report = executed(tmp_path, 'overlap = "pdl"', call, include=include)
    assert (report.findings, report.configurations) == ([], 1)


@pytest.mark.slow
def test_the_kernels_that_gpus_are_tested_with(tmp_path):
    found = {report.kernel: report for report in execute(load_folder(FOLDER), [PLAIN], cache_folder=tmp_path)}
    assert {name: (report.findings, report.configurations) for name, report in found.items()} == {
        "cluster_rows": ([], 0),
        "early": ([], 3),
        "grid_sum": ([], 3),
    }
