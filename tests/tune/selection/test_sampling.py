"""Drawn problems: admitted, distinct, where they were asked for, ragged, and the same in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invented_times import bundled
from pretuned.spec import space
from pretuned.spec.space import Problem, pairs
from pretuned.tune.selection.sampling import draw, is_prime
from specs import loaded

SPECS = {name: bundled(name) for name in ("axpby", "row_softmax", "sgemm", "transpose")}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(SPECS)), st.integers(1, 60), st.integers(0, 10**6), st.sampled_from([1.0, 1.5, 2.0]))
def test_problems_are_distinct_and_where_they_were_asked_for(name, count, seed, reach):
    spec = SPECS[name]
    specialisation = next(iter(space.specialisations(spec)))
    listed = {name: {int(dict(one.dims)[name]) for one in space.problems(spec, specialisation)} for name in spec.dims}
    problems = draw(spec, specialisation, count, seed, reach=reach)
    assert len(set(problems)) == len(problems) == count
    for problem in problems:
        assert space.admitted(spec, problem)
        assert problem.specialisation == specialisation
        sizes = [(int(size), min(listed[dim]), max(listed[dim])) for dim, size in problem.dims]
        assert all(least / reach <= size <= most * reach for size, least, most in sizes)
        inside = all(least <= size <= most for size, least, most in sizes)
        assert inside == (reach == 1.0)


def test_problems_are_ragged_in_many_ways():
    sizes = [int(size) for problem in draw(SPECS["sgemm"], (), 200, seed=7) for _, size in problem.dims]
    kinds = Counter(
        kind
        for size in sizes
        for kind, found in {
            "odd": size % 2,
            "prime": is_prime(size),
            "of 8": size % 8 == 0,
            "of 128": size % 128 == 0,
            "power": size & (size - 1) == 0,
            "tile - 1": size % 64 == 63,
            "tile + 1": size % 64 == 1,
            "near a size": 0 < abs(size - 1024) <= 8,
        }.items()
        if found
    )
    assert all(kinds[kind] >= 8 for kind in ("of 128", "power", "tile - 1", "tile + 1", "near a size", "prime")), kinds
    assert kinds["odd"] > 100 < kinds["of 8"]


def test_some_problems_have_the_one_row_of_a_token():
    spec = bundled("layer_norm_backward")
    specialisation = next(space.specialisations(spec))
    drawn = draw(spec, specialisation, 200, seed=9)
    tokens = [dict(problem.dims)["cols"] for problem in drawn if dict(problem.dims)["rows"] == 1]
    assert 6 <= len(tokens) <= 25
    assert len(set(tokens)) == len(tokens)


def test_the_seed_decides_whatever_the_hash_seed_is():
    script = (
        "from invented_times import bundled\n"
        "from pretuned.tune.selection.sampling import draw\n"
        "print(*draw(bundled('sgemm'), (), 30, seed=3), sep=';')"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert printed[0].strip() == ";".join(str(problem) for problem in draw(SPECS["sgemm"], (), 30, seed=3))
    assert draw(SPECS["sgemm"], (), 30, seed=4) != draw(SPECS["sgemm"], (), 30, seed=3)


@pytest.mark.parametrize(("demand", "least"), [("n % 64 == 0", 15), ("n % 1000 == 24", 3), ("n == 1024", 1)])
def test_few_admitted_problems_are_found_as_far_as_there_are_any(tmp_path, demand, least):
    spec = loaded(tmp_path, ("[constraints]\n", f'[constraints]\nrequires = ["{demand}"]\n'), ("65536", "66024"))
    problems = draw(spec, (("T", "float16"),), 20, seed=1)
    assert all(space.admitted(spec, problem) for problem in problems)
    assert least <= len(problems) <= 20


def test_what_has_to_be_a_multiple_is_ragged_beyond_that(tmp_path):
    spec = loaded(tmp_path, ("[constraints]\n", '[constraints]\nrequires = ["n % 8 == 0"]\n'))
    sizes = [int(problem.dims[0][1]) for problem in draw(spec, (("T", "float16"),), 100, seed=1)]
    assert len(sizes) == 100
    assert not any(size % 8 for size in sizes)
    assert sum(size % 16 == 8 for size in sizes) >= 25


def test_what_is_left_out_is_not_drawn(tmp_path):
    spec = loaded(tmp_path, ("1024, 65536", "1024, 1032"))
    seen = draw(spec, (("T", "float16"),), 5, seed=1)
    others = draw(spec, (("T", "float16"),), 9, seed=1, without=seen)
    assert len(seen) == 5
    assert {dims["n"] for dims in (dict(p.dims) for p in (*seen, *others))} == set(range(1024, 1033))
    assert not set(seen) & set(others)


def test_a_dim_with_one_size_is_drawn_around_it(tmp_path):
    spec = loaded(tmp_path, ("1024, 65536", "1024"))
    sizes = [int(problem.dims[0][1]) for problem in draw(spec, (("T", "float16"),), 50, seed=1)]
    assert 512 <= min(sizes) < 1024 < max(sizes) <= 2048


def test_most_problems_are_those_that_are_called_and_the_often_called_come_first():
    often = Problem(specialisation=(), dims=pairs({"m": 17, "n": 4095, "k": 300}))
    calls = {
        Problem(specialisation=(), dims=pairs({"m": size, "n": 2048, "k": 512})): 1 for size in range(200, 600)
    } | {often: 10**6}
    spec = SPECS["sgemm"]
    drawn = [draw(spec, (), 20, seed, calls=calls) for seed in range(20)]
    assert all(sum(problem in calls for problem in problems) == 16 for problems in drawn)
    chance = 20 * 16 / 401
    assert sum(often in problems for problems in drawn) > 5 * chance
    elsewhere = {Problem(specialisation=(("T", "float16"),), dims=pairs({"n": 5})): 9}
    assert draw(spec, (), 20, 1, calls=elsewhere) == draw(spec, (), 20, 1)  # another kernel's
