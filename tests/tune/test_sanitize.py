"""On the host device, what would be kept runs under the memory sanitizer first."""

from __future__ import annotations

import pytest

from host_tuning import kernel, tuned_on_host
from pretuned.compile import host
from pretuned.outcome import Crashed

pytestmark = pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")

# `case == 1` reads one element past the end, of which nothing shows in the result.
TEMPLATE = """\
extern "C" __global__ void twice(float* y, const float* x, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    volatile float value = x[i];
    for (int k = 0; k < {{ [300, 1, 30][case] }}; ++k) value = value + 0.0f;
{% if case == 1 %}
    value = value + 0.0f * x[i + 1];
{% endif %}
    y[i] = 2.0f * value;
}
"""


def test_a_finalist_that_reads_past_an_end_is_refused_with_its_line_and_the_next_is_kept(tmp_path):
    spec = kernel(tmp_path, "twice", TEMPLATE, [0, 1, 2])
    tuned, kept, failures = tuned_on_host(spec, tmp_path / "cache")
    assert tuned.spending.launched
    assert kept == [2, 0]
    assert failures == {
        1: Crashed(
            message="out of bounds: read of 4 bytes, 0 bytes past the end of 'x': twice.cu.jinja:7 "
            "(block (19, 0, 0), thread (135, 0, 0))"
        )
    }
    tuned, kept, _ = tuned_on_host(spec, tmp_path / "cache")
    assert not tuned.spending.launched
    assert kept == [2, 0]
