"""An error of one element in a bundled template is found without a GPU."""

from dataclasses import replace

import pytest

from off_by_one import OFF_BY_ONE, broken
from pretuned.compile.host import compiler
from pretuned.outcome import WrongResult
from pretuned.tune.execute import execute
from pretuned.tune.modes import PLAIN

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


ALWAYS = "row_softmax"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == ALWAYS else pytest.mark.slow) for name in OFF_BY_ONE]
)
def test_an_off_by_one_in_a_template_is_found(name, tmp_path):
    spec = broken(tmp_path / name, name)
    patient = replace(PLAIN, limit_s=120.0)
    odd = {name: [dict.fromkeys(spec.free_dims, 1023)]}
    (report,) = execute({name: spec}, [patient], cache_folder=tmp_path / "cache", sample=1, chosen=odd)
    assert report.findings
    assert {type(finding.failure) for finding in report.findings} == {WrongResult}
