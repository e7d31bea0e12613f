"""The three ways in which expressions are computed against each other: integers, arrays, and generated code."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretuned.bake.literals import function
from pretuned.runtime.expressions import Integer, operands
from pretuned.runtime.problem import evaluate as evaluated
from pretuned.runtime.table import ceil_div, sizeof
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.tune.space.columns import evaluate, holds

COLUMNS = ("vec", "block", "wide")
SCALARS = ("n", "flag", "device.sm_count")
TYPES = {"T": "float16", "Acc": "float64"}

integers = st.one_of(
    st.integers(-5, 70),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.sampled_from([2**31, 2**53 + 1, 2**61 - 1, 2**62, 2**62 + 1, 2**63 - 1, -(2**61), -(2**62), -(2**63) + 1]),
)
scalars = st.fixed_dictionaries(
    {name: st.one_of(integers, st.booleans()) for name in ("n", "flag")} | {"device.sm_count": st.integers(0, 2**40)}
)
rows = st.lists(st.tuples(*[integers] * len(COLUMNS)), min_size=1, max_size=8)
leaves = st.one_of(
    st.sampled_from([*COLUMNS, *COLUMNS, *SCALARS, "true", "false", "sizeof(T)", "sizeof(vec)", "T", "missing"]),
    st.one_of(st.integers(-3, 70), st.sampled_from([2**31, 2**61, 2**62])).map(str),
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


def printed(expression, environment):
    """The value that the generated package finds, None where there is none, and an undeclared name is one of those."""
    scope = {"Integer": Integer, "ceil_div": ceil_div, "sizeof": sizeof}
    values = {name: value for name, value in environment.items() if "." not in name}
    if {name for name in expression.value_names if "." not in name} - values.keys() or expression.type_names & {"vec"}:
        return scalar(expression, environment)  # a spec that names what there is not is refused before
    if any(isinstance(values.get(name), str) for name in expression.value_names):
        return scalar(expression, environment)
    device = SimpleNamespace(sm_count=environment["device.sm_count"])
    try:
        return int(
            evaluated(eval(function([expression], several=False), scope), {**operands(values), "device": device})
        )
    except ArithmeticError:
        return None


def columns_of(table):
    return {name: np.array([row[at] for row in table], dtype=np.int64) for at, name in enumerate(COLUMNS)}


@given(texts, rows, scalars)
def test_integers_arrays_and_generated_code_give_an_expression_one_value(text, table, environment):
    try:
        expression = Expression.parse(text)
    except ExpressionError:  # a part that has no value anywhere
        return
    environments = [environment | TYPES | dict(zip(COLUMNS, row, strict=True)) for row in table]
    expected = [scalar(expression, each) for each in environments]

    values, known = evaluate(expression, columns_of(table), environment | TYPES)
    true = holds(expression, columns_of(table), environment | TYPES)

    assert known.tolist() == [value is not None for value in expected]
    assert values[known].tolist() == [value for value in expected if value is not None]
    assert true.tolist() == [bool(value) for value in expected]
    assert [printed(expression, each) for each in environments] == expected


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
        ("block ** 10 * vec", [0, 2**60, 2**61, 2**62]),
        ("block ** 10 * 2 * vec", [0, 2**61, 2**62, None]),  # beyond 2 ** 62
        ("block ** 36 // block ** 35 + vec", [None] * 4),
        ("-(2 ** 62) - vec", [-(2**62), None, None, None]),
        ("vec == 0 or block ** 60 > 0", [1, None, None, None]),
        ("(0 - 1) ** (vec * 2 ** 60 + 3) + 0 ** (vec * 2 ** 60)", [0, -1, -1, None]),
        ("sizeof(T) * vec", [0, 2, 4, 8]),
        ("true + (vec == 1) + (vec < 2)", [2, 3, 1, 1]),
        ("unknown + vec", [None] * 4),
        ("vec < 2 or unknown", [1, 1, None, None]),
        ("n % 5", [2, 2, 2, 2]),
    ],
)
def test_a_row_evaluates_what_python_would(text, expected):
    columns = {"vec": np.array([0, 1, 2, 4]), "block": np.full(4, 64)}

    values, known = evaluate(Expression.parse(text), columns, {"n": 12, "T": "float16"})

    assert [v if known else None for v, known in zip(values.tolist(), known, strict=True)] == expected


def test_columns_broadcast_and_stay_as_they_are():
    vec, block = np.array([[1], [2**61], [0]]), np.array([[2, 4]])

    values, known = evaluate(Expression.parse("vec * block"), {"vec": vec, "block": block}, {})
    alone, _ = evaluate(Expression.parse("vec"), {"vec": vec}, {})
    alone[0, 0] = 7

    assert known.tolist() == [[True, True], [True, False], [True, True]]
    assert values[known].tolist() == [2, 4, 2**62, 0, 0]
    assert vec.tolist() == [[1], [2**61], [0]]


def test_what_no_column_decides_has_one_value_in_every_row():
    columns = {"vec": np.array([1, 2, 4])}

    assert holds(Expression.parse("n % 2 == 0"), columns, {"n": 4}).tolist() == [True] * 3
    assert holds(Expression.parse("8 // n == 2"), columns, {"n": 0}).tolist() == [False] * 3
    assert holds(Expression.parse("8 // n == 2"), {}, {"n": 4}).tolist() is True
    assert holds(Expression.parse("vec > 1"), {"vec": np.array([], dtype=np.int64)}, {}).tolist() == []


@pytest.mark.parametrize(
    "text", ["(vec < block) + n", "(not vec) + n", "(true if vec else n) + n", "(vec < block) + (1 if vec else n)"]
)
def test_a_truth_value_and_a_name_keep_the_bound(text):
    expression = Expression.parse(text)
    environment = {"vec": 0, "block": 1, "wide": 0, "n": 2**62, "flag": 0, "device.sm_count": 1}
    assert printed(expression, environment) is scalar(expression, environment) is None
    environment["n"] = 5
    assert printed(expression, environment) == scalar(expression, environment)
