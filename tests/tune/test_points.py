"""The matrix of points against the configurations that the spec's own enumeration yields."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_folders import specs_in
from pretuned.errors import SpecError
from pretuned.spec import space
from pretuned.spec.defaults import defaults
from pretuned.spec.expressions import Expression
from pretuned.spec.grammar import ExpressionError
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Problem
from pretuned.tune.space import enumeration
from pretuned.tune.space.points import Points
from specs import SEVERAL, loaded

ROOT = Path(__file__).parents[2]
H100 = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232_448, l2_bytes=52_428_800)
FLOAT32 = (("T", "float32"),)
PARAMETERS = ("a", "b", "c", "d")


def reference(spec, specialisation, problems, device=None):
    """What the spec's own enumeration yields, over the problems, in its order; first all that the default may be."""
    first = defaults(spec, specialisation)
    yield from first
    for name, implementation in spec.all_implementations.items():
        for configuration in space.combinations(name, implementation):
            if configuration not in first and any(space.legal(spec, p, configuration, device) for p in problems):
                yield configuration


def agree(spec, specialisation, problems, device=None):
    """Return the points, which are what the reference yields, legal where it says so."""
    points = Points.of(spec, specialisation, problems, device)
    expected = list(reference(spec, specialisation, problems, device))
    assert list(points) == expected
    assert [str(c) for c in points] == [str(c) for c in expected]  # true stays true
    assert [points.index(c) for c in expected] == list(range(len(expected)))
    for problem in problems:
        own = space.default_at(spec, problem)
        legal = [c == own or space.legal(spec, problem, c, device) for c in expected]
        assert points.legal(problem).tolist() == legal
    return points


def implementation(space_, default, where):
    launches = [{"function": "f", "grid": [1], "block": [1]}]
    return {
        "template": "f.cu.jinja",
        "space": space_,
        "default": default,
        "launches": launches,
        "constraints": {"where": where},
    }


def kernel(ways, default=""):
    return KernelSpec(
        name="kernel",
        arguments=[{"name": "y", "role": "out", "dtype": "float32", "shape": ["n", "m"]}],
        dims={"n": {"sizes": [1]}, "m": {"sizes": [1]}, "head": {"values": [2, 3], "constant": True}},
        specialisations={"T": {"dtypes": ["float32", "float16"]}},
        implementations=ways,
        default={"implementation": default or min(ways)},
    )


def problem(n, m=1, head=2, dtype="float32"):
    return Problem(specialisation=space.pairs({"T": dtype, "head": head}), dims=(("m", m), ("n", n)))


def parses(text):
    """Whether no part of it divides by zero everywhere, as `1 // 0` does."""
    try:
        Expression.parse(text)
    except ExpressionError:
        return False
    return True


names = st.sampled_from([*PARAMETERS, *PARAMETERS, "n", "m", "head"])
atoms = st.one_of(names, st.integers(0, 6).map(str), st.sampled_from(["sizeof(T)", "device.sm_count"]))
terms = st.one_of(atoms, st.builds("({} {} {})".format, atoms, st.sampled_from(["+", "*", "-", "//", "%"]), atoms))
comparisons = st.builds("{} {} {}".format, terms, st.sampled_from(["==", "!=", "<", "<=", ">"]), terms)
conditions = st.one_of(
    comparisons, comparisons, st.builds("{} or {}".format, comparisons, comparisons), st.builds("not {}".format, names)
).filter(parses)
values = st.one_of(st.lists(st.integers(-2, 8), min_size=1, max_size=4), st.lists(st.booleans(), min_size=1))


@st.composite
def ways(draw):
    listed = draw(st.dictionaries(st.sampled_from(PARAMETERS), values, max_size=4))
    where = draw(st.lists(conditions, max_size=4))
    if draw(st.booleans()):
        default = {name: draw(st.sampled_from(column)) for name, column in listed.items()}
        return implementation(listed, default, where)
    row = st.fixed_dictionaries({name: st.sampled_from(column) for name, column in listed.items()})
    rows = draw(st.lists(row, min_size=1, max_size=8))
    return implementation(rows, draw(st.sampled_from(rows)), where)


problems = st.lists(st.builds(problem, st.integers(0, 9), st.integers(0, 3)), max_size=12)


@settings(deadline=None, max_examples=120)
@given(st.dictionaries(st.sampled_from(["first", "second", "third"]), ways(), min_size=1), problems, st.data())
def test_points_are_the_legal_configurations_in_their_order(drawn, asked, data):
    spec = kernel(drawn, data.draw(st.sampled_from(sorted(drawn))))
    device = data.draw(st.sampled_from([None, H100]))

    points = agree(spec, problem(1).specialisation, asked, device)

    other = problem(4, head=3, dtype="float16")  # of another specialisation than the points
    found = points.legal(other).tolist()
    assert found == [place == 0 or space.legal(spec, other, c, device) for place, c in enumerate(points)]
    union = dict.fromkeys(c for p in asked for c in space.configurations(spec, p, device))
    assert set(points) == {space.default(spec), *union}


@settings(deadline=None, max_examples=100)
@given(st.lists(conditions, min_size=1, max_size=4), problems)
def test_constraints_too_wide_for_a_table_and_small_chunks_find_the_same(where, asked):
    listed = {name: [*range(size)] for name, size in zip(PARAMETERS, (4, 3, 5, 2), strict=True)}
    spec = kernel(
        {"only": implementation(listed, dict.fromkeys(PARAMETERS, 0), where), "other": implementation({}, {}, [])}
    )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enumeration, "TABLE", 6)
        patch.setattr(enumeration, "CHUNK", 7)
        agree(spec, problem(1).specialisation, asked, H100)


