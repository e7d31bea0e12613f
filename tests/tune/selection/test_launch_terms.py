"""Terms say what launches and shapes say, over the dims alone, and have a value at every problem."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from invented_times import FACTS, bundled, configurations
from pretuned.compile.result import Resources
from pretuned.measure.launch import arrays, launches
from pretuned.spec import space
from pretuned.spec.expressions import Expression
from pretuned.spec.loader import load
from pretuned.tune.selection.launch_terms import terms_of
from pretuned.tune.selection.sampling import draw
from pretuned.tune.selection.terms import ProblemTable
from pretuned.tune.selection.texts import condition_of, multiply
from specs import loaded

F16 = (("T", "float16"),)
KERNELS = Path(__file__).parents[2] / "data" / "arrays"
TEMPLATES = Path(__file__).parents[3] / "templates"


def texts(name, specialisation, resources=None, index=0):
    """Return the texts of a bundled kernel's configuration, the default where no other is asked for."""
    spec = bundled(name)
    configuration = configurations(spec, specialisation)[index]
    terms = terms_of(spec, specialisation, configuration, FACTS, resources or {})
    return [term.text for term in terms]


def test_terms_are_blocks_waves_tails_bytes_and_pitches():
    found = texts("sgemm", ())
    assert found[:2] == ["1", "4 * (k * n) + 4 * (m * k) + 4 * (m * n)"]
    blocks = "ceil_div(m, 64) * ceil_div(n, 64)"
    assert {blocks, f"{blocks} * k", f"ceil_div({blocks}, 132)", f"ceil_div({blocks}, 132) * k"} <= set(found)
    assert {"1 if n % 64 else 0", "n % 64", "k if n % 64 else 0"} <= set(found)
    assert {"1 if n % 4 else 0", "1 if k % 4 else 0"} <= set(found)
    assert not any("1 if m % 4" in text for text in found)  # no array has rows of m elements


def test_an_sm_holds_as_many_blocks_as_registers_and_shared_memory_allow():
    def waves(**taken):
        values = {"registers": 0, "spill_bytes": 0, "shared_bytes": 0} | taken
        found = texts("transpose", F16, {"transpose": Resources(**values)})
        blocks = "batch * ceil_div(rows + (15 if rows % 16 != 0 else 0), 64) * ceil_div(cols, 64)"
        return [
            int(text.rsplit(", ", 1)[1][:-1]) // 132
            for text in found
            if text.startswith(f"ceil_div({blocks}, ") and not text.endswith(" else 0")
        ]

    assert waves() == [1, 8]  # blocks of 256 threads: 2,048 threads
    assert waves(registers=64) == [1, 4]  # 65,536 registers
    assert waves(shared_bytes=48 * 1024) == [1, 4]  # 228 KB, of which each block takes 1 more


def test_an_sm_holds_fewer_blocks_where_their_shared_memory_grows_with_the_problem():
    spec = bundled("rms_norm")
    shared = space.default_of(spec, "shared")
    taken = {"rms_norm": Resources(registers=32, spill_bytes=0, shared_bytes=1000)}
    cluster, found = dict(shared.values)["cluster"], {}
    for cols in (20_000, 40_000, 60_000):
        dims = {"rows": 10_000, "cols": cols * cluster}
        (launch,) = launches(spec, space.Problem(specialisation=F16, dims=space.pairs(dims)), shared, FACTS)
        held = 233_472 // (launch.shared_bytes + 1000 + 1024)  # 228 KB, of which each block takes 1 more
        texts = filter(None, (term.text for term in terms_of(spec, F16, shared, FACTS, taken)))
        values = [Expression.parse(text).evaluate(dims) for text in texts]
        assert math.ceil(10_000 * cluster / (132 * held)) in values
        found[cols] = held
    assert len(set(found.values())) == 3


