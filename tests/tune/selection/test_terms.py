"""Terms: their texts against Python's own, and against what they stand for."""

from __future__ import annotations

import ast
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretuned.runtime.costs import DEEPEST, LONGEST, is_allowed
from pretuned.spec.expressions import Expression
from pretuned.tune.selection.terms import Term

DIMS = ("n", "m")
PARTS = (
    *("n", "7", "-n", "n + 1", "n - m", "n * m", "n // 4", "n % 8", "n * (m + 1)", "-(n + m)", "ceil_div(n, 4)"),
    *("max(n, 4)", "min(n, m, 9)", "n == 3", "not n", "n and m", "n or m", "n > 1 and (m or n < 2)"),
    *("n if m else 3", "(n if m else 2) if n > m else m", "n // max(1, m)"),
)

parts = st.sampled_from(PARTS)
terms = st.builds(
    lambda factors, divisor, where: Term(factors=tuple(factors), divisor=divisor, where=where),
    st.lists(parts, max_size=4),
    st.sampled_from((1, 1024)),
    st.one_of(st.just(""), parts),
)
sizes = st.integers(0, 40)


@given(terms, sizes, sizes)
def test_a_terms_text_is_written_as_python_writes_it_and_has_its_value(term, n, m):
    assert ast.unparse(ast.parse(term.text, mode="eval").body) == term.text

    def value(text):
        return Expression.parse(text).evaluate({"n": n, "m": m})

    product = math.prod(map(value, term.factors)) // term.divisor
    assert value(term.text) == (product if not term.where or value(term.where) else 0)


@pytest.mark.parametrize("levels", range(DEEPEST - 4, DEEPEST + 1))
@pytest.mark.parametrize(
    "beside", [{}, {"where": "m > 1"}, {"divisor": 1024}, {"divisor": 1024, "where": "m > 1"}], ids=str
)
def test_a_term_that_is_too_deep_for_a_cost_has_no_text(levels, beside):
    deep = "n"
    for _ in range(levels):
        deep = f"max(1, {deep})"
    text = f"{deep} * m"
    text = f"{text} // 1024" if "divisor" in beside else text
    text = f"{text} if m > 1 else 0" if "where" in beside else text
    allowed = is_allowed(ast.parse(text, mode="eval").body, DIMS)
    assert Term(factors=(deep, "m"), **beside).text == (text if allowed else "")


def test_what_costs_cannot_have_has_no_text():
    assert not Term(factors=("n // m",)).text  # which might be 0
    assert not Term(factors=("n", "sizeof(T)")).text
    wide = f"max({', '.join(['m'] * (LONGEST // 6))})"  # not deep
    assert Term(factors=("n", wide)).text
    assert not Term(factors=("n", wide, wide)).text
    assert not Term(factors=("n",), where="n // m").text
