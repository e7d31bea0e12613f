"""Joint sizes: problems that a spec lists, in place of all combinations of sizes or beside them."""

from __future__ import annotations

import math

import pytest

from pretuned.record.freshness import space_key
from pretuned.record.usage import Called, gaps
from pretuned.spec import space
from pretuned.spec.sizes import sizes_of
from pretuned.tune.selection.sampling import draw
from specs import faults, loaded

TEMPLATE = """\
constexpr int block = {{ block }};
extern "C" __global__ void add(float* y, const float* x, const float* b, int rows, int cols) {
    for (int i = blockIdx.x * block + threadIdx.x; i < rows * cols; i += gridDim.x * block) {
        y[i] = x[i] + b[i % cols];
    }
}
"""
JOINT = """\
format = 1
arguments = [
  { name = "y", role = "out", dtype = "float32", shape = ["rows", "cols"] },
  { name = "x", role = "in", dtype = "float32", shape = ["rows", "cols"] },
  { name = "b", role = "in", dtype = "float32", shape = ["cols"] },
  { name = "rows", dtype = "int32" },
  { name = "cols", dtype = "int32" },
]
problems = [
  { rows = 65536, cols = 16 },
  { cols = 65536, rows = 16 },
  { rows = 1024, cols = 1024 },
]

[dims]
rows = {}
cols = {}

[space]
block = [128, 256]

[default]
block = 128

[[launches]]
function = "add"
grid     = ["ceil_div(rows * cols, block)"]
block    = ["block"]
"""
HALF = (
    "has sizes while cols has none, so there are no combinations to measure; leave all `sizes` out, as [[problems]] "
    "has them, or write all"
)
MODES = ("[dims]", "[specialisations]\nmode = { values = ['fast', 'exact'] }\n\n[dims]")
FAST, EXACT = (("mode", "fast"),), (("mode", "exact"),)
SIZES = ("rows = {}\ncols = {}", "rows = { sizes = [8, 1024] }\ncols = { sizes = [1024, 8] }")


def joint(tmp_path, *edits):
    return loaded(tmp_path, *edits, toml=JOINT, template=TEMPLATE)


def found(tmp_path, *edits):
    return [fault.removeprefix("scale.toml: ") for fault in faults(tmp_path, *edits, toml=JOINT, template=TEMPLATE)]


def test_what_is_listed_is_measured_and_nothing_else(tmp_path):
    spec = joint(tmp_path)

    assert [str(problem) for problem in space.all_problems(spec)] == [
        "cols=16, rows=65536",
        "cols=1024, rows=1024",
        "cols=65536, rows=16",
    ]
    assert sizes_of(spec, "rows") == (16, 1024, 65536)


def test_beside_sizes_the_combinations_are_measured_too_and_nothing_twice(tmp_path):
    measured = [str(problem) for problem in space.all_problems(joint(tmp_path, SIZES))]

    assert measured == [
        "cols=8, rows=8",
        "cols=8, rows=1024",
        "cols=16, rows=65536",
        "cols=1024, rows=8",
        "cols=1024, rows=1024",
        "cols=65536, rows=16",
    ]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            ("{ rows = 65536, cols = 16 }", "{ rows = 65536 }"),
            "problems[0]: lacks 'cols'; a problem has a size for every dim that is not constant: cols, rows",
        ),
        (
            ("cols = 65536, rows = 16", "cols = 65536, rows = 16, colls = 3"),
            "problems[1].colls: 'colls' is not a dim; did you mean 'cols'?",
        ),
        (
            ("cols = 65536, rows = 16", "cols = 65536, rows = 16, depth = 3"),
            "problems[1].depth: 'depth' is not a dim; leave it out",
        ),
        (("rows = 1024, cols", "rows = 0, cols"), "problems[2].rows: is 0; a size is at least 1"),
        (("rows = 1024, cols", "rows = 1.5, cols"), "problems[2].rows: expected an integer, found 1.5"),
        (
            ("rows = 1024, cols = 1024", "rows = 65536, cols = 16"),
            "problems[2]: is the same as problems[0]; remove one",
        ),
        (
            ("rows = 1024, cols", "rows = 4294967296, cols"),
            "problems[2].rows: 4294967296 does not fit the type of the argument 'rows'; pass it as int64",
        ),
        (
            ("rows = {}", "rows = { sizes = [16] }"),
            "dims.rows.sizes: " + HALF,
        ),
        (
            ("[dims]", "[constraints]\nrequires = ['rows >= 1024']\n[dims]"),
            "problems[1]: cols=65536, rows=16: `requires` ('rows >= 1024') refuses it; change one of both",
        ),
        (("[space]", "[problem]\n[space]"), "problem: unknown key 'problem'; did you mean 'problems'?"),
    ],
)
def test_a_problem_that_is_none_is_refused(tmp_path, edit, message):
    assert found(tmp_path, edit) == [message]


