"""Defaults that depend on the problem: what they are where, what they may be at all, and what is refused in words."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretuned.record.freshness import space_key
from pretuned.spec import space
from pretuned.spec.defaults import MAX_DEFAULTS, defaults
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.formulas import Formula
from pretuned.spec.loader import load
from pretuned.spec.space import Problem
from pretuned.tune.space.points import Points
from specs import faults, loaded

ROWS = Path(__file__).parents[1] / "data" / "defaults" / "scale_rows.toml"
BLOCK, VEC = "block = 256\n", "vec   = 1\n"
EMPTY = """\
constexpr int vec = {{ vec }};
extern "C" __global__ void scale({{ T }}* y, const {{ T }}* x, float a, int n) {}
"""
# The same kernel with alignments that every array has, so that a default may have any `vec`.
ALIGNED = ('align = "vec * sizeof(T)"', 'align = "sizeof(T)"')
FAST = "true if half < 9 else false"
LOAD = "'__ldg' if half < 9 else '__ldcs'"


def at(text):
    return f'{{ at = "{text}" }}'


def block(text):
    return BLOCK, f"block = {at(text)}\n"


def vec(text):
    return VEC, f"vec   = {at(text)}\n"


def may_be(spec, **specialisation):
    return [str(one) for one in defaults(spec, space.pairs(specialisation))]


def default(spec, specialisation, **dims):
    return str(space.default_at(spec, Problem(specialisation=space.pairs(specialisation), dims=space.pairs(dims))))


def test_the_default_is_that_of_the_problem():
    spec = load(ROWS)
    assert default(spec, {}, tokens=9999, d=1020) == "block=64, items=4"
    assert default(spec, {}, tokens=255, d=1024) == "block=128, items=4"
    assert default(spec, {}, tokens=256, d=1025) == "block=256, items=1"


def test_all_that_it_may_be_is_known_and_no_more():
    assert len(may_be(load(ROWS))) == 6


@pytest.mark.parametrize(
    ("edits", "wanted"),
    [
        ([block("128 if n < 4096 else 256")], ["block=128, vec=1", "block=256, vec=1"]),
        # The same condition twice, and those that exclude each other.
        ([block("128 if n < 99 else 256"), vec("1 if n < 99 else 2")], ["block=128, vec=1", "block=256, vec=2"]),
        ([block("128 if n < 99 else 256"), vec("1 if n >= 50 else 2")], ["128 1", "128 2", "256 1"]),
        ([block("128 if not 9 <= n else 256"), vec("1 if 20 < n else 2")], ["128 2", "256 1", "256 2"]),
        ([block("128 if n == 7 else 256"), vec("2 if 7 > n else 1")], ["128 1", "256 1", "256 2"]),
        # Of what is not compared with a number every combination counts.
        ([block("128 if n % 3 == 0 else 256"), vec("2 if n % 6 == 0 else 1")], ["128 1", "128 2", "256 1", "256 2"]),
        ([block("128 if n < 9 or n > 99 else 256"), vec("2 if n < 3 else 1")], ["128 1", "128 2", "256 1"]),
        ([block("(128 if n < 9 else 256) if n < 5 else 256")], ["128 1", "256 1"]),
        ([block("128 if n // (n - 1) < 3 else 256")], ["128 1", "256 1"]),
    ],
)
def test_what_excludes_each_other_is_not_combined(tmp_path, edits, wanted):
    spec = loaded(tmp_path, *edits, ALIGNED, (', "n % vec == 0"', ""))
    found = [tuple(value for _, value in one.values) for one in defaults(spec, (("T", "float32"),))]
    assert found == [tuple(map(int, one.replace("block=", "").replace(", vec=", " ").split())) for one in wanted]


def test_what_a_specialisation_decides_is_one_configuration(tmp_path):
    spec = loaded(tmp_path, block("128 if T == 'float16' else 256"))
    assert may_be(spec, T="float16") == ["block=128, vec=1"]
    assert may_be(spec, T="float32") == ["block=256, vec=1"]
    assert default(spec, {"T": "float16"}, n=3) == "block=128, vec=1"


def test_texts_floats_and_bools_are_chosen_between_and_let_is_written_out(tmp_path):
    spec = loaded(
        tmp_path,
        ("vec   = [1, 2, 4]", "vec = [1, 2, 4]\nload = ['__ldg', '__ldcs']\nshare = [0.5, 1.0]\nfast = [true, false]"),
        (
            VEC,
            f"{VEC}load = {at(LOAD)}\nshare = {at('0.5 if half < 9 else 1.0')}\nfast = {at(FAST)}\n",
        ),
        ("[dims]", '[let]\nhalf = "n // 2"\n\n[dims]'),
        template="// {{ load }} {{ share }} {{ fast }}\n" + EMPTY,
    )
    assert default(spec, {"T": "float16"}, n=17) == "block=256, fast=true, load=__ldg, share=0.5, vec=1"
    assert default(spec, {"T": "float16"}, n=18) == "block=256, fast=false, load=__ldcs, share=1.0, vec=1"


def test_a_condition_without_a_value_does_not_hold(tmp_path):
    spec = loaded(tmp_path, block("128 if n // (n - 1) < 3 else 256"))
    assert default(spec, {"T": "float16"}, n=1) == "block=256, vec=1"
    assert default(spec, {"T": "float16"}, n=2) == "block=128, vec=1"
    assert default(spec, {"T": "float16"}, n=9) == "block=128, vec=1"


def test_it_has_to_be_legal_where_it_is_the_default_and_there_alone(tmp_path):
    spec = loaded(tmp_path, vec("4 if n % 4 == 0 and sizeof(T) <= 4 else 1"), ALIGNED)
    assert may_be(spec, T="float16") == ["block=256, vec=1", "block=256, vec=4"]


def test_points_have_all_that_it_may_be_and_admit_what_is_legal(tmp_path):
    spec = load(ROWS)
    problems = [*space.all_problems(spec), Problem(specialisation=(), dims=(("d", 1023), ("tokens", 300)))]
    points = Points.of(spec, (), problems)
    assert set(points) >= set(defaults(spec, ()))
    assert [points.index(one) for one in points] == list(range(len(points)))
    for problem in problems:
        admitted = {one for one, legal in zip(points, points.legal(problem), strict=True) if legal}
        assert admitted == set(space.configurations(spec, problem))
        assert next(space.configurations(spec, problem)) == space.default_at(spec, problem)


def test_a_changed_condition_is_seen_in_the_space(tmp_path):
    keys = {space_key(loaded(tmp_path, block(f"128 if n < {edge} else 256"))) for edge in (99, 100)}
    assert len({*keys, space_key(loaded(tmp_path))}) == 3


NAMES = st.sampled_from(["m", "n"])
TESTS = st.recursive(
    st.one_of(
        st.tuples(NAMES, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(-1, 12).map(str)),
        st.tuples(st.integers(-1, 12).map(str), st.sampled_from(["<", ">=", "=="]), NAMES),
        st.tuples(st.integers(0, 5).map(str), st.just("<="), NAMES, st.just("<"), st.integers(3, 12).map(str)),
        st.tuples(NAMES, st.sampled_from(["% 3 ==", "// (m - 4) <"]), st.integers(0, 2).map(str)),
    ).map(" ".join),
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from(["and", "or"]), part).map(lambda of: f"({' '.join(of)})"),
        part.map(lambda text: f"(not {text})"),
    ),
    max_leaves=4,
)
CHAINS = st.recursive(
    st.sampled_from(["128", "256"]),
    lambda part: st.tuples(part, TESTS, part).map(lambda of: f"({of[0]} if {of[1]} else {of[2]})"),
    max_leaves=4,
).filter(lambda text: " if " in text)


@settings(deadline=None, max_examples=60)
@given(CHAINS, CHAINS.map(lambda text: text.replace("128", "1").replace("256", "2")))
def test_no_problem_has_a_default_that_is_not_known(two_dims, first, second):
    """And where all conditions have a value, it is what Python makes of the text."""
    texts = [compile(text, "", "eval") for text in (first, second)]
    spec = two_dims.model_copy(update={"default": {"block": Formula.parse(first), "vec": Formula.parse(second)}})
    spec.__dict__.pop("all_implementations", None)
    try:
        known = defaults(spec, ())
    except ExpressionError:
        return
    assert len(known) <= MAX_DEFAULTS
    for m in range(14):
        for n in range(14):
            found = space.default_at(spec, Problem(specialisation=(), dims=(("m", m), ("n", n))))
            assert found in known
            if m != 4:
                assert [value for _, value in found.values] == [eval(text, {"m": m, "n": n}) for text in texts]


@pytest.fixture(scope="module")
def two_dims(tmp_path_factory):
    dims = ("n = { sizes = [1024, 65536] }", "n = { sizes = [1024] }\nm = { sizes = [8] }")
    shape = ('{ name = "n", dtype = "int32" }', '{ name = "n", dtype = "int32" },\n  { name = "m", dtype = "int32" }')
    typed = ('T = { dtypes = ["float32", "float16"] }', 'T = { dtypes = ["float32"] }')
    spec = loaded(tmp_path_factory.mktemp("two"), typed, ('shape = ["n"]', 'shape = ["m", "n"]'), dims, shape,
                  template=EMPTY)  # fmt: skip
    return spec.model_copy(update={"specialisations": {}})


EXAMPLE = '`{ at = "1024 if tokens < 256 else 256" }`'
MANY = " else ".join(f"{128 if n % 2 else 256} if n < {n + 1}" for n in range(16)) + " else 128"
BAD = {
    "a value outside the space": (
        [block("512 if n < 4096 else 256")],
        "default.block: 512 (where n < 4096) is outside the space; `space.block` has 128, 256",
    ),
    "the last value outside the space": (
        [block("128 if n < 4096 else 1")],
        "default.block: 1 (elsewhere) is outside the space; `space.block` has 128, 256",
    ),
    "a value of another kind": (
        [block("true if n < 4096 else 256")],
        "default.block: true (where n < 4096) is outside the space; `space.block` has 128, 256",
    ),
    "a value that is computed": (
        [block("n if n < 4096 else 256")],
        ("default.block: 'n if n < 4096 else 256' chooses 'n', which is not a value; write the values that it chooses "
         f"between, as in {EXAMPLE}"),
    ),
    "min": (
        [block("min(n, 256)")],
        ("default.block: 'min(n, 256)' chooses 'min(n, 256)', which is not a value; write the values that it chooses "
         f"between, as in {EXAMPLE}"),
    ),
    "nothing to choose": (
        [block("256")],
        "default.block: is the same at every problem; write 256 without `at`",
    ),
    "no expression": (
        [block("128 if n <")],
        f"default.block: '128 if n <' is not an expression; write it as in {EXAMPLE}",
    ),
    "an unknown name": (
        [block("128 if m < 9 else 256")],
        "default.block: unknown name 'm' in 'm < 9'",
    ),
    "a parameter": (
        [block("128 if vec < 2 else 256")],
        "default.block: unknown name 'vec' in 'vec < 2'",
    ),
    "the device": (
        [block("128 if device.sm_count < 99 else 256")],
        ("default.block: 'device.sm_count' has no value here; only grid, block, shared, scratch shapes and `where` may "
         "read it"),
    ),
    "a type": (
        [block("128 if T else 256")],
        "default.block: 'T' is a type; only sizeof(T) has a value",
    ),
    "an unknown name beside a text": (
        [block("128 if TT == 'float16' else 256")],
        "default.block: unknown name 'TT' in `TT == 'float16'`; did you mean 'T'?",
    ),
    "a type that there is not": (
        [block("128 if T == 'float99' else 256")],
        "default.block: 'T' is never 'float99'; did you mean 'float32'?",
    ),
    "a division": (
        [block("128 if n / 4 < 9 else 256")],
        "default.block: 'n / 4 < 9' divides with '/'; write '//' or ceil_div(a, b)",
    ),
    "code": (
        [block("128 if __import__('os').abort() else 256")],
        ("default.block: '__import__('os').abort()' calls '__import__('os').abort'; only ceil_div, max, min, sizeof "
         "can be called"),
    ),
    "too many branches": (
        [block(MANY)],
        f"default.block: '{MANY}' has 17 branches; at most 16 are allowed",
    ),
    "too long": (
        [block("128 if n < 9 else 256" + " " * 500)],
        "default.block: is 521 characters long; at most 500 are allowed",
    ),
    "another key": (
        [(BLOCK, 'block = { if = "n < 9", then = 128 }\n')],
        f'default.block: expected a value of the space, or {EXAMPLE}; found {{ if = "n < 9", then = 128 }}',
    ),
    "no text": (
        [(BLOCK, "block = { at = 128 }\n")],
        f"default.block: expected a value of the space, or {EXAMPLE}; found {{ at = 128 }}",
    ),
    "without `at`": (
        [(BLOCK, 'block = "128 if n < 9 else 256"\n')],
        ('default.block: "128 if n < 9 else 256" is outside the space; `space.block` has 128, 256; write `{ at = "128 '
         'if n < 9 else 256" }`'),
    ),
    "in the space": (
        [("block = [128, 256]", 'block = { at = "128 if n < 9 else 256" }')],
        "space.block: a range has no 'at'; write a list, or a range of from, to, step, factor",
    ),
    "illegal somewhere": (
        [vec("4 if n > 777777 else 1"), ALIGNED],
        ("default: where[1] 'n % vec == 0' excludes the default (block=256, vec=4) at n=777778, T=float16; the default "
         "must be legal for every problem: choose another, or demand it in `requires`"),
    ),
    "addresses": (
        [vec("4 if n % 4 == 0 else 1")],
        ("default: aligns 'y' to 8 bytes (block=256, vec=4) for T=float16; an array is only aligned to its elements, "
         "and the default must be legal for every call: choose another, or write "
         '`requires = ["aligned(y, 4 * sizeof(T))"]`'),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_is_refused_and_in_which_words(tmp_path, what):
    edits, wanted = BAD[what]
    found = [fault.removeprefix("scale.toml: ") for fault in faults(tmp_path, *edits)]
    assert wanted in found
    assert [one for one in found if not one.startswith("default.block") or one == wanted] == found


def test_formulas_that_give_too_much_are_refused(tmp_path):
    text = "[1, 2, 4]", "[1, 2, 4, 8, 16]"
    every = ", ".join(map(str, range(128, 160)))
    chain = " else ".join(f"{128 + n} if n % {n + 2} == 0" for n in range(8)) + " else 136"
    edits = [("[128, 256]", f"[{every}, 256]"), text, block(chain), vec("1 if n % 7 < 2 else 2 if n % 9 < 3 else 4")]
    (found,) = faults(tmp_path, *edits, ALIGNED, (', "n % vec == 0"', ""))
    assert found == (
        f"scale.toml: default: its formulas give more than {MAX_DEFAULTS} configurations, each of which ships, or have "
        "too many conditions; let them have fewer branches, or the same conditions"
    )


def test_formulas_give_one_of_the_configurations_that_a_space_lists(tmp_path):
    space_of = ("block = [128, 256]\nvec   = [1, 2, 4]\n", "")
    rows = ("[dims]\n", "[dims]\n")
    listed = ("format  = 1\n", "format  = 1\nspace = [{ block = 128, vec = 1 }, { block = 256, vec = 2 }]\n")
    edits = [("[space]\n", ""), space_of, rows, listed, ALIGNED, (', "n % vec == 0"', "")]
    fine = [block("128 if n < 9 else 256"), vec("1 if n < 9 else 2")]
    assert may_be(loaded(tmp_path, *edits, *fine), T="float16") == ["block=128, vec=1", "block=256, vec=2"]
    (found,) = faults(tmp_path, *edits, fine[0])
    assert found == (
        "scale.toml: default: its formulas give block=256, vec=1 together, which is not one of the configurations that "
        "`space` lists"
    )


def test_a_formula_is_written_as_it_was_meant():
    draw = random.Random(5)
    for _ in range(200):
        n, edges = draw.randint(0, 20), sorted(draw.sample(range(20), 3))
        text = f"1 if n < {edges[0]} else 2 if n < {edges[1]} or n % 2 else (3 if n > {edges[2]} else 4)"
        formula = Formula.parse(text)
        assert formula.value({"n": n}) == eval(text, {"n": n}) == eval(str(formula), {"n": n})
        assert formula.fold({"n": n}).branches[0].condition is None
        assert Expression.parse(text).evaluate({"n": n}) == formula.value({"n": n})
