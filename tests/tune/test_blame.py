"""A default that fails: alone in a fresh process it shows whether it is to blame, or who spoiled the process."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest

from pretuned.compile import host
from pretuned.config.settings import Place
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import Runner
from pretuned.outcome import Crashed
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import Configuration, all_problems
from pretuned.tune.blame import culprits
from pretuned.tune.events import Failed
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune
from specs import loaded

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


@pytest.mark.parametrize("places", [[0], [2, 5]])
def test_those_that_spoil_a_process_are_found_among_others(runner, places):
    assert runner.prepared is not None
    other = replace(runner.prepared, seed=1)
    for number in range(6):
        if number == 4:
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


SPEC = """\
format = 1
arguments = [
  { name = "y", role = "out", dtype = "float32", shape = ["n"] },
  { name = "x", role = "in", dtype = "float32", shape = ["n"] },
  { name = "n", dtype = "int32" },
]

[dims]
n = { sizes = [2000] }

[space]
spoil = [0, 1]

[default]
spoil = 0

[[launches]]
function = "thrice"
grid     = ["ceil_div(n, 256)"]
block    = [256]

[verify]
reference = "reference.py:thrice"
rtol      = { float32 = 6e-8 } # half a unit in the last place
atol      = { float32 = 0 }
"""
TEMPLATE = """\
extern "C" int fesetround(int);

extern "C" __global__ void thrice(float* y, const float* x, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    {{ "volatile" if spoil == 0 else "" }} float value = x[i];
    for (int k = 0; k < {{ 1 if spoil else 100 }}; ++k) value = value + 0.0f;  // the default takes its time
{% if spoil %}
    fesetround(0);
{% endif %}
    y[i] = 3.0f * value;
{% if spoil %}
    fesetround(0x800);  // upwards on x86: what others compute from now on is off
{% endif %}
}
"""


@pytest.mark.skipif(host.compiler() is None or platform.machine() != "x86_64", reason="no C++ compiler for x86 here")
def test_a_tuning_refuses_what_spoils_its_process_and_keeps_the_default(tmp_path):
    (tmp_path / "thrice.toml").write_text(SPEC)
    (tmp_path / "thrice.cu.jinja").write_text(TEMPLATE)
    (tmp_path / "reference.py").write_text("def thrice(x, **_):\n    return 3.0 * x.astype('float64')\n")
    spec = load(tmp_path / "thrice.toml")
    failed = {}

    def listen(event):
        if isinstance(event, Failed):
            failed[dict(event.configuration.values)["spoil"]] = event.failure

    request = TuningRequest(spec=spec, problems=tuple(all_problems(spec)))
    tuned = tune([request], find_device(Place(backend="host"), {}), cache_folder=None, listen=listen)
    (row,) = tuned.rows
    assert [dict(choice.configuration.values) for choice in row.choices] == [{"spoil": 0}]
    assert {case: type(failure) for case, failure in failed.items()} == {1: Crashed}
