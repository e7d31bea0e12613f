"""Anchors lie far apart, and what did well around a problem is expected to do well at it."""

from __future__ import annotations

import itertools
import math

import numpy as np

from pretuned.spec.space import Problem
from pretuned.tune.representatives import distance, promising, representatives

SIZES = (256, 512, 1024, 4096)


def problem(**dims):
    return Problem(specialisation=(), dims=tuple(sorted(dims.items())))


GRID = [problem(m=m, n=n, k=k) for m, n, k in itertools.product(SIZES, SIZES, SIZES)]


def test_anchors_hold_the_smallest_and_the_largest_and_leave_none_far_from_all():
    chosen = representatives(GRID)
    assert len(chosen) == 8
    assert chosen[:2] == [GRID[0], GRID[-1]]
    farthest = max(min(distance(one, other) for other in chosen) for one in GRID)
    assert farthest <= min(distance(a, b) for a, b in itertools.combinations(chosen, 2))


def test_a_few_problems_are_all_anchors():
    assert representatives(GRID[:4]) == GRID[:4]
    assert representatives([]) == []


def test_a_problem_whose_configurations_are_its_own_is_a_representative_as_well():
    nothing = np.zeros(12, dtype=bool)
    everywhere, elsewhere, partly = nothing.copy(), nothing.copy(), nothing.copy()
    everywhere[:6] = elsewhere[6:10] = partly[3:9] = True
    middles = [GRID[20], GRID[21], GRID[22]]
    alone = dict.fromkeys(GRID, everywhere) | dict.fromkeys(middles[:2], elsewhere) | {middles[2]: partly}
    assert not set(middles) & set(representatives(GRID))
    assert representatives(GRID, alone) == [*representatives(GRID), middles[0]]
    assert representatives(GRID, dict.fromkeys(GRID, everywhere)) == representatives(GRID)
    assert representatives(GRID, dict.fromkeys(GRID, nothing)) == representatives(GRID)


def test_a_candidate_that_is_good_on_both_sides_is_expected_to_be_good_between():
    times = {
        problem(n=1024): {"small": 1.0, "middle": 1.1, "large": 3.0, "broken": math.inf},
        problem(n=65536): {"small": 30.0, "middle": 11.0, "large": 10.0, "broken": 1.0},
    }
    assert promising(times, problem(n=8192), 2)[0] == "middle"
    assert promising(times, problem(n=1500), 3) == ["small", "middle", "large"]
    assert promising(times, problem(n=60000), 1)[0] == "large"


def test_the_best_of_every_other_problem_is_tried_too():
    everywhere = {f"steady {index}": 1.1 for index in range(30)}
    times = {problem(n=1024): everywhere | {"special": 9.0}, problem(n=65536): everywhere | {"special": 1.0}}
    assert "special" not in promising(times, problem(n=2048), 5)[:5]
    assert "special" in promising(times, problem(n=2048), 5)


def test_who_is_not_legal_takes_nobodys_place():
    times = {problem(n=1024): {"best": 1.0, "second": 2.0, "third": 3.0}}
    assert promising(times, problem(n=2048), 1, lambda candidate: candidate != "best") == ["second", "third"]


def test_nothing_is_expected_of_who_failed_or_was_never_timed():
    assert promising({problem(n=1): {"a": math.inf}}, problem(n=2), 5) == []
    assert promising({}, problem(n=2), 5) == []
