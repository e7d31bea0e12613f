"""The host device executes configurations of every bundled template, and of the examples', at awkward sizes.

Of a few kernels always, of all by those marked slow; `pretuned check --execute` runs every configuration.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from kernel_folders import bundled, specs_in
from pretuned.compile.host import compiler
from pretuned.runtime.types import DTYPES
from pretuned.tune.execute import execute
from pretuned.tune.modes import MEMORY, PLAIN, RACES

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0  # for one configuration: a machine that does much else at a time is no finding
SPECS = bundled() | specs_in(ROOT / "examples" / "quickstart" / "kernels")
PARTS = {f"part {i}": list(SPECS)[i - 1 :: 3] for i in (1, 2, 3)}  # for several workers; each starts processes anew
FEW = ["reduce_sum", "row_softmax", "scan", "transpose"]  # which talk through shared memory, each in another way


def first(dtypes):
    return dtypes[:1]


def one_of_each_size(dtypes):
    return tuple({DTYPES[dtype].size_bytes: dtype for dtype in reversed(dtypes)}.values())[::-1]


def some(dtypes):
    """All types, or of more than three sizes the smallest and the largest."""
    sizes = sorted(one_of_each_size(dtypes), key=lambda dtype: DTYPES[dtype].size_bytes)
    return dtypes if len(sizes) <= 3 else (sizes[0], sizes[-1])


def smallest(dtypes):
    """The type of which most elements make a vector."""
    return (min(dtypes, key=lambda dtype: DTYPES[dtype].size_bytes),)


CASES = [  # kernels, ways to execute, how many configurations of each specialisation, and of which types
    pytest.param(FEW, (PLAIN, MEMORY, RACES), 1, first, id="few"),
    *(
        pytest.param(names, ways, sample, types, id=f"{kind}, {part}", marks=pytest.mark.slow)
        for kind, ways, sample, types in (
            ("plain", (PLAIN,), 1, some),
            ("memory", (MEMORY,), 2, smallest),  # addresses are alike for the others
            ("races", (RACES,), 1, smallest),  # threads meet in the same places, whatever the size of an element
        )
        for part, names in PARTS.items()
    ),
]
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
FOR_GPUS_ONLY = {"hgemm"}  # inline PTX


def of_types(spec, chosen):
    """The spec with those of its types that are chosen."""
    choices = {
        name: choice.model_copy(update={"dtypes": choice.dtypes and chosen(choice.dtypes)})
        for name, choice in spec.specialisations.items()
    }
    return spec.model_copy(update={"specialisations": choices})


@pytest.mark.parametrize(("names", "ways", "sample", "types"), CASES)
def test_configurations_are_right(names, ways, sample, types, tmp_path, record_property):
    specs = {name: of_types(SPECS[name], types) for name in names}
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
