"""Problems that are measured: spread over what was drawn, none far from one that is measured."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invented_times import bundled
from pretuned.spec import space
from pretuned.spec.space import Problem
from pretuned.tune.selection.sampling import draw
from pretuned.tune.selection.spreading import POOL, spread

SPECS = {name: bundled(name) for name in ("axpby", "row_softmax", "sgemm", "transpose")}


def drawn(name, count, seed):
    spec = SPECS[name]
    return draw(spec, next(iter(space.specialisations(spec))), count, seed)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(SPECS)), st.integers(0, 30), st.integers(0, 10**6), st.integers(0, 3))
def test_they_are_some_of_the_pool_each_once_and_any_first_part_of_them_is_what_fewer_are(name, count, seed, others):
    pool, beside = drawn(name, 40, seed), drawn(name, others, seed + 1)
    found = spread(pool, count, beside)
    assert len(found) == count == len(set(found))
    assert set(found) <= set(pool)
    assert spread(pool, count // 2, beside) == found[: count // 2]


@pytest.mark.parametrize("name", ["axpby", "row_softmax", "transpose"])
def test_sizes_that_nobody_measured_are_nearer_than_with_as_many_by_chance(name):
    def octaves(problems):
        return [[math.log2(int(size)) for _, size in problem.dims] for problem in problems]

    def far(measured):
        return statistics.mean(min(math.dist(at, one) for one in octaves(measured)) for at in octaves(fresh))

    fresh = drawn(name, 100, 10)
    pools = [drawn(name, 10 * POOL, seed) for seed in range(4)]
    assert sum(far(spread(pool, 10)) for pool in pools) < 0.98 * sum(far(pool[:10]) for pool in pools)


def test_what_is_measured_anyway_is_not_measured_twice_nearby():
    def problem(n):
        return Problem(specialisation=(), dims=(("n", n),))

    pool = [problem(n) for n in (1000, 1001, 1003, 90001, 90003)]
    assert spread(pool, 1, [problem(1007)])[0] in pool[3:]
    assert spread(pool, 1, [problem(90007)])[0] in pool[:3]


def test_where_few_were_drawn_all_are_measured():
    pool = drawn("transpose", 3, 0)
    assert sorted(spread(pool, 9)) == sorted(pool)
    assert spread([], 9) == []
