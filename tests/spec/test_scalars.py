"""What tuning passes for scalars: two of one type never the same, as far as that cannot break a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from pretuned.measure.data import FunctionError, inputs, reference
from pretuned.measure.launch import scalars
from pretuned.render import verification_key
from pretuned.spec.scalars import alike, tuning_values
from pretuned.spec.space import Problem, all_problems
from specs import SCALE, edited, loaded

A = '  { name = "a", dtype = "float32", value = 2.0 },\n'


def spec_of(folder, *scalars):
    """The kernel `scale` with scalars of (name, dtype, value) behind `a`, which is 2.0."""
    lines = "".join(f'  {{ name = "{name}", dtype = "{dtype}", value = {value} }},\n' for name, dtype, value in scalars)
    assert A in SCALE
    return loaded(folder, (A, A + lines))


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ([("b", "float32", 1.0)], {"b": 1.0}),
        ([("b", "float32", 2.0)], {"b": 1.5}),
        ([("b", "float32", 2.0), ("c", "float32", 2.0), ("d", "float32", 1.5)], {"b": 1.5, "c": 1.125, "d": 0.84375}),
        ([("b", "float64", 2.0)], {"b": 2.0}),  # the sizes differ, so the contract sees a swap
        ([("b", "float32", -0.5), ("c", "float32", -0.5)], {"b": -0.5, "c": -0.375}),
        ([("b", "float32", 0.0), ("c", "float32", 0.0)], {"b": 0.0, "c": 0.0}),
        ([("b", "int32", 3), ("c", "int32", 3)], {"b": 3, "c": 3}),
        ([("b", "bool", "true"), ("c", "bool", "true")], {"b": True, "c": True}),
    ],
)
def test_floats_of_one_type_differ_and_what_may_be_a_size_or_a_switch_stays(tmp_path, given, passed):
    spec = spec_of(tmp_path, *given)
    assert tuning_values(spec) == {"a": 2.0} | passed
    by_name = {name: (dtype, value) for (name, dtype, _), value in zip(given, passed.values(), strict=True)}
    assert [(late.name, early.name) for late, early in alike(spec)] == (
        [("c", "b")] if len(given) > 1 and by_name["b"] == by_name["c"] else []
    )


def test_the_kernel_and_its_reference_are_passed_the_same(tmp_path):
    spec = spec_of(tmp_path, ("b", "float32", 2.0))
    (tmp_path / "reference.py").write_text("def scale(x, a, b, **_):\n    return 0 * x + 10 * a + b\n")
    problem = all_problems(spec)[0]
    assert [(scalar.name, scalar.value) for scalar in scalars(spec, problem)] == [("a", 2.0), ("b", 1.5), ("n", 1024)]
    assert reference(spec, problem, inputs(spec, problem, 0))["y"][0] == 21.5


def test_an_expression_has_its_value_at_the_problem_and_is_no_default(tmp_path):
    spec = spec_of(tmp_path, ("b", "int64", '"n - 47"'), ("c", "bool", '"n > 2000"'), ("d", "float32", '"n"'))
    assert [
        {scalar.name: scalar.value for scalar in scalars(spec, problem) if scalar.name in "bcd"}
        for problem in all_problems(spec)[:2]
    ] == [{"b": 977, "c": False, "d": 1024}, {"b": 65489, "c": True, "d": 65536}]
    assert list(alike(spec)) == []
    same = spec_of(tmp_path, ("b", "int64", '"n - 47"'), ("c", "int64", '"n-47"'))
    assert [(late.name, early.name) for late, early in alike(same)] == [("c", "b")]


def test_a_size_between_those_of_the_spec_at_which_a_value_does_not_fit_is_a_failure_in_words(tmp_path):
    spec = spec_of(tmp_path, ("b", "uint8", '"n % 1024"'))
    problem = Problem(specialisation=(("T", "float32"),), dims=(("n", 1500),))
    with pytest.raises(FunctionError) as caught:
        inputs(spec, problem, 0)
    assert str(caught.value) == (
        "the value of a scalar cannot be passed at n=1500, T=float32: 'n % 1024' is 476, and uint8 is an integer from "
        "0 to 255; say in `requires` which sizes the kernel takes"
    )


def test_the_default_is_what_tuning_passes_where_there_is_no_value(tmp_path):
    toml = edited(SCALE, ("value = 2.0", "default = 2.0"))
    assert tuning_values(loaded(tmp_path, toml=toml)) == {"a": 2.0}
    toml = edited(SCALE, ("value = 2.0", "value = 3.0, default = 2.0"))
    assert tuning_values(loaded(tmp_path, toml=toml)) == {"a": 3.0}


def test_the_reference_is_passed_what_the_kernel_has(tmp_path):
    """0.1 as bfloat16 is 0.10009765625; a type of the arrays is that of the problem."""
    spec = spec_of(tmp_path, ("b", "bfloat16", 0.1), ("c", "T", 0.1))
    (tmp_path / "reference.py").write_text("def scale(x, b, c, **_):\n    return 0 * x + b + 1024 * c\n")
    found = {dict(problem.specialisation)["T"]: problem for problem in all_problems(spec)}
    for dtype, c in (("float32", float(np.float32(0.1))), ("float16", float(np.float16(0.1)))):
        problem = found[dtype]
        assert reference(spec, problem, inputs(spec, problem, 0))["y"][0] == 0.10009765625 + 1024 * c


def test_types_that_may_meet_are_kept_apart(tmp_path):
    spec = spec_of(tmp_path, ("b", "T", 2.0), ("c", "float16", 2.0))
    assert tuning_values(spec) == {"a": 2.0, "b": 1.5, "c": 2.0}


def test_a_row_is_verified_anew_where_its_values_have_changed(tmp_path):
    alike_once = verification_key(spec_of(tmp_path, ("b", "float32", 2.0)))
    assert alike_once == verification_key(spec_of(tmp_path, ("b", "float32", 1.5)))
    assert alike_once != verification_key(spec_of(tmp_path, ("b", "float32", 1.0)))
