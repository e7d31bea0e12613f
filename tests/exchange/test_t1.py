"""Spaces of the T1 format: what is legal, counted and enumerated, and what a bad file is told."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretuned.errors import Error
from pretuned.exchange import t1, t4
from pretuned.exchange.expressions import conditions_of, parse_values
from pretuned.spec.expressions import Expression
from pretuned.spec.grammar import ExpressionError

HUB = Path(__file__).parents[1] / "data" / "benchmark_hub"


def file_with(folder, values="[1, 2, 4]", conditions=(), **parameter):
    parameters = [{"Name": "block", "Values": values} | parameter, {"Name": "vec", "Values": "[0, 1, 2]"}]
    space = {"TuningParameters": parameters, "Conditions": [{"Expression": text} for text in conditions]}
    path = folder / "kernel_T1.json"
    path.write_text(json.dumps({"ConfigurationSpace": space}))
    return path


@pytest.mark.parametrize(
    ("name", "results", "count"),
    [("convolution", "convolution_A100", 4362), ("dedispersion", "dedispersion_A4000", 11130)],
)
def test_the_legal_configurations_are_those_that_were_measured(name, results, count):
    space = t1.read(HUB / f"{name}_T1.json")
    measured = t4.read(HUB / f"{results}_T4.json.gz")
    legal = [tuple(configuration[name] for name in measured.names) for configuration in space.configurations()]
    assert len(legal) == space.count() == count
    assert set(legal) == set(measured.configurations)


def test_conditions_have_pythons_meaning(tmp_path):
    conditions = [
        "1 <= block < 4",
        "vec == 0 or block / vec in [1, 2] or not vec % 2 != 0",
        "(block if vec else 1) % 1 == 0 and min(block, 8) <= 2",
    ]
    space = t1.read(file_with(tmp_path, conditions=conditions))
    expected = [
        {"block": block, "vec": vec}
        for block, vec in itertools.product([1, 2, 4], [0, 1, 2])
        if all(eval(text, {"block": block, "vec": vec}) for text in conditions)
    ]
    assert list(space.configurations()) == expected
    assert 0 < len(expected) < 9


def test_a_condition_that_divides_by_zero_does_not_hold(tmp_path):
    space = t1.read(file_with(tmp_path, conditions=["block % vec == 0"]))
    assert {configuration["vec"] for configuration in space.configurations()} == {1, 2}


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40)), min_size=1, max_size=5))
def test_codes_are_the_filtered_product(shape):
    names = [f"p{index}" for index in range(len(shape))]
    values = [tuple(range(size)) for size, _ in shape]
    texts = [f"({' + '.join(names[: index + 1])}) * {bound} % 7 < 5" for index, (_, bound) in enumerate(shape)]
    space = t1.T1Space(names=tuple(names), values=tuple(values), conditions=tuple(map(Expression.parse, texts)))
    expected = [
        row
        for row in itertools.product(*values)
        if all(sum(row[: index + 1]) * bound % 7 < 5 for index, (_, bound) in enumerate(shape))
    ]
    assert [tuple(row) for row in space.codes().tolist()] == expected


integers = st.integers(-6, 6)


@given(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), integers, integers, integers)
def test_a_quotient_is_compared_as_python_does(comparison, a, b, c):
    for text in (f"a / b {comparison} c", f"c {comparison} a / b", "a / b in [c, 1]", "a / b not in (c, 2)"):
        holds = all(Expression.evaluate(part, {"a": a, "b": b, "c": c}) for part in conditions_of(text))
        assert holds == (b != 0 and bool(eval(text, {"a": a, "b": b, "c": c})))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[16, 1, 16]", (16, 1, 16)),
        ("[1, 2] + [32 * i for i in range(1, 4)]", (1, 2, 32, 64, 96)),
        ("list(range(2, 8, 2))", (2, 4, 6)),
        ("['float', 'half']", ("float", "half")),
        ("[2**i for i in range(3)]", (1, 2, 4)),
    ],
)
def test_lists_of_values(text, values):
    assert parse_values(text) == values


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "block.__class__",
        "(lambda: 1)()",
        "open('/etc/passwd')",
        "'a' * 9999999999 == block",
        "block[0]",
        "(block := 3)",
        "[x for x in range(3)]",
        "f'{block}'",
        "block ==",
        "(" * 99 + "block" + ")" * 99 + " + 1" * 2000,
        "-" * 60 + "block",
    ],
)
def test_what_is_no_condition_is_never_run(text):
    with pytest.raises(ExpressionError):
        conditions_of(text)


def test_nothing_takes_long():
    with pytest.raises(ExpressionError):
        parse_values("[9 ** 9 ** 9 ** 9]")
    with pytest.raises(ExpressionError):
        parse_values("list(range(10 ** 12))")
    with pytest.raises(ExpressionError):
        conditions_of("9 ** 64 ** 64 > block")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"conditions": ["blok < 3"]},
            "Conditions[0]: 'blok < 3' reads 'blok': there is no parameter 'blok'; did you mean 'block'?",
        ),
        ({"conditions": ["block <"]}, "Conditions[0]: 'block <' is not an expression"),
        ({"values": "block"}, "TuningParameters[0].Values"),
        ({"values": "[]"}, "TuningParameters[0].Values: '[]' is not a list of 1 to"),
        ({"values": "[[1], [2]]"}, "neither a number nor a string"),
        ({"Name": "vec"}, "names a parameter twice"),
        ({"Name": 3}, "TuningParameters[0] lacks 'Name' or 'Values'"),
    ],
)
def test_a_bad_file_is_told_where(tmp_path, change, said):
    path = file_with(tmp_path, **change)
    with pytest.raises(Error) as error:
        t1.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"{",
        b"\xff\xfe",
        b"\x1f\x8bxx",
        gzip.compress(b"{}" * 99, mtime=0)[:-12] + bytes(12),
        b"{}",
        b'{"ConfigurationSpace": 3}',
    ],
)
def test_what_is_no_t1_file_is_an_error_that_names_it(tmp_path, content):
    path = tmp_path / "kernel_T1.json"
    path.write_bytes(content)
    with pytest.raises(Error, match=r"kernel_T1\.json"):
        t1.read(path)
    with pytest.raises(Error, match="absent"):
        t1.read(tmp_path / "absent.json")
