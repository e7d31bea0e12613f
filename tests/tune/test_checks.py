"""At which odd sizes a finalist is verified, and at which it is tried beyond the table."""

from __future__ import annotations

from pretuned.spec.buckets import problems_beyond
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


def test_probes_lie_a_factor_of_four_beyond_the_outermost_sizes(tmp_path):
    spec = loaded(tmp_path)
    found = {size: list(problems_beyond(spec, problem(n=size))) for size in (1024, 65536)}
    assert found == {1024: [("n<", problem(n=256))], 65536: [("n>", problem(n=262144))]}


def test_a_probe_that_no_argument_holds_is_left_out(tmp_path):
    spec = loaded(tmp_path, ("[1024, 65536]", "[1, 2000000000]"))
    assert list(problems_beyond(spec, problem(n=1))) == []
    assert list(problems_beyond(spec, problem(n=2000000000))) == []
