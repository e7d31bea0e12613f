"""On the host device, what would be kept runs under the memory sanitizer first."""

from __future__ import annotations

import pytest

from pretuned.compile import host
from pretuned.config.settings import Place
from pretuned.outcome import Crashed
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.tune.events import Failed
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune

pytestmark = pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")

SPEC = """\
format = 1
arguments = [
  { name = "y", role = "out", dtype = "float32", shape = ["n"] },
  { name = "x", role = "in", dtype = "float32", shape = ["n"] },
  { name = "n", dtype = "int32" },
]

[dims]
n = { sizes = [5000] }

[space]
ahead = [0, 1, 2]

[default]
ahead = 0

[[launches]]
function = "twice"
grid     = ["ceil_div(n, 256)"]
block    = [256]

[verify]
reference = "reference.py:twice"
"""
# `ahead == 1` reads one element past the end, of which nothing shows in the result.
TEMPLATE = """\
extern "C" __global__ void twice(float* y, const float* x, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    volatile float value = x[i];
    for (int k = 0; k < {{ [300, 1, 30][ahead] }}; ++k) value = value + 0.0f;
{% if ahead == 1 %}
    value = value + 0.0f * x[i + 1];
{% endif %}
    y[i] = 2.0f * value;
}
"""


def test_a_finalist_that_reads_past_an_end_is_refused_with_its_line_and_the_next_is_kept(tmp_path):
    (tmp_path / "twice.toml").write_text(SPEC)
    (tmp_path / "twice.cu.jinja").write_text(TEMPLATE)
    (tmp_path / "reference.py").write_text("def twice(x, **_):\n    return 2 * x\n")
    spec = load(tmp_path / "twice.toml")
    failed = {}

    def listen(event):
        if isinstance(event, Failed):
            failed[dict(event.configuration.values)["ahead"]] = event.failure

    request = TuningRequest(spec=spec, problems=tuple(all_problems(spec)))
    for launched in (True, False):
        tuned = tune([request], find_device(Place(backend="host"), {}), cache_folder=tmp_path / "cache", listen=listen)
        (row,) = tuned.rows
        assert [dict(choice.configuration.values) for choice in row.choices] == [{"ahead": 2}, {"ahead": 0}]
        assert bool(tuned.effort.launched) is launched
    (found,) = failed.values()
    assert found == Crashed(
        message="out of bounds: read of 4 bytes, 0 bytes past the end of 'x': twice.cu.jinja:7 "
        "(block (19, 0, 0), thread (135, 0, 0))"
    )
