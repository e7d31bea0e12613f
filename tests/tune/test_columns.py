"""Expressions over columns against the same expressions row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.tune.columns import evaluate, holds

COLUMNS = ("vec", "block", "wide")
SCALARS = ("n", "flag", "device.sm_count")
TYPES = {"T": "float16", "Acc": "float64"}

integers = st.one_of(
    st.integers(-5, 70),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.sampled_from([2**31, 2**53 + 1, 2**61 - 1, 2**62, 2**62 + 1, 2**63 - 1, -(2**61), -(2**62), -(2**63) + 1]),
)
scalars = st.fixed_dictionaries(dict.fromkeys(SCALARS, st.one_of(integers, st.booleans())))
rows = st.lists(st.tuples(*[integers] * len(COLUMNS)), min_size=1, max_size=8)
leaves = st.one_of(
    st.sampled_from([*COLUMNS, *COLUMNS, *SCALARS, "true", "false", "sizeof(T)", "sizeof(vec)", "T", "missing"]),
    st.one_of(st.integers(-3, 70), st.sampled_from([2**32, 2**62, 2**63 - 1])).map(str),
)


def compound(inner):
    binary = st.sampled_from(["+", "-", "*", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "and", "or"])
    return st.one_of(
        st.builds("({} {} {})".format, inner, binary, inner),
        st.builds("({} {} {} {} {})".format, inner, st.sampled_from(["<", "==", ">="]), inner, st.just("<="), inner),
        st.builds("({} {} {} {} {})".format, inner, st.just("and"), inner, st.just("or"), inner),
        st.builds("({} or {} or {})".format, inner, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({}{})".format, st.sampled_from(["-", "+", "not "]), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "ceil_div"]), inner, inner),
        st.builds("{}({}, {}, {})".format, st.sampled_from(["min", "max"]), inner, inner, inner),
    )


texts = st.recursive(leaves, compound, max_leaves=12)


def scalar(expression, environment):
    """The value, or None where there is none."""
    try:
        return expression.evaluate(environment)
    except ExpressionError:
        return None


def columns_of(table):
    return {name: np.array([row[at] for row in table], dtype=np.int64) for at, name in enumerate(COLUMNS)}


@given(texts, rows, scalars)
def test_every_row_has_the_value_that_the_expression_has_there(text, table, environment):
    try:
        expression = Expression.parse(text)
    except ExpressionError:  # a part that has no value anywhere
        return
    expected = [scalar(expression, environment | TYPES | dict(zip(COLUMNS, row, strict=True))) for row in table]

    found = evaluate(expression, columns_of(table), environment | TYPES)
    true = holds(expression, columns_of(table), environment | TYPES)

    assert found.known.tolist() == [value is not None for value in expected]
    assert [v for v, known in zip(found.values.tolist(), found.known, strict=True) if known] == [
        value for value in expected if value is not None
    ]
    assert true.tolist() == [bool(value) for value in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vec == 0 or n % vec == 0", [1, 1, 1, 1]),
        ("vec != 0 and n // vec", [0, 12, 6, 3]),
        ("n // vec if vec else 7", [7, 12, 6, 3]),
        ("vec < 1 < 8 // vec", [None, 0, 0, 0]),
        ("vec and n or block", [64, 12, 12, 12]),
        ("n // vec", [None, 12, 6, 3]),
        ("-7 // (vec - 3)", [2, 3, 7, -7]),
        ("-7 % (vec - 3)", [-1, -1, 0, 0]),
        ("2 ** vec", [1, 2, 4, 16]),
        ("2 ** (vec - 1)", [None, 1, 2, 8]),
        ("0 ** vec", [1, 0, 0, 0]),
        ("block ** 36", [2**216] * 4),
        ("block ** 36 // block ** 35 + vec", [64, 65, 66, 68]),
        ("block ** 43", [None] * 4),  # more than 256 bits
        ("vec == 0 or block ** 60 > 0", [1, None, None, None]),
        ("(2 ** 63 - 1) * vec", [0, 2**63 - 1, 2**64 - 2, 2**65 - 4]),
        ("sizeof(T) * vec", [0, 2, 4, 8]),
        ("true + (vec == 1) + (vec < 2)", [2, 3, 1, 1]),
        ("unknown + vec", [None] * 4),
        ("vec < 2 or unknown", [1, 1, None, None]),
        ("n % 5", [2, 2, 2, 2]),
    ],
)
def test_a_row_evaluates_what_python_would(text, expected):
    columns = {"vec": np.array([0, 1, 2, 4]), "block": np.full(4, 64)}

    found = evaluate(Expression.parse(text), columns, {"n": 12, "T": "float16"})

    assert [v if known else None for v, known in zip(found.values.tolist(), found.known, strict=True)] == expected


def test_columns_broadcast_and_stay_as_they_are():
    vec, block = np.array([[1], [2**62], [0]]), np.array([[3, 4]])

    found = evaluate(Expression.parse("vec * block"), {"vec": vec, "block": block}, {})
    alone = evaluate(Expression.parse("vec"), {"vec": vec}, {})
    alone.values[0, 0] = 7

    assert found.values.tolist() == [[3, 4], [3 * 2**62, 2**64], [0, 0]]
    assert vec.tolist() == [[1], [2**62], [0]]


def test_what_no_column_decides_has_one_value_in_every_row():
    columns = {"vec": np.array([1, 2, 4])}

    assert holds(Expression.parse("n % 2 == 0"), columns, {"n": 4}).tolist() == [True] * 3
    assert holds(Expression.parse("8 // n == 2"), columns, {"n": 0}).tolist() == [False] * 3
    assert holds(Expression.parse("8 // n == 2"), {}, {"n": 4}).tolist() is True
    assert holds(Expression.parse("vec > 1"), {"vec": np.array([], dtype=np.int64)}, {}).tolist() == []
