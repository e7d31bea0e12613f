"""Each line of a rendered text knows the template's line that it comes from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pretuned.spec.lines import TemplatePlace, lines_of, relocated
from pretuned.spec.templates import render


def places(folder, values, **files):
    for name, text in files.items():
        (folder / f"{name}.jinja").write_text(text)
    return [str(place) for place in lines_of(folder, "main.jinja", values)]


def test_loops_conditions_and_includes(tmp_path):
    main = (
        "first\n{% if on %}\nsecond\n{% else %}\nthird\n{% endif %}\n{% for i in range(2) %}\n"
        "  turn {{ i }}\n{% endfor %}\n{% include 'part.jinja' %}\nlast {{ x }}\n{{ x }} begins\n"
    )
    found = places(tmp_path, {"on": False, "x": 7}, main=main, part="one\n{# a remark #}\nthree\n")
    assert found == [
        *("main.jinja:1", "main.jinja:5", "main.jinja:8", "main.jinja:8"),
        *("part.jinja:1", "part.jinja:3", "main.jinja:11", "main.jinja:12", "None"),
    ]


def test_stripped_whitespace_and_raw_blocks(tmp_path):
    main = "a\n\n\n{%- if true %}\nb\n{% endif -%}\n\n\nc {% raw %}{{ d\n}}{% endraw %}\ne"
    found = places(tmp_path, {}, main=main)
    assert found[0] == "main.jinja:1"
    assert found[-1] == "main.jinja:10"  # the newline behind endraw is dropped


def test_filters_over_text(tmp_path):
    assert places(tmp_path, {}, main="a\n{% filter upper %}b\n{% endfilter %}c") == [
        f"main.jinja:{n}" for n in (1, 2, 3)
    ]


pieces = st.recursive(
    st.lists(st.sampled_from(["int a;", "  float b = 1;", "// c", "{{ x }};", ""]), min_size=1, max_size=3),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: [line for part in parts for line in part]),
        inner.map(lambda lines: ["{% for i in range(2) %}", *lines, "{% endfor %}"]),
        inner.map(lambda lines: ["{% if x %}", *lines, "{% else %}", "other;", "{% endif %}"]),
        inner.map(lambda lines: ["{# remark", "over lines #}", *lines]),
    ),
    max_leaves=6,
)


@given(lines=pieces)
def test_a_line_is_found_where_its_text_stands(lines, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    numbered = [
        f"{line} /*{number}*/" if line[:2] not in {"{%", "{#", "ov"} else line for number, line in enumerate(lines, 1)
    ]
    (folder / "main.jinja").write_text("\n".join(numbered))

    for text, place in zip(
        render(folder, "main.jinja", {"x": 1}).split("\n"), lines_of(folder, "main.jinja", {"x": 1}), strict=True
    ):
        if "/*" in text:
            assert place is not None
            assert f"/*{place.line}*/" in text


def test_messages_of_compilers_and_sanitizers():
    places = (None, *lines_like(("a.jinja", 7)))
    message = "kernel.cu(2): error; kernel.cu:2:14: note; at kernel.cu:2 (block); kernel.cu:1; kernel.cu:99"
    assert relocated(message, "kernel.cu", places) == (
        "a.jinja:7: error; a.jinja:7: note; at a.jinja:7 (block); kernel.cu:1; kernel.cu:99"
    )


def lines_like(*pairs):

    return tuple(TemplatePlace(file, line) for file, line in pairs)
