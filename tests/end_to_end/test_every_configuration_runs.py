"""The host device executes configurations of every bundled template, and of the examples', at awkward sizes.

Many of each specialisation by those marked slow, and a few always; `pretuned check --execute` runs every one.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from kernel_folders import bundled, specs_in
from pretuned.compile.host import compiler
from pretuned.tune.execute import execute
from pretuned.tune.modes import MEMORY, PLAIN, RACES

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0  # for one configuration: a machine that does much else at a time is no finding
SPECS = bundled() | specs_in(ROOT / "examples" / "quickstart" / "kernels")
FEW = ["reduce_sum", "row_softmax", "scan", "transpose"]  # which talk through shared memory, each in another way
CASES = [  # kernels, ways to execute, and how many configurations of each specialisation
    pytest.param(SPECS, (PLAIN,), 2, id="some"),
    pytest.param(FEW, (MEMORY, RACES), 1, id="some sanitized"),
    pytest.param(SPECS, (PLAIN,), 12, id="many", marks=pytest.mark.slow),
    pytest.param(SPECS, (MEMORY, RACES), 2, id="sanitized", marks=pytest.mark.slow),
]
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
FOR_GPUS_ONLY = {"hgemm"}  # inline PTX


@pytest.mark.parametrize(("names", "ways", "sample"), CASES)
def test_every_configuration_is_right(names, ways, sample, tmp_path, record_property):
    specs = {name: SPECS[name] for name in names}
    patient = [replace(way, limit_s=LIMIT_S) for way in ways]
    reports = list(execute(specs, patient, cache_folder=tmp_path, sample=sample))
    for report in reports:
        record_property(
            "figure",
            f"{report.kernel}, {report.mode}: {report.configurations} configurations, {report.executions} executions, "
            f"{report.execute_s:.1f} s executing",
        )
    assert [report.findings for report in reports] == [[]] * (len(specs) * len(ways))
    assert {
        report.kernel for report in reports if report.refused and not report.executions
    } == FOR_GPUS_ONLY & specs.keys()
    executed = [report for report in reports if report.kernel not in FOR_GPUS_ONLY]
    assert all(report.executions > report.configurations > 0 for report in executed)
