"""A default that fails: alone in a fresh process it shows whether it is to blame, or what spoiled the process."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest

from computed_references import at, spec_with
from host_tuning import kernel, tuned_on_host
from pretuned.compile import host
from pretuned.compile.host import CPP
from pretuned.compile.pool import compile_all
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import Runner
from pretuned.outcome import Crashed
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.space import Configuration
from pretuned.tune.blame import culprits, passes_by_numpy
from specs import SCALE_TEMPLATE, loaded

RIGHT, SPOIL, SPOILED, WRONG = 0, 4, 5, 6


def entry(do, number=0):
    configuration = Configuration(implementation="main", values=(("do", do), ("number", number)))
    return CompiledCandidate(configuration=configuration, image=b"", digest=f"{do} {number}")


@pytest.fixture
def runner(tmp_path):
    spec = loaded(tmp_path)
    problem = next(space.problems(spec, next(space.specialisations(spec))))
    with Runner("children:gpu", candidate_s=5) as found:
        assert found.prepare(PrepareRequest(spec=spec, problem=problem, default=entry(RIGHT))) is None
        yield found


def test_a_default_that_fails_alone_is_to_blame(runner):
    runner.verify(entry(RIGHT))
    assert runner.verify(entry(WRONG)).failure is not None
    assert culprits(runner, entry(WRONG)) is None


def test_where_nothing_ran_before_it_no_process_is_started(runner):
    assert runner.verify(entry(WRONG)).failure is not None
    replaced, child = runner.replaced, runner._child
    assert culprits(runner, entry(WRONG)) is None
    assert (runner.replaced, runner._child) == (replaced, child)


@pytest.mark.parametrize("places", [[0], [1, 3]])
def test_those_that_spoil_a_process_are_found_among_others(runner, places):
    assert runner.prepared is not None
    other = replace(runner.prepared, seed=1)
    for number in range(4):
        if number == 2:
            runner.prepare(other)
        runner.verify(entry(SPOIL if number in places else RIGHT, number))
    assert runner.verify(entry(SPOILED)).failure is not None
    found = culprits(runner, entry(SPOILED))
    assert found is not None
    assert [dict(one.configuration.values)["number"] for _, one, _ in found] == places
    assert {failure for *_, failure in found} == {
        Crashed(message="it spoils its process: the default fails behind it (y: off)")
    }
    assert runner.prepared == other
    assert runner.verify(entry(SPOILED)).failure is None


LARGE_ONLY = "def on_gpu(x, a, n, **_):\n    return x * (a if n < 20_000 else a + {off})\n"


@pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")
@pytest.mark.parametrize(("off", "scaled", "cleared"), [(1, "a", True), (0, "1.5f * a", False), (1, "1.7f * a", False)])
def test_a_default_is_right_by_numpy_where_the_machines_reference_is_wrong_at_large_sizes(
    tmp_path, off, scaled, cleared
):
    spec = spec_with(tmp_path, LARGE_ONLY.format(off=off))
    template = SCALE_TEMPLATE.replace("a *", f"{scaled} *")
    (tmp_path / "scale.cu.jinja").write_text(f"#include <cuda_fp16.h>\n{template}", encoding="utf-8")
    source = source_of(spec, at(65536).specialisation, space.default(spec))
    binary = compile_all([source], host.HOST, workers=1, toolchain=CPP)[source.key]
    default = CompiledCandidate.of(space.default(spec), binary)
    with Runner("lent_arrays:serve", candidate_s=5) as runner:
        runner.prepare(PrepareRequest(spec=spec, problem=at(65536), default=default))
        assert runner.verify(default).failure is not None
        assert runner.notes == []
        assert culprits(runner, default) is None
        assert passes_by_numpy(runner, default) is cleared
        assert len(runner.notes) == cleared
        assert (runner.verify(default).failure is None) is cleared
        assert not passes_by_numpy(runner, default)  # once


def test_only_the_machines_references_are_in_doubt(runner):
    assert runner.verify(entry(WRONG)).failure is not None
    child = runner._child
    assert not passes_by_numpy(runner, entry(WRONG))
    assert runner._child is child


TEMPLATE = """\
extern "C" int fesetround(int);

extern "C" __global__ void thrice(float* y, const float* x, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    {{ "volatile" if case == 0 else "" }} float value = x[i];
    for (int k = 0; k < {{ 1 if case else 100 }}; ++k) value = value + 0.0f;  // the default takes its time
{% if case %}
    fesetround(0);
{% endif %}
    y[i] = 3.0f * value;
{% if case %}
    fesetround(0x800);  // upwards on x86: what others compute from now on is off
{% endif %}
}
"""


@pytest.mark.skipif(host.compiler() is None or platform.machine() != "x86_64", reason="no C++ compiler for x86 here")
def test_a_tuning_refuses_what_spoils_its_process_and_keeps_the_default(tmp_path):
    half_a_unit = "rtol = { float32 = 6e-8 }\natol = { float32 = 0 }\n"  # in the last place
    spec = kernel(tmp_path, "thrice", TEMPLATE, [0, 1], result="3.0 * x.astype('float64')", verify=half_a_unit)
    _, kept, failures = tuned_on_host(spec)
    assert kept == [0]
    assert {case: type(failure) for case, failure in failures.items()} == {1: Crashed}