def test_one_table_for_a_list_of_tables_is_named(tmp_path):
    edits = JOINT[JOINT.index("problems") : JOINT.index("[dims]")], ""

    assert found(tmp_path, edits, ("[space]", "[problems]\nrows = 16\ncols = 16\n[space]")) == [
        "problems: is one table; write [[problems]], with two brackets"
    ]


def test_a_dim_needs_sizes_somewhere(tmp_path):
    edits = JOINT[JOINT.index("problems") : JOINT.index("[dims]")], ""

    assert found(tmp_path, edits) == [
        "dims.cols: needs the sizes to measure; write `sizes = [1024, 65536]`",
        "dims.rows: needs the sizes to measure; write `sizes = [1024, 65536]`",
    ]


def test_other_problems_make_rows_incomplete(tmp_path):
    key = space_key(joint(tmp_path))

    assert space_key(joint(tmp_path, ("  { cols = 65536, rows = 16 },\n  { rows = 1024, cols = 1024 },", ""))) != key
    assert space_key(joint(tmp_path, ("{ cols = 65536, rows = 16 }", "{ rows = 16, cols = 65536 }"))) == key


def alone(mode):
    return "{ cols = 65536, rows = 16 }", f"{{ cols = 65536, rows = 16, mode = {mode} }}"


def test_a_problem_may_be_for_some_specialisations(tmp_path):
    spec = joint(tmp_path, MODES, alone("'fast'"))

    assert [dict(one.dims)["cols"] for one in space.problems(spec, FAST)] == [16, 1024, 65536]
    assert [dict(one.dims)["cols"] for one in space.problems(spec, EXACT)] == [16, 1024]
    assert sizes_of(spec, "rows", dict(EXACT)) == (1024, 65536)
    assert sizes_of(spec, "rows") == sizes_of(spec, "rows", dict(FAST)) == (16, 1024, 65536)
    both = joint(tmp_path, MODES, alone("['fast', 'exact']"))
    assert space.all_problems(both) == space.all_problems(joint(tmp_path, MODES))


def test_a_problem_for_some_specialisations_changes_nothing_for_others(tmp_path):
    known, without = (
        joint(tmp_path, MODES, alone("'fast'")),
        joint(tmp_path, MODES, ("  { cols = 65536, rows = 16 },\n", "")),
    )

    assert space_key(known, EXACT) == space_key(without, EXACT)
    assert space_key(known, FAST) != space_key(without, FAST)
    assert space_key(known) != space_key(joint(tmp_path, MODES)), "else rows that are not for all would stay fresh"
    assert draw(known, EXACT, 40, 7) == draw(without, EXACT, 40, 7)
    assert any(dict(one.dims)["rows"] < 1000 for one in draw(known, FAST, 40, 7))