@pytest.mark.parametrize("folder", ["templates", "examples/quickstart/kernels", "tests/bake/golden/specs"])
def test_shipped_kernels_have_the_points_that_they_had(folder):
    count = 0
    for spec in specs_in(ROOT / folder).values():
        for place, specialisation in enumerate(space.specialisations(spec)):
            for device in (H100, None) if place == 0 else (H100,):  # without a device alike for all of a kernel
                agree(spec, specialisation, list(space.problems(spec, specialisation)), device)
                count += 1
    assert count


def test_codes_are_places_in_the_sorted_values_of_all_implementations(tmp_path):
    spec = loaded(tmp_path, toml=SEVERAL)

    points = Points.of(spec, FLOAT32, list(space.problems(spec, FLOAT32)))

    assert points.names == ("block", "vec")
    assert points.values == ((128, 256), (1, 2, 4))
    assert points.codes.tolist() == [[1, -1, 0], [0, 0, -1], [0, 1, -1], [1, -1, 1], [1, -1, 2]]
    assert points.codes.dtype == np.int16
    assert [str(c) for c in points[1:3]] == ["plain: block=128", "plain: block=256"]
    assert points[-1] == points[4]


def test_a_flag_of_one_implementation_is_no_number_of_another():
    spec = kernel(
        {"x": implementation({"a": [0, 1]}, {"a": 1}, []), "y": implementation({"a": [True]}, {"a": True}, [])}
    )

    points = agree(spec, problem(1).specialisation, [problem(1)])

    assert [str(c) for c in points] == ["x: a=1", "x: a=0", "y: a=true"]


def test_what_is_no_point_has_no_index(tmp_path):
    spec = loaded(tmp_path)
    points = Points.of(spec, FLOAT32, [Problem(specialisation=FLOAT32, dims=(("n", 1022),))])
    strangers = [
        Configuration(implementation="main", values=(("block", 128), ("vec", 4))),  # illegal: 1022 % 4
        Configuration(implementation="main", values=(("block", 192), ("vec", 2))),
        Configuration(implementation="main", values=(("block", 128),)),
        Configuration(implementation="main", values=(("block", 128), ("vec", 1), ("more", 1))),
        Configuration(implementation="other", values=(("block", 128), ("vec", 1))),
    ]

    assert len(points) == 4
    for stranger in strangers:
        assert stranger not in points
        with pytest.raises(ValueError, match="none of the points"):
            points.index(stranger)
    with pytest.raises(ValueError, match="none of the points"):
        points.index(points[0], 1)
    assert points[3] in points


def test_the_default_is_a_point_where_nothing_else_is():
    spec = kernel({"only": implementation({"a": [1, 2]}, {"a": 2}, ["a > 5 and n > 1"])})

    assert [str(c) for c in agree(spec, problem(1).specialisation, [problem(1), problem(2)])] == ["only: a=2"]
    assert [str(c) for c in agree(spec, problem(1).specialisation, [])] == ["only: a=2"]


def test_a_combination_needs_one_problem_that_admits_all_of_it():
    where = ["n % a == 0", "m % b == 0"]
    spec = kernel({"only": implementation({"a": [1, 2], "b": [1, 2]}, {"a": 1, "b": 1}, where)})

    points = agree(spec, problem(1).specialisation, [problem(2, 1), problem(1, 2)])

    assert [str(c) for c in points] == ["only: a=1, b=1", "only: a=1, b=2", "only: a=2, b=1"]


def test_a_vast_space_that_constraints_make_small_is_enumerated():
    sizes = {f"p{index}": list(range(32)) for index in range(9)}  # 3.5e13 combinations
    chain = [f"p{index} + p{index + 1} == 31" for index in range(8)]
    spec = kernel({"only": implementation(sizes, {name: 0 if int(name[1]) % 2 else 31 for name in sizes}, chain)})

    points = Points.of(spec, problem(1).specialisation, [problem(1)])

    assert len(points) == 32
    assert all(space.legal(spec, problem(1), c) for c in points)


@pytest.mark.parametrize(
    ("count", "size", "message"),
    [
        (8, 10, "more than 5,000,000 legal configurations"),
        (20, 100, "more combinations than 64 bits"),
        (1, 40_000, "a parameter with more than 32,767 values"),
    ],
)
def test_a_space_too_large_is_refused_with_what_to_do(count, size, message):
    sizes = {f"p{index}": list(range(size)) for index in range(count)}
    spec = kernel({"only": implementation(sizes, dict.fromkeys(sizes, 0), [])})

    with pytest.raises(SpecError, match=rf"kernel.toml: implementations.only.space: has {message}"):
        Points.of(spec, problem(1).specialisation, [problem(1)])


def test_every_legal_combination_of_a_wide_space_is_found():
    sizes = {"a": list(range(40)), "b": list(range(40)), "c": list(range(25)), "d": list(range(25))}
    where = ["(a + b + c + d) % 7 == 3 and a <= b", "c * d < 300"]
    spec = kernel({"only": implementation(sizes, dict.fromkeys(sizes, 0), where)})

    points = Points.of(spec, problem(1).specialisation, [problem(1)])

    mesh = np.meshgrid(*(np.arange(len(v)) for v in sizes.values()), indexing="ij")
    a, b, c, d = (axis.ravel() for axis in mesh)
    wanted = np.flatnonzero(((a + b + c + d) % 7 == 3) & (a <= b) & (c * d < 300))
    found = np.ravel_multi_index(tuple(points.codes[1:, 1:].T), tuple(map(len, sizes.values())))
    assert math.prod(map(len, sizes.values())) == 1_000_000
    assert np.array_equal(found, wanted)
