"""Texts and floats as values of parameters and keywords: what they may be, and how expressions read them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretuned.bake.literals import function
from pretuned.runtime.expressions import operands
from pretuned.spec import space
from pretuned.spec.expressions import Expression
from pretuned.strategies.hybrid.proposals import Known
from pretuned.strategies.hybrid.surrogate import Surrogate
from pretuned.tune.space import columns
from pretuned.tune.space.points import Points
from specs import SCALE_TEMPLATE, faults, loaded

TEMPLATE = SCALE_TEMPLATE.replace("constexpr int vec", "// {{ layout }} {{ alpha }} {{ mode }}\nconstexpr int vec")
SPACE = ("vec   = [1, 2, 4]", "vec   = [1, 2, 4]\nlayout = ['row', 'col']\nalpha = [0.5, 1.0]")
DEFAULT = ("vec   = 1\n", "vec   = 1\nlayout = 'row'\nalpha = 1.0\n")
MODE = ("[specialisations]", "[specialisations]\nmode = { values = ['NHD', 'HND'] }")
GUARD = "n % vec == 0"
WRITE = "write one comparison, as in layout == 'row' or alpha < 0.5"
ENTRIES = [SPACE, DEFAULT, MODE]


def where(*texts):
    return GUARD, '", "'.join((GUARD, *texts))


def found(tmp_path, *edits):
    return [fault.removeprefix("scale.toml: ") for fault in faults(tmp_path, *edits, template=TEMPLATE)]


@pytest.mark.parametrize(
    "texts",
    [
        ("layout == 'row' or vec == 1", "alpha > 0.75 or mode == 'NHD'"),
        ("T == 'float32' or layout != 'col'", "n % 2 == 0 or layout == 'row'"),
        ("'row' == layout or 0.5 < alpha", "not (mode == 'HND' and layout == 'col')"),
        ("vec * (2 if layout == 'col' else 1) * sizeof(T) <= 16",),
    ],
)
def test_one_at_a_time_and_all_at_once_admit_the_same(tmp_path, texts):
    spec = loaded(tmp_path, *ENTRIES, where(*texts), template=TEMPLATE)

    for specialisation in space.specialisations(spec):
        problems = list(space.problems(spec, specialisation))
        points = Points.of(spec, specialisation, problems)
        assert set(points) == {one for problem in problems for one in space.configurations(spec, problem)}
        assert [points.index(one) for one in points] == list(range(len(points)))
        for problem in problems:
            legal = [one == points[0] or space.legal(spec, problem, one) for one in points]
            assert points.legal(problem).tolist() == legal


NAMES = {"layout": st.sampled_from(["row", "col"]), "alpha": st.sampled_from([0.5, 1.0, -2.0]), "n": st.integers(0, 9)}
COMPARED = st.one_of(
    st.tuples(st.just("layout"), st.sampled_from(["==", "!="]), st.sampled_from(["'row'", "'col'", "'x'"])),
    st.tuples(st.sampled_from(["'row'", "'y'"]), st.sampled_from(["==", "!="]), st.just("layout")),
    st.tuples(st.just("alpha"), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), st.sampled_from(["0.5", "-2.0"])),
    st.tuples(st.sampled_from(["0.5", "-2.0"]), st.sampled_from(["<", "<=", ">", ">="]), st.just("alpha")),
    st.tuples(st.just("n"), st.sampled_from(["<", ">"]), st.sampled_from(["3", "5"])),
).map(" ".join)
TEXTS = st.recursive(
    COMPARED,
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from(["and", "or"]), part).map(lambda of: f"({of[0]} {of[1]} {of[2]})"),
        part.map(lambda text: f"(not {text})"),
        st.tuples(part, part, part).map(lambda of: f"({of[0]} if {of[1]} else {of[2]})"),
    ),
    max_leaves=6,
)


@given(TEXTS, st.lists(st.fixed_dictionaries(NAMES), min_size=1, max_size=5), st.sets(st.sampled_from(sorted(NAMES))))
def test_builder_package_and_arrays_agree(text, environments, early):
    expression = Expression.parse(text)
    one_by_one = [bool(expression.evaluate(environment)) for environment in environments]

    printed = eval(function([expression], several=False))
    read = printed.__code__.co_varnames[: printed.__code__.co_argcount]
    assert [bool(printed(*[operands(one)[name] for name in read])) for one in environments] == one_by_one
    listed = {name: np.array([one[name] for one in environments]) for name in NAMES}
    assert columns.holds(expression, listed, {}).tolist() == one_by_one
    folded = [expression.fold({name: one[name] for name in early}) for one in environments]
    assert [bool(part.evaluate(one)) for part, one in zip(folded, environments, strict=True)] == one_by_one
    assert all(part.names.isdisjoint(early) for part in folded)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layout == 'rwo'", "'layout' is never 'rwo'; did you mean 'row'?"),
        ("mode == 'X'", "'mode' is never 'X'; it is HND or NHD"),
        ("T == 'float64'", "'T' is never 'float64'; did you mean 'float16'?"),
        ("layout < 'row'", "'layout < 'row'' orders a text; write == or !="),
        ("layout == 1", "'layout' is a text; it can only be compared with a text, as in layout == 'row'"),
        ("layout + 1 > 2", "'layout' is a text; it can only be compared with a text, as in layout == 'row'"),
        ("alpha > 1", "'alpha' is a float; it can only be compared with a float, as in alpha < 0.5"),
        ("alpha == 'x'", "'alpha' is not a text, so it cannot be compared with 'x'"),
        ("vec == 0.5", "'vec' is not a float, so it cannot be compared with 0.5"),
        ("n == 'row'", "'n' is not a text, so it cannot be compared with 'row'"),
        ("layuot == 'row'", "unknown name 'layuot' in `layuot == 'row'`; did you mean 'layout'?"),
        ("sizeof(layout) == 1", "sizeof(layout) in 'sizeof(layout) == 1': 'layout' is not a type"),
        ("0.5 < alpha < 2.0", f"'0.5 < alpha < 2.0' compares 0.5 with what is not one name; {WRITE}"),
        (r"layout == 'a\\\\b'", r"'layout == 'a\\b'' has a text with a quote or a backslash in it"),
        ("layout == 'caf\u00e9'", "'layout == 'caf\u00e9'' has a text that is not printable ASCII"),
    ],
)
def test_a_comparison_that_can_never_be_is_refused(tmp_path, text, message):
    assert found(tmp_path, *ENTRIES, where(text)) == [f"constraints.where[2]: {message}"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("'col'", "'12'"), 'space.layout[1]: is "12", which reads as 12; write that without quotes'),
        (("'col'", "'0.5'"), 'space.layout[1]: is "0.5", which reads as 0.5; write that without quotes'),
        (("'col'", "'true'"), 'space.layout[1]: is "true", which reads as true; write that without quotes'),
        (("'row', 'col'", "'row', 3"), "space.layout: mixes integers and texts; use one kind"),
        (
            ("[0.5, 1.0]", "[1, 0.5, 1.0]"),
            "space.alpha: mixes integers and floats; write floats with a point, as in 1.0",
        ),
        (("[0.5, 1.0]", "[inf, 1.0]"), "space.alpha[0]: is inf; must be finite"),
        (("[0.5, 1.0]", "[nan, 1.0]"), "space.alpha[0]: is nan; must be finite"),
        (("alpha = 1.0\n", "alpha = 1\n"), "default.alpha: 1 is outside the space; `space.alpha` has 0.5, 1.0"),
        (
            ("layout = 'row'\n", "layout = 'rwo'\n"),
            'default.layout: "rwo" is outside the space; `space.layout` has "col", "row"',
        ),
        (
            ("['NHD', 'HND']", "[0.5, 1.0]"),
            "specialisations.mode.values: has floats; a keyword is an integer, a bool or a text",
        ),
        (
            ('{ name = "n", dtype = "int32" }', '{ name = "n", dtype = "int32" }, { name = "mode", dtype = "int32" }'),
            "arguments[4].name: 'mode' is a text, and a text is not passed by value; leave it out",
        ),
    ],
)
def test_a_value_that_is_none_is_refused(tmp_path, edit, message):
    assert found(tmp_path, *ENTRIES, edit) == [message]


ODD = ["", " row", "row ", "a,b", "a;b", "a=b", r"a\\b", r"a\"b", "a'b", r"a\nb", "x" * 81, "\u00e9"]


@pytest.mark.parametrize("text", ODD)
def test_a_text_that_no_command_could_name_is_refused(tmp_path, text):
    (message,) = found(tmp_path, *ENTRIES, ("'col'", f'"{text}"'))

    assert message.startswith("space.layout[1]: is ")
    assert message.endswith("a text is 1 to 80 printable characters of ASCII without \" ' \\ , ; =")


def test_texts_have_no_neighbours_and_numbers_have():
    codes = np.array([[0, a, b] for a in range(4) for b in range(4)], dtype=np.int16)
    known = Known.of(codes, {row: 1.0 + row for row in range(16)}, nominal=(2,))
    assert known.ordered.tolist() == [True, False]

    model = Surrogate.fit(known.levels, np.arange(16.0), known.sizes, known.ordered)

    number, text = model.tables
    assert number[0, 1] < number[0, 2] < number[0, 3]
    assert text[0, 1] == text[0, 2] == text[0, 3] > 0 == text[0, 0]


def test_the_columns_of_texts_are_known(tmp_path):
    spec = loaded(tmp_path, *ENTRIES, template=TEMPLATE)
    (first, *_) = space.specialisations(spec)

    points = Points.of(spec, first, list(space.problems(spec, first)))

    assert [points.names[column - 1] for column in points.nominal] == ["layout"]
