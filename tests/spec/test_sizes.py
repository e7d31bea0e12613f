"""The sizes that arguments hold."""

from __future__ import annotations

from pretuned.spec.sizes import fits_arguments
from pretuned.spec.space import Problem
from specs import loaded


def test_a_dim_that_is_passed_by_value_fits_its_type(tmp_path):
    spec = loaded(tmp_path)
    found = [Problem(specialisation=(("T", "float32"),), dims=(("n", size),)) for size in (2**31 - 1, 2**31)]
    assert [fits_arguments(spec, problem) for problem in found] == [True, False]
