"""What tuning passes for scalars: two of one type never the same, as far as that cannot break a kernel."""

from __future__ import annotations

import pytest

from pretuned.measure.data import inputs, reference
from pretuned.measure.launch import scalars
from pretuned.render import verification_key
from pretuned.spec.scalars import alike, tuning_values
from pretuned.spec.space import all_problems
from specs import SCALE, loaded

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


def test_a_row_is_verified_anew_where_its_values_have_changed(tmp_path):
    alike_once = verification_key(spec_of(tmp_path, ("b", "float32", 2.0)))
    assert alike_once == verification_key(spec_of(tmp_path, ("b", "float32", 1.5)))
    assert alike_once != verification_key(spec_of(tmp_path, ("b", "float32", 1.0)))
