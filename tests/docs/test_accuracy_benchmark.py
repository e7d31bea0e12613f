"""benchmarks/accuracy.py: which problems are drawn, what inputs hold, and that a result that is off is found."""

import math
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pretuned.measure import data
from pretuned.measure.launch import arrays
from pretuned.spec import space
from pretuned.spec.loader import load_folder

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

from values.inputs import SPECIALS, planted, random_views, scaled  # noqa: E402 - behind the path
from values.judging import worst_share  # noqa: E402
from values.problems import drawn  # noqa: E402
from values.terms import terms  # noqa: E402

SPECS = load_folder(ROOT / "templates", {"axpby", "scan"})
SEED, ELEMENTS = 5, 3000


@pytest.fixture(params=SPECS)
def spec(request):
    return SPECS[request.param]


def test_problems_are_small_and_admitted_and_follow_from_the_seed(spec):
    found = list(drawn(spec, 60, SEED, ELEMENTS))
    assert found == list(drawn(spec, 60, SEED, ELEMENTS))
    assert len(found) == 60
    assert all(space.admitted(spec, one) for one in found)
    assert all(sum(buffer.size for buffer in arrays(spec, one)) <= ELEMENTS for one in found)
    assert {one.specialisation for one in found} == set(space.specialisations(spec))
    assert {0, 1} <= {size for one in found for _, size in one.dims}


def large(spec):
    return max(drawn(spec, 60, SEED, ELEMENTS), key=lambda one: sum(buffer.size for buffer in arrays(spec, one)))


def test_a_result_that_is_off_by_more_than_the_tolerance_is_found(spec):
    problem, rng = large(spec), random.Random(SEED)
    stored = scaled(spec, problem, SEED, rng)
    wanted = data.reference(spec, problem, stored)
    assert worst_share(spec, problem, stored, wanted, wanted)[0] == 0
    off = {"out": wanted["out"].copy()}
    off["out"].flat[-1] += 1 + abs(off["out"].flat[-1])
    share, where = worst_share(spec, problem, stored, off, wanted)
    assert share > 1
    assert "instead of" in where
    lost = {"out": wanted["out"].copy()}
    if lost["out"].dtype.kind == "f":
        lost["out"].flat[0] = np.nan
        assert worst_share(spec, problem, stored, lost, wanted)[0] == math.inf


@pytest.mark.parametrize("special", SPECIALS)
def test_special_values_stand_in_one_array_after_the_other_and_then_all_over_the_first(special):
    spec = SPECS["axpby"]
    problems = [one for one in drawn(spec, 60, SEED, ELEMENTS) if dict(one.specialisation)["T"] == "float32"]
    problem = max(problems, key=lambda one: one.dims)
    before = data.inputs(spec, problem, SEED)
    changed = [
        {name: int((one.full.view(np.uint32) != before[name].full.view(np.uint32)).sum()) for name, one in of.items()}
        for of in planted(spec, problem, SEED, special, random.Random(SEED))
    ]
    assert [{name for name, count in of.items() if count} for of in changed] == [{"x"}, {"y"}, {"x"}]
    assert [max(of.values()) for of in changed] == [3, 3, dict(problem.dims)["n"]]


def test_half_of_the_calls_have_arrays_that_begin_anywhere(spec):
    problem = large(spec)
    views = [random_views(spec, problem, random.Random(seed)) for seed in range(40)]
    assert 5 < sum(any(one.values()) for one in views) < 35


def test_the_terms_of_a_gradient_excuse_what_cancels_and_no_more():
    (spec,) = load_folder(ROOT / "templates", {"rms_norm_backward"}).values()
    single = [one for one in drawn(spec, 300, SEED, ELEMENTS) if dict(one.dims)["cols"] == 1]
    problem = max((one for one in single if "float32" in str(one)), key=lambda one: dict(one.dims)["rows"])
    stored = data.inputs(spec, problem, SEED)
    stored["x"] = replace(
        stored["x"], values=data.encode(1000 + data.decode(stored["x"].full, "float32"), "float32"), begin=0, pool=None
    )
    wanted = data.reference(spec, problem, stored)
    slack = terms(spec, problem, stored, wanted)
    x, grad, weight = (data.decoded(stored[name], "float32").astype(np.float32) for name in ("x", "grad_out", "weight"))
    factor = 1 / np.sqrt(x * x + np.float32(1))
    products = grad * weight
    rounded = (products - x * (products * x * factor * factor)) * factor
    assert worst_share(spec, problem, stored, wanted | {"grad_x": rounded}, wanted)[0] > 1
    assert worst_share(spec, problem, stored, wanted | {"grad_x": rounded}, wanted, slack)[0] <= 1
    unscaled = wanted | {"grad_x": products * factor}
    assert worst_share(spec, problem, stored, unscaled, wanted, slack)[0] > 1000


def test_the_terms_of_a_sum_over_rows_excuse_what_cancels_and_no_more():
    (spec,) = load_folder(ROOT / "templates", {"layer_norm_backward"}).values()
    of_float32 = [one for one in drawn(spec, 300, SEED, ELEMENTS) if "float32" in str(one)]
    problem = max(of_float32, key=lambda one: dict(one.dims)["rows"])
    stored = data.inputs(spec, problem, SEED)
    grads = data.decoded(stored["grad_out"], "float32").astype(np.float32)
    grads[len(grads) // 2 :] = 0.99999 * -grads[: len(grads) - len(grads) // 2]
    stored["grad_out"] = replace(stored["grad_out"], values=data.encode(1000 * grads, "float32"), begin=0, pool=None)
    wanted = data.reference(spec, problem, stored)
    slack = terms(spec, problem, stored, wanted)
    added = wanted | {"grad_bias": np.cumsum(1000 * grads, axis=0, dtype=np.float32)[-1]}  # one after the other
    assert worst_share(spec, problem, stored, added, wanted)[0] > 1
    assert worst_share(spec, problem, stored, added, wanted, slack)[0] <= 1
    without_one = wanted | {"grad_bias": wanted["grad_bias"] - 1000 * grads[0]}
    assert worst_share(spec, problem, stored, without_one, wanted, slack)[0] > 100
