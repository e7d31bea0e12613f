"""The expression language against Python itself."""

from __future__ import annotations

import ast
import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretuned.runtime.table import ceil_div
from pretuned.runtime.types import DTYPES
from pretuned.spec.expressions import Expression, LeadingDims, OwnExtent
from pretuned.spec.grammar import DEVICE_ATTRIBUTES, ExpressionError

NAMES = ("n", "vec", "block", "flag", "device.sm_count")
SIZES = {"T": "float16", "Acc": "float64"}

names = st.sampled_from(NAMES)
values = st.one_of(st.integers(-5, 200), st.booleans())
environments = st.fixed_dictionaries(dict.fromkeys(NAMES, values))
leaves = st.one_of(
    names,
    st.integers(-3, 70).map(str),
    st.sampled_from(["true", "false", "sizeof(T)", "sizeof(Acc)", "sizeof(float32)"]),
)


def compound(inner):
    binary = st.sampled_from(["+", "-", "*", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "and", "or"])
    return st.one_of(
        st.builds("({} {} {})".format, inner, binary, inner),
        st.builds("({} {} {} {} {})".format, inner, st.sampled_from(["<", "==", ">="]), inner, st.just("<="), inner),
        st.builds("({} {} {} {} {})".format, inner, st.just("and"), inner, st.just("or"), inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({}{})".format, st.sampled_from(["-", "+", "not "]), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "ceil_div"]), inner, inner),
    )


texts = st.recursive(leaves, compound, max_leaves=12)


class Device:
    def __init__(self, environment):
        self.sm_count = environment["device.sm_count"]


def parsed(text):
    """Return the expression, or None for a text with a part that has no value anywhere."""
    try:
        return Expression.parse(text)
    except ExpressionError:
        return None


def value(expression, environment):
    """Return the value, or None where there is none."""
    try:
        return expression.evaluate(environment)
    except ExpressionError:
        return None


@given(texts, environments)
def test_a_value_is_what_python_gives(text, environment):
    expression = parsed(text)
    found = None if expression is None else value(expression, environment | SIZES)
    if found is None:
        return
    scope = {name: environment[name] for name in NAMES if "." not in name} | SIZES
    scope |= {"device": Device(environment), "ceil_div": ceil_div, "min": min, "max": max}
    scope |= {"sizeof": lambda dtype: DTYPES[dtype].size_bytes, "float32": "float32"}

    assert found == eval(expression.python, {"__builtins__": {}}, scope)  # the oracle


@given(texts, environments, st.sets(names))
def test_folding_any_part_first_leaves_the_value(text, environment, early):
    expression = parsed(text)
    whole = None if expression is None else value(expression, environment | SIZES)
    if whole is None:
        return
    folded = expression.fold({name: environment[name] for name in early} | SIZES)

    assert folded.names.isdisjoint({*early, *SIZES})
    assert value(folded, environment) == whole


@given(texts)
def test_the_canonical_text_stands_for_the_same_expression(text):
    expression = parsed(text)
    if expression is None:
        return
    assert Expression.parse(expression.python) == expression


@given(st.text(alphabet="nv01 +-*/%()<=.,'\"[]{}:@&|~\\#\n", max_size=40))
def test_any_text_is_either_an_expression_or_refused(text):
    expression = parsed(text)

    assert expression is None or isinstance(ast.parse(expression.python, mode="eval"), ast.Expression)


@pytest.mark.parametrize(
    ("text", "known", "folded"),
    [
        ("n % vec == 0", {"vec": 1}, "True"),
        ("n % vec == 0", {"vec": 4}, "n % 4 == 0"),
        ("vec * sizeof(T) <= 16 and n % vec == 0", {"vec": 4, "T": "float32"}, "n % 4 == 0"),
        ("vec == 1 or n % vec == 0", {"vec": 1}, "True"),
        ("n > 3 or vec == 1", {"vec": 1}, "True"),
        ("n > 3 and vec == 1", {"vec": 2}, "False"),
        ("n and vec", {"vec": 4}, "n and 4"),  # whose value is 4, not true
        ("n or vec", {"vec": 4}, "n or 4"),
        ("n // vec if vec else 0", {"vec": 0}, "0"),
        ("(vec - 3) ** n", {"vec": 1}, "(-2) ** n"),
        ("n > 1 // vec", {"vec": 0}, "n > 1 // 0"),
        ("sizeof(float64) * n", {}, "8 * n"),
    ],
)
def test_folding_drops_what_is_decided(text, known, folded):
    assert Expression.parse(text).fold(known).python == folded


def test_names_tell_types_values_and_the_device_apart():
    expression = Expression.parse("ceil_div(n, vec) * sizeof(T) <= device.shared_bytes")

    assert expression.names == {"n", "vec", "T", "device.shared_bytes"}
    assert expression.type_names == {"T"}
    assert expression.value_names == {"n", "vec", "device.shared_bytes"}
    assert expression.reads_device
    assert not Expression.parse("n + 1").reads_device


def test_every_attribute_of_the_device_can_be_read():
    for attribute in DEVICE_ATTRIBUTES:
        assert Expression.parse(f"{attribute} + 1").evaluate({attribute: 41}) == 42


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ("n // vec", {"n": 1, "vec": 0}, "'n // vec' divides by zero"),
        ("ceil_div(n, vec)", {"n": 1, "vec": 0}, "'ceil_div(n, vec)' divides by zero"),
        ("n + vec", {"n": 1}, "'n + vec' needs a value for 'vec'"),
        ("n + T", {"n": 1, "T": "float32"}, "'n + T' has no value: 'T' is a type; only sizeof(T) has a value"),
        ("sizeof(n)", {"n": 1}, "'sizeof(n)' has no value: sizeof(n): 'n' is not a type"),
        (
            "2 ** n",
            {"n": 10**9},
            "'2 ** n' has no value: a result is beyond 2 ** 62",
        ),
        ("2 ** (1 - n)", {"n": 2}, "'2 ** (1 - n)' has no value: an exponent is negative"),
        (
            "n * n * n - n",
            {"n": 2**21},
            "'n * n * n - n' has no value: a result is beyond 2 ** 62",
        ),
    ],
)
def test_an_expression_without_a_value_says_why(text, environment, message):
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text).evaluate(environment)

    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["-" * 10_000 + "n", "(" * 240 + "n" + ")" * 240, "9" * 400, "n" + ".n" * 240, "n\0"])
def test_a_text_made_to_exhaust_the_parser_is_refused(text):
    with pytest.raises(ExpressionError):
        Expression.parse(text)


def test_an_expression_survives_pickling_and_copying_after_use():
    expression = Expression.parse("ceil_div(n, 4)")
    assert expression.evaluate({"n": 9}) == 3

    for twin in (pickle.loads(pickle.dumps(expression)), copy.deepcopy(expression)):
        assert twin == expression
        assert twin.evaluate({"n": 9}) == 3


@pytest.mark.parametrize("kind", [Expression, LeadingDims, OwnExtent])
def test_an_expression_that_comes_many_times_is_one_object(kind):
    sent = pickle.dumps(kind("rows"))
    first, second = pickle.loads(sent), pickle.loads(sent)

    assert first is second  # a child gets its spec with each problem: what was parsed of the first one serves all
    assert type(first) is kind


def test_a_folded_name_is_read_as_it_was():
    expression, k = Expression.parse("n <= k < m"), -(2**63) + 1  # beyond what a result may be
    environment = {"n": -(2**63), "m": -2}
    assert expression.fold({"k": k}).evaluate(environment) == expression.evaluate({**environment, "k": k})
