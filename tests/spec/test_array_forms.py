"""What a spec says of arrays beside dtype and shape, and what it cannot say, in whole messages."""

from __future__ import annotations

import pytest

from specs import SEVERAL, faults, loaded

X = 'name = "x", role = "in"'
Y = 'name = "y", role = "out"'
A = 'dtype = "float32", value = 2.0'
IN_PLACE = (Y, f"{Y}, in-place = true")
NO_INPUT = """no `in` argument has `dtype = "T"` and `shape = ["n"]`, so 'y' cannot be one; leave it out"""
ONLY_OUTPUTS = 'only an output (`role = "out"`) can be one of the inputs; leave it out'


def test_an_output_may_be_each_input_of_its_dtype_and_shape(tmp_path):
    spec = loaded(
        tmp_path,
        IN_PLACE,
        (f"{{ {X}", f'{{ name = "w", role = "in", dtype = "T", shape = ["n"] }},\n  {{ {X}'),
        ('  { name = "n"', '  { name = "v", role = "in", dtype = "T", shape = ["n + 0"] },\n  { name = "n"'),
    )
    assert [array.name for array in spec.in_place_of(spec.arrays[0])] == ["w", "x"]
    assert spec.in_place_of(spec.arrays[1]) == ()


@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        ([(X, f"{X}, in-place = true")], [f"arguments[1].in-place: {ONLY_OUTPUTS}"]),
        ([(Y, 'name = "y", role = "inout", in-place = true')], [f"arguments[0].in-place: {ONLY_OUTPUTS}"]),
        ([(A, f"{A}, in-place = true")], [f"arguments[2].in-place: {ONLY_OUTPUTS}"]),
        ([(Y, f"{Y}, in-place = 1")], ["arguments[0].in-place: expected true or false, found 1"]),
        ([(Y, f'{Y}, in-place = "x"')], ['arguments[0].in-place: expected true or false, found "x"']),
        (
            [IN_PLACE, (X + ', dtype = "T", shape = ["n"]', X + ', dtype = "T", shape = ["n", 1]')],
            [
                "arguments[0].in-place: " + NO_INPUT,
            ],
        ),
        (
            [(Y, f"{Y}, in-place = true, init = 0")],
            ["arguments[0].in-place: `init` zeroes 'y', and so an input that it is; leave one of them out"],
        ),
    ],
)
def test_an_output_that_cannot_be_an_input(tmp_path, edits, lines):
    assert faults(tmp_path, *edits) == [f"scale.toml: {line}" for line in lines]


def test_an_output_that_one_implementation_zeroes_cannot_be_an_input(tmp_path):
    edit = ("[implementations.plain]\n", '[implementations.plain]\ninit = ["y"]\n')
    (fault,) = faults(tmp_path, IN_PLACE, edit, toml=SEVERAL)
    assert fault == (
        "scale.toml: arguments[0].in-place: `init` zeroes 'y', and so an input that it is; leave one of them out"
    )
