"""The host device executes configurations of every bundled template, and of the examples', at awkward sizes.

Every configuration by those marked slow, and a few of each specialisation always.
"""

from pathlib import Path

import pytest

from pretuned.compile.host import compiler
from pretuned.spec.loader import load_folder
from pretuned.tune.execute import MEMORY, PLAIN, RACES, exercise

ROOT = Path(__file__).parents[2]
CASES = [  # ways to execute, and how many configurations of each specialisation
    pytest.param((PLAIN,), 2, id="some"),
    pytest.param((MEMORY, RACES), 1, id="some sanitized"),
    pytest.param((PLAIN,), None, id="all", marks=pytest.mark.slow),
    pytest.param((MEMORY, RACES), 6, id="sanitized", marks=pytest.mark.slow),
]
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
SPECS = load_folder(ROOT / "templates") | load_folder(ROOT / "examples" / "quickstart" / "kernels")


@pytest.mark.parametrize(("ways", "sample"), CASES)
def test_every_configuration_is_right(ways, sample, tmp_path, record_property):
    tallies = list(exercise(SPECS, ways, cache_folder=tmp_path, sample=sample))
    for tally in tallies:
        record_property(
            "figure",
            f"{tally.kernel}, {tally.way}: {tally.configurations} configurations, {tally.executions} executions, "
            f"{tally.compile_s:.1f} s compiling, {tally.execute_s:.1f} s executing",
        )
    assert [tally.findings for tally in tallies] == [[]] * (len(SPECS) * len(ways))
    assert all(tally.refused is None and tally.executions > tally.configurations > 0 for tally in tallies)