@pytest.mark.parametrize(("mode", "dims"), [("fast", []), ("exact", ["cols", "rows"])])
def test_a_size_that_others_have_is_missing_here(tmp_path, mode, dims):
    spec = joint(tmp_path, MODES, alone("'fast'"))
    called = Called(
        lines=(1,),
        package="p",
        kernel="scale",
        specialisation={"mode": mode},
        dims={"cols": 65536, "rows": 16},
        calls=3,
    )

    assert sorted(gap.dim for gap in gaps(spec, [called])) == dims


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (
            (MODES, alone("'quick'")),
            'problems[1].mode: "quick" is none of the values of \'mode\', which are "fast", "exact"',
        ),
        (
            (MODES, alone("['fast', 3]")),
            'problems[1].mode: 3 is none of the values of \'mode\', which are "fast", "exact"',
        ),
        (
            (MODES, ("{ cols = 65536, rows = 16 }", "{ cols = 65536, rows = 16, modes = 'fast' }")),
            "problems[1].modes: 'modes' is not a dim; did you mean 'mode'?",
        ),
        ((MODES, alone("true")), 'problems[1].mode: true is none of the values of \'mode\', which are "fast", "exact"'),
        ((MODES, alone("[]")), "problems[1].mode: is empty; name a value, or leave it out"),
        (
            (MODES, ("['fast', 'exact']", "[1, 2]"), alone("true")),
            "problems[1].mode: true is none of the values of 'mode', which are 1, 2",
        ),
        (
            (MODES, ("['fast', 'exact']", "[1, 'fast']"), alone("1")),
            "specialisations.mode.values: mixes integers and texts; use one kind",
        ),
        ((MODES, ("cols = 16 }", "cols = [16, 32] }")), "problems[0].cols: expected an integer, found [16, 32]"),
        ((MODES, ("cols = 16 }", "cols = { at = 16 } }")), "problems[0].cols: expected an integer, found { at = 16 }"),
        (
            (MODES, *((f"{one} }}", f"{one}, mode = 'fast' }}") for one in ("cols = 16", "rows = 16", "cols = 1024"))),
            "problems: none is for mode=exact; add one, or name fewer values in others",
        ),
        (
            (
                ('role = "out", dtype = "float32"', 'role = "out", dtype = "U"'),
                ("[dims]", "[specialisations]\nU = { from = 'mode', fast = 'float16', exact = 'float32' }\n[dims]"),
                ("[specialisations]", "[specialisations]\nmode = { values = ['fast', 'exact'] }"),
                ("{ cols = 65536, rows = 16 }", "{ cols = 65536, rows = 16, U = 'float16' }"),
            ),
            "problems[1].U: 'U' follows from 'mode'; name values of that",
        ),
        (
            (
                ('role = "out", dtype = "float32"', 'role = "out", dtype = "T"'),
                ('role = "in", dtype = "float32", shape = ["rows"', 'role = "in", dtype = "T", shape = ["rows"'),
                ("[dims]", "[specialisations]\nT = { dtypes = ['uint16', 'float16'], alike = 'size' }\n[dims]"),
                ("{ cols = 65536, rows = 16 }", "{ cols = 65536, rows = 16, T = 'float16' }"),
            ),
            'problems[1].T: "float16" is tuned as "uint16"; name that',
        ),
        (
            (
                MODES,
                ("[space]", "[constraints]\nrequires = [\"mode != 'fast' or rows > 16\"]\n[space]"),
                alone("'fast'"),
            ),
            (
                "problems[1]: cols=65536, rows=16: `requires` (`mode != 'fast' or rows > 16`) refuses it; "
                "change one of both"
            ),
        ),
    ],
)
def test_what_says_for_whom_a_problem_is_names_values_of_specialisations(tmp_path, edits, message):
    assert found(tmp_path, *edits) == [message]


@pytest.mark.parametrize("reach", [1.0, 2.0])
def test_what_is_drawn_lies_between_two_problems(tmp_path, reach):
    spec = joint(tmp_path)

    drawn = [dict(problem.dims) for problem in draw(spec, (), 60, 7, reach=reach)]

    assert len(drawn) == 60
    # All problems have a million elements. So has most of what is drawn, but for raggedness (16 to a multiple of 128).
    octaves = sorted(abs(math.log2(one["rows"] * one["cols"]) - 20) for one in drawn)
    assert octaves[30] < 1 + math.log2(reach)
    # Of drawn alone, some have fewer than 2 ** 10 elements, or over 2 ** 30. One in eight has a dim at its least size.
    assert octaves[48] < 5 + math.log2(reach)
    outside = [not (16 <= one["rows"] <= 65536 and 16 <= one["cols"] <= 65536) for one in drawn]
    assert all(outside) if reach > 1 else not any(outside)


def test_around_one_problem_its_surroundings_are_drawn(tmp_path):
    spec = joint(tmp_path, ("  { rows = 65536, cols = 16 },\n  { cols = 65536, rows = 16 },\n", ""))

    drawn = draw(spec, (), 40, 7)

    assert len(drawn) == 40
    assert all(512 <= int(size) <= 2048 for problem in drawn for _, size in problem.dims)
