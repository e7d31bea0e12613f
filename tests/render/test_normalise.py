"""Which texts count as the same module: those that a compiler cannot tell apart, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretuned.render import normalise


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a; // one", "int a; // another"),
        ("int a; /* one */ int b;", "int a; /* over\ntwo lines */ int b;"),
        ("int a;\n\n\n   int b;", "int a;\n\tint b;   \n"),
        ("// head\n\nint a;", "int a;"),
        ("int  a   =  1;", "int a = 1;"),
        ("a/**/b", "a b"),
        ("#define X 1 /* over\ntwo lines */ + 2\nint a = X;", "#define X 1 + 2\nint a = X;"),
        ("#define X 1 \\\n + 2", "#define X 1  + 2"),
        ("int a; // continued \\\nint b;", "int a;"),
        ("x = '\\''; // quote", "x = '\\'';"),
        ("n = 1'000'000; // separators", "n = 1'000'000;"),
        ('s = "a"; // "b', 's = "a";'),
        ("", "\n // nothing\n"),
    ],
)
def test_what_a_compiler_drops_makes_no_difference(one, other):
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a - -b", "a--b"),
        ("a/**/b", "ab"),
        ("a / b", "a // b"),
        ('s = "a  b"', 's = "a b"'),
        ('s = "a // b"', 's = "a // c"'),
        ('s = "/* a */"', 's = "/* b */"'),
        ("c = ' '", "c = '  '"),
        ("#define A 1\nint b;", "#define A 1 int b;"),
        ("#define A /* over\ntwo */ 1\nint a;", "#define A\n1\nint a;"),
        ("#define F(x) x", "#define F (x) x"),
        ("int a; // continued \\\nint b;", "int a; // not continued\nint b;"),
        ('R"(a // b)"', 'R"(a // c)"'),
        ('R"(a\n  b)"', 'R"(a\nb)"'),
        ('R"x(a)" // )x"', 'R"x(a)" // b)x"'),
        ('R"(a\\\nb)"', 'R"(ab)"'),
        ('"\\"// a"', '"\\"// b"'),
        ("'\"' // \"", "'\"' /* */ \""),
        ("1'0 + a /* x */ + 1'0", "1'0 + a /* y + 1'0"),
        ("#include <a//b>", "#include <a//c>"),
        ("int a = __LINE__;", "\nint a = __LINE__;"),
        ("assert(a);", "\nassert(a);"),
        ("int a; /* never closed", "int a;"),
        ("a\\ \nb", "ab"),
    ],
)
def test_texts_that_compile_differently_stay_apart(one, other):
    assert normalise(one) != normalise(other)


TOKENS = st.sampled_from(
    ["a", "b1", "1'0", ".5e-3", "+", "-", "/", "*", '"a  // b"', "'\"'", 'R"(x  /* )"', "#define X", "<", "(", ")", ";"]
)
BLANKS = st.sampled_from([" ", "  ", "\t", " /* c */", "  /* over\nlines */ ", " \\\n"])
BREAKS = st.sampled_from(["\n", "\n\n  ", " // c\n", "\n/* d */\n\t"])


@given(st.lists(st.lists(TOKENS, min_size=1, max_size=5), max_size=4), st.data())
def test_layout_never_matters_and_tokens_always_do(lines, data):
    def text(blank, end):
        return "".join(blank().join(line) + end() for line in lines)

    plain = text(lambda: " ", lambda: "\n")
    laid_out = text(lambda: data.draw(BLANKS), lambda: data.draw(BREAKS))
    raw = 'R"' in plain

    assert normalise(plain) == plain.rstrip("\n")
    assert normalise(laid_out) == plain.rstrip("\n") or (raw and "\\\n" in laid_out and normalise(laid_out) == laid_out)


@given(st.lists(st.lists(TOKENS.filter(lambda one: "R" not in one), min_size=1, max_size=5), max_size=4), st.data())
def test_lines_by_themselves_give_what_the_whole_text_gives(lines, data):
    blank = st.sampled_from([" ", "  ", "\t", "\f", " \\\n"])
    end = st.sampled_from(["\n", "\n\n  ", " // c\n", '"\n', "\r\n", ' "\\\\\n\n'])
    text = "".join(data.draw(blank).join(line) + data.draw(end) for line in lines)
    assert normalise(text) == normalise(text + "\n/**/")
