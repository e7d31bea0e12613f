"""The sizes beyond those that were measured."""

from __future__ import annotations

from pretuned.spec import buckets
from pretuned.spec.space import Problem
from specs import loaded

FLOAT32 = (("T", "float32"),)


def problem(n):
    return Problem(specialisation=FLOAT32, dims=(("n", n),))


def test_probes_lie_beyond_the_outermost_sizes(tmp_path):
    spec = loaded(tmp_path)

    assert [(d, dict(p.dims)["n"]) for d, p in buckets.problems_beyond(spec, problem(1024))] == [("n<", 256)]
    assert [(d, dict(p.dims)["n"]) for d, p in buckets.problems_beyond(spec, problem(65536))] == [("n>", 262144)]


def test_one_size_has_one_bucket_and_no_beyond(tmp_path):
    spec = loaded(tmp_path, ("1024, 65536", "1024"))

    assert list(buckets.problems_beyond(spec, problem(1024))) == []


def test_a_probe_is_left_out_where_the_kernel_cannot_go(tmp_path):
    largest = 2**30
    spec = loaded(tmp_path, ("1024, 65536", f"1024, {largest}"), ("where =", 'requires = ["n >= 1000"]\nwhere ='))

    assert list(buckets.problems_beyond(spec, problem(1024))) == []  # 256 is refused
    assert list(buckets.problems_beyond(spec, problem(largest))) == []  # beyond int32
    assert not buckets.fits_arguments(spec, problem(2**31))
    assert buckets.fits_arguments(spec, problem(2**31 - 1))
