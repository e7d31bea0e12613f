"""Where a call tells a dim, and what a spec may write in shapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretuned.spec.expressions import Expression
from pretuned.spec.places import linear, place_of, telling_outputs
from specs import faults, loaded

X = '{ name = "x", role = "in", dtype = "T", shape = ["n"], align = "vec * sizeof(T)" }'
UNTOLD = (
    "dims.n: no array's shape gives 'n', so it cannot be read off a call; name it in the shape of an `in` argument, "
    "alone or as in `2 * n`"
)
EXACT = (
    "dims.k.keyword: a keyword that is matched exactly is a specialisation; write `k = { values = [2, 4] }` in "
    "[specialisations] instead"
)
Y = '{ name = "y", role = "out", dtype = "T", shape = ["n"], align = "vec * sizeof(T)" }'


def x(shape):
    return X, X.replace('["n"]', shape)


@pytest.mark.parametrize(
    ("text", "solved"),
    [
        ("n", ("n", 1, 0)),
        ("2 * n", ("n", 2, 0)),
        ("n * 2 + n", ("n", 3, 0)),
        ("4 * (k + 1) - 2", ("k", 4, 2)),
        ("n - 3", ("n", 1, -3)),
        ("+n - -1", ("n", 1, 1)),
        ("8 - n", None),
        ("0 * n", None),
        ("n * n", None),
        ("n // 2", None),
        ("n % 2", None),
        ("n ** 1", None),
        ("max(n, 1)", None),
        ("n + m", None),
        ("n if n > 2 else 1", None),
        ("n * sizeof(float32)", None),
        ("n * device.sm_count", None),
        ("3", None),
        ("n * 4611686018427387904 + 1", None),
    ],
)
def test_what_is_linear_in_one_name(text, solved):
    assert linear(Expression.parse(text)) == solved


@given(st.integers(1, 9), st.integers(-9, 9), st.integers(1, 9), st.integers(-9, 9), st.integers(0, 1000))
def test_a_solution_is_what_the_expression_was_made_from(a, b, c, d, value):
    expression = Expression.parse(f"{c} * ({a} * n + {b}) + {d}")
    solved = linear(expression)
    assert solved is not None
    _, factor, offset = solved
    assert expression.evaluate({"n": value}) == factor * value + offset


def test_a_dim_alone_comes_before_one_that_is_solved_and_inputs_before_outputs(tmp_path):
    twice, alone = X.replace('["n"]', '["2 * n"]'), X.replace('"x"', '"z"')
    spec = loaded(tmp_path, (X, f"{twice},\n  {alone}"))

    assert place_of(spec, "n").argument == "z"
    assert telling_outputs(spec) == {}


def test_an_output_tells_what_no_input_does(tmp_path):
    spec = loaded(tmp_path, x("[64]"))

    assert telling_outputs(spec) == {"y": ["n"]}


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (
            (x('["n // 2"]'), (Y, Y.replace('["n"]', '["n + n % 2"]'))),
            UNTOLD,
        ),
        (
            (("[1024, 65536] }", "[1024], keyword = true }"),),
            "dims.n.keyword: the shape of 'x' gives 'n' already; leave `keyword` out",
        ),
        (
            (("[dims]", "[dims]\nk = { constant = true, keyword = true, values = [2, 4] }"),),
            EXACT,
        ),
        ((x('["n", "T"]'),), "arguments[1].shape[1]: shape names 'T', which is not a dim"),
        ((x('["n", "block"]'),), "arguments[1].shape[1]: shape names 'block', which is not a dim"),
    ],
)
def test_a_dim_that_a_call_does_not_tell_is_refused(tmp_path, edits, message):
    assert faults(tmp_path, *edits) == [f"scale.toml: {message}"]


def test_a_keyword_may_stand_in_shapes(tmp_path):
    keyword = ("[specialisations]", "[specialisations]\nlanes = { values = [2, 4] }")

    assert not faults(tmp_path, keyword, x('["n", "lanes"]'))


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        (['["p"]', '["2 * p", "q"]'], {"y1": ["p", "q"]}),
        (['["p"]', '["2 * p"]'], {"y0": ["p"]}),
        (['["2 * p"]', '["p"]'], {"y1": ["p"]}),
        (['["p", "2 * q"]', '["2 * p", "q"]'], {"y0": ["p", "q"]}),
        (['["p", "q"]', '["q", "r"]', '["r"]'], {"y0": ["p", "q"], "y1": ["r"]}),
        (['["p"]', '["q"]', '["p + 1", "q + 1", "r"]'], {"y2": ["p", "q", "r"]}),
    ],
)
def test_few_outputs_tell_what_no_input_does(tmp_path, shapes, told):
    """A call has to bring each of them."""
    outputs = [f'{{ name = "y{i}", role = "out", dtype = "T", shape = {one} }}' for i, one in enumerate(shapes)]
    dims = "".join(f"{dim} = {{ sizes = [64] }}\n" for dim in "pqr" if dim in "".join(shapes))
    spec = loaded(tmp_path, (X, ",\n  ".join([X, *outputs])), ("[dims]\n", f"[dims]\n{dims}"))

    assert telling_outputs(spec) == told
