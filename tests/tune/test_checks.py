"""At which odd sizes a finalist is verified."""

from __future__ import annotations

from pretuned.spec.space import Problem
from pretuned.tune.soundness import check_problems
from specs import loaded

FLOAT = (("T", "float32"),)


def problem(**dims):
    return Problem(specialisation=FLOAT, dims=tuple(sorted(dims.items())))


def checked(spec, **dims):
    return [tuple(size for _, size in found.dims) for found in check_problems(spec, problem(**dims))]


def test_tiny_sizes_the_lower_edge_and_one_less(tmp_path):
    spec = loaded(tmp_path)
    assert checked(spec, n=1024) == [(0,), (1,), (37,), (1023,)]
    assert checked(spec, n=65536) == [(0,), (1,), (37,), (8192,), (65535,)]


def test_what_the_kernel_does_not_admit_is_left_out(tmp_path):
    spec = loaded(tmp_path, ("[constraints]", '[constraints]\nrequires = ["n >= 1", "n % 2 == 0 or n < 100"]'))
    assert checked(spec, n=1024) == [(1,), (37,)]
