"""Which measured size answers for which."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from pretuned.spec import buckets
from pretuned.spec.space import Problem
from specs import loaded

FLOAT32 = (("T", "float32"),)
sizes = st.lists(st.integers(1, 2**62), min_size=1, max_size=8, unique=True).map(sorted)


def owners(listed, size):
    """Return the measured sizes whose bucket holds `size`."""
    found = []
    for measured in listed:
        lower, upper = buckets.bounds(listed, measured)
        if lower <= size and (upper is None or size < upper):
            found.append(measured)
    return found


def test_an_edge_is_the_integer_square_root():
    assert buckets.edges([128, 1024, 4096]) == (362, 2048)
    assert buckets.edges([7]) == ()
    assert buckets.bounds([128, 1024, 4096], 1024) == (362, 2048)
    assert buckets.bounds([128, 1024, 4096], 4096) == (2048, None)


@given(sizes, st.integers(0, 2**63))
def test_every_size_falls_in_one_bucket(listed, size):
    assert len(owners(listed, size)) == 1


@given(sizes)
def test_a_measured_size_is_in_its_own_bucket(listed):
    assert [owners(listed, size) for size in listed] == [[size] for size in listed]


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=8, unique=True).map(sorted), st.integers(1, 20_000))
def test_a_bucket_is_the_nearest_by_ratio(listed, size):
    def distance(measured):
        return abs(math.log(size / measured))

    owner = owners(listed, size)[0]
    nearest = min(map(distance, listed))

    assert distance(owner) - nearest < 1e-9 or size in buckets.edges(listed)  # an edge is rounded to an integer


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