@pytest.mark.parametrize("name", ["sgemm", "transpose", "axpby", "reduce_sum", "row_softmax"])
def test_every_term_has_its_value_at_every_problem(name):
    spec = bundled(name)
    specialisation = next(iter(space.specialisations(spec)))
    problems = draw(spec, specialisation, 10, seed=1, reach=2.0)
    table = ProblemTable(problems)
    listed = configurations(spec, specialisation)
    for configuration in listed[:: len(listed) // 4]:
        for term in terms_of(spec, specialisation, configuration, FACTS, {}):
            expected = [Expression.parse(term.text).evaluate(dict(problem.dims)) for problem in problems]
            assert min(expected) >= 0
            assert table.values(term).tolist() == expected, term


def test_bytes_and_blocks_are_those_of_a_call():
    spec = bundled("row_softmax")
    for problem in draw(spec, F16, 4, seed=2):
        for configuration in configurations(spec, F16)[::20]:
            if not space.legal(spec, problem, configuration, FACTS):
                continue
            terms = terms_of(spec, F16, configuration, FACTS, {})
            values = [int(ProblemTable([problem]).values(term)[0]) for term in terms]
            assert sum(array.nbytes for array in arrays(spec, problem)) in values
            assert np.prod(launches(spec, problem, configuration, FACTS)[0].grid) in values


def test_where_a_launch_changes_times_may_jump():
    found = texts("row_softmax", F16)  # rows of up to 512 elements share a block; from 8,192 on they are read again
    bytes_ = "4 * (rows * cols)"
    assert {f"{bytes_} if cols <= 512 else 0", f"{bytes_} if 32 * max(1, ceil_div(cols, 512)) > 512 else 0"} <= set(
        found
    )
    found = texts("reduce_sum", F16)
    assert "1 if n > 8192 else 0" in found  # the second launch


def test_what_an_author_adds_is_a_term_too(tmp_path):
    spec = loaded(tmp_path, ("[verify]\n", '[cost]\nterms = ["max(0, n - 1000 * vec)"]\n\n[verify]\n'))
    terms = terms_of(spec, F16, space.default(spec), FACTS, {})
    assert "max(0, n - 1000)" in [term.text for term in terms]
    assert "ceil_div(n, 270336) * max(0, n - 1000)" in [term.text for term in terms]


def test_terms_see_strides_as_those_of_contiguous_arrays():
    spec = load(KERNELS / "planes.toml")
    terms = terms_of(spec, (), space.default(spec), FACTS, {})
    assert {name for term in terms if term.text for name in Expression.parse(term.text).names} == {"p", "rows", "d"}
    assert "(rows + 0 * (2 * d)) * p" in [term.text for term in terms]


@pytest.mark.parametrize("name", sorted(path.stem for path in TEMPLATES.glob("*.toml")))
def test_no_term_of_a_bundled_kernel_is_too_long_for_a_cost(name):
    spec = bundled(name)
    specialisation = next(iter(space.specialisations(spec)))
    listed = {one.implementation: one for one in configurations(spec, specialisation)}
    for configuration in listed.values():
        assert [one.role for one in terms_of(spec, specialisation, configuration, FACTS, {}) if not one.text] == []


@pytest.mark.parametrize("name", ["row_softmax", "rms_norm", "cross_entropy"])
def test_a_launch_that_divides_by_what_follows_from_a_condition_has_short_terms(name):
    spec = bundled(name)  # `128 // lanes`, where the lanes of a row follow from its length
    terms = terms_of(spec, F16, space.default(spec), FACTS, {})
    assert any("ceil_div(rows, 4) if" in term.text for term in terms)


@pytest.mark.parametrize("name", ["rms_norm_backward", "layer_norm_backward", "reduce_sum", "column_sum"])
def test_whether_a_second_launch_happens_is_a_term(name):
    spec = bundled(name)
    specialisation = next(iter(space.specialisations(spec)))
    own = sorted(space.problems(spec, specialisation), key=lambda one: math.prod(size for _, size in one.dims))
    configuration = space.default_at(spec, own[0])
    problems = [*own, *draw(spec, specialisation, 100, seed=5)]
    launched = [launches(spec, one, configuration, FACTS) for one in problems]
    happens = [len(several) > 1 and math.prod(several[1].grid) > 0 for several in launched]
    assert len(set(happens)) == 2
    (term,) = (one for one in terms_of(spec, specialisation, configuration, FACTS, {}) if one.role == "launch 1")
    assert ProblemTable(problems).values(term).tolist() == happens


@pytest.mark.parametrize("name", ["rms_norm_backward", "layer_norm_backward", "reduce_sum"])
def test_what_a_thread_has_where_few_blocks_share_all_is_a_term(name):
    spec = bundled(name)
    specialisation = next(iter(space.specialisations(spec)))
    configuration = space.default_at(spec, next(iter(space.problems(spec, specialisation))))
    problems = draw(spec, specialisation, 40, seed=5)
    shapes = [(one.grid, one.block) for one in (launches(spec, p, configuration, FACTS)[0] for p in problems)]
    threads = [math.prod(grid) * math.prod(block) for grid, block in shapes]
    assert len(set(threads)) > 2
    terms = terms_of(spec, specialisation, configuration, FACTS, {})
    (term,) = (one for one in terms if one.role == "elements of a thread")
    each = [-(-math.prod(size for _, size in p.dims) // own) for p, own in zip(problems, threads, strict=True)]
    assert ProblemTable(problems).values(term).tolist() == each


@pytest.mark.parametrize(
    ("blocks", "condition"),
    [
        ("0 if n == 1 else ceil_div(m, 8)", "n != 1 and m"),
        ("ceil_div(m, 4) * n if n > 2 else 0", "n > 2 and m and n"),
        ("0 if n > 2 else 4", "not n > 2"),
        ("max(1, n) * ceil_div(ceil_div(n, 2), 3)", "n"),
        ("1 if n > 2 else 0", "n > 2"),
        ("4", "4"),
        ("min(n, m) - 1", "min(n, m) - 1"),
        ("ceil_div(n - 64, 64) * m", "ceil_div(n - 64, 64) and m"),
    ],
)
def test_that_blocks_are_not_none_is_a_short_condition(blocks, condition):
    assert condition_of(blocks) == condition


@pytest.mark.parametrize("name", ["column_sum", "column_max", "row_sum", "rms_norm_backward"])
def test_a_launch_that_divides_by_what_follows_from_dims_has_its_blocks_and_waves(name):
    spec = bundled(name)  # `blocks // strips`, where the strips follow from the columns
    specialisation = next(iter(space.specialisations(spec)))
    configuration = configurations(spec, specialisation)[0]
    terms = terms_of(spec, specialisation, configuration, FACTS, {})
    problems = draw(spec, specialisation, 6, seed=3)
    table = ProblemTable(problems)
    seen = [table.values(term).tolist() for term in terms if term.text]
    blocks = [int(np.prod(launches(spec, one, configuration, FACTS)[0].grid)) for one in problems]
    assert blocks in seen
    assert [-(-count // FACTS.sm_count) for count in blocks] in seen


def test_how_often_a_thread_goes_around_is_a_term():
    spec = bundled("column_sum")  # ranges of rows, of which the threads of a column load `unroll` at once
    specialisation = next(iter(space.specialisations(spec)))
    configuration = space.default(spec)
    problems = draw(spec, specialisation, 8, seed=4)
    table = ProblemTable(problems)
    seen = [table.values(term).tolist() for term in terms_of(spec, specialisation, configuration, FACTS, {})]
    expected = []
    for problem in problems:
        planned = launches(spec, problem, configuration, FACTS)[0]
        ranges, along = planned.grid[1], planned.block[1]
        expected.append(-(-dict(problem.dims)["rows"] // (ranges * along * 8)))
    assert len(set(expected)) > 2
    assert expected in seen

    found = texts("sgemm", ())  # k, which no block divides, in steps of what a parameter says
    assert {"ceil_div(k, 8)", "ceil_div(k, 16)"} & set(found)
    assert not any(text.startswith("ceil_div(m, ") and " * " not in text for text in found)  # tiles divide m


@pytest.mark.parametrize("name", ["column_sum", "reduce_sum", "reduce_argmax"])
def test_what_a_second_launch_gathers_is_a_term(name):
    spec = bundled(name)
    specialisation = next(iter(space.specialisations(spec)))
    configuration = space.default(spec)
    problems = draw(spec, specialisation, 40, seed=5)
    table = ProblemTable(problems)
    steps = []
    for problem in problems:
        first, *later = launches(spec, problem, configuration, FACTS)
        ranges = first.grid[1] if name == "column_sum" else first.grid[0]
        along = later[0].block[name == "column_sum"] if later else 1
        happens = bool(later) and math.prod(later[0].grid) > 0
        steps.append(math.ceil(ranges / along) if happens else 0)
    assert len(set(steps)) > 1
    terms = [one for one in terms_of(spec, specialisation, configuration, FACTS, {}) if one.text]
    seen = [table.values(term).tolist() for term in terms]
    assert steps in seen


def test_each_term_has_a_role_of_its_own_which_holds_for_other_configurations_too():
    for name in ("sgemm", "column_sum", "layer_norm", "permute"):
        spec = bundled(name)
        specialisation = next(iter(space.specialisations(spec)))
        alike = {}
        for configuration in configurations(spec, specialisation)[::7]:
            roles = [term.role for term in terms_of(spec, specialisation, configuration, FACTS, {})]
            assert all(roles)
            assert len(set(roles)) == len(roles)
            unused = [name for name, value in configuration.values if value == 0]
            alike.setdefault((configuration.implementation, *unused), []).append(set(roles))  # which go the same way
        for several in alike.values():
            shared = set.intersection(*several)
            assert {"call", "bytes", "blocks"} <= shared
            assert len(shared) > 0.4 * max(map(len, several))


def test_where_a_block_has_as_many_threads_as_a_row_asks_for_waves_follow_them():
    spec, values = bundled("rms_norm"), {"cluster": 1, "block": 512, "items": 16, "resident": 1024, "whole": False}
    configuration = next(c for c in configurations(spec, F16) if dict(c.values) == values)
    taken = {"rms_norm": Resources(registers=32, spill_bytes=0, shared_bytes=0)}
    problems = [
        space.Problem(specialisation=F16, dims=(("cols", cols), ("rows", 10**6))) for cols in (64, 2048, 4096, 100_000)
    ]
    table = ProblemTable(problems)
    found = {tuple(table.values(term)) for term in terms_of(spec, F16, configuration, FACTS, taken) if term.text}
    # A row of 64 elements has 4 lanes, and a block of 128 threads 32 such rows. Longer rows have a block of 128, of 256
    # and of 512 threads.
    threads, blocks = (128, 128, 256, 512), (10**6 // 32, 10**6, 10**6, 10**6)
    assert tuple(-(-b // (132 * min(32, 2048 // t))) for b, t in zip(blocks, threads, strict=True)) in found


def test_products_of_what_one_condition_chooses_are_short():
    assert multiply(["8 if n > 4 else 4", "16 if n > 4 else 32"]) == "128"
    assert multiply(["n if n > 4 else 4", "m if n > 4 else 5"]) == "n * m if n > 4 else 20"
    assert multiply(["n if n > 4 else 4", "m if n > 5 else 5"]) == "(n if n > 4 else 4) * (m if n > 5 else 5)"
