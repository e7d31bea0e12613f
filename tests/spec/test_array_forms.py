"""What a spec says of arrays beside dtype and shape, and what it cannot say, in whole messages."""

from __future__ import annotations

import pytest

from specs import SEVERAL, faults, loaded

X = 'name = "x", role = "in"'
Y = 'name = "y", role = "out"'
A = 'dtype = "float32", value = 2.0'
IN_PLACE = (Y, f"{Y}, in-place = true")
NO_INPUT = """no `in` argument has `dtype = "T"` and `shape = ["n"]`, so 'y' cannot be one; leave it out"""
WRITE = "write `aligned(x, 8)`, an array and bytes, as an entry of its own"
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


def requires(text):
    return ('where = ["vec', f'requires = [{text}]\nwhere = ["vec')


def test_a_demand_on_an_address_makes_a_default_that_aligns_so_legal(tmp_path):
    edits = [("\nvec   = 1\n", "\nvec   = 2\n"), (', "n % vec == 0"', "")]
    spec = loaded(tmp_path, *edits, requires('"aligned(y, 2 * sizeof(T))", "aligned(x, 8)"'))
    demands = [str(one) for one in spec.constraints.requires]
    assert demands == ["aligned(y, 2 * sizeof(T))", "aligned(x, 8)"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"aligned(z, 8)"', "'z' in 'aligned(z, 8)' is not an array"),
        ('"aligned(a, 8)"', "'a' in 'aligned(a, 8)' is not an array"),
        (
            '"aligned(x, vec)"',
            "'vec' is a parameter; what a configuration asks of an address is the argument's `align`",
        ),
        (
            '"aligned(x, n)"',
            "'n' in 'aligned(x, n)' has no one value: a call may have any size of it; write a number",
        ),
        ('"aligned(x, m)"', "unknown name 'm' in 'm'"),
        ('"aligned(x, 12)"', "asks for 12 bytes; an alignment is a power of two, at most 256"),
        ('"aligned(x, 512)"', "asks for 512 bytes; an alignment is a power of two, at most 256"),
        (
            '"aligned(x, 128 * sizeof(T))"',
            "asks for 512 bytes for T=float32; an alignment is a power of two, at most 256",
        ),
        ('"aligned(x, 0)"', "asks for 0 bytes; an alignment is a power of two, at most 256"),
        ('"aligned(x, -8)"', "asks for -8 bytes; an alignment is a power of two, at most 256"),
        *[
            (
                f'"{text}"',
                f"'{text}' is not a demand on an address; {WRITE}",
            )
            for text in ("aligned(x, 8) and n > 1", "not aligned(x, 8)", "aligned(x)", "aligned(8, x)", "aligned(x, 8")
        ],
        ('"aligned(x, 8 / 2)"', "'8 / 2' divides with '/'; write '//' or ceil_div(a, b)"),
    ],
)
def test_what_is_not_a_demand_on_an_address(tmp_path, text, message):
    (fault,) = faults(tmp_path, requires(text))
    assert fault == f"scale.toml: constraints.requires[0]: {message}"


def test_a_demand_on_an_address_is_not_for_where(tmp_path):
    (fault,) = faults(tmp_path, ("n % vec == 0", "aligned(x, 8)"))
    assert fault == (
        "scale.toml: constraints.where[1]: 'aligned(x, 8)' calls 'aligned'; it stands in `requires`, and what a "
        "configuration asks of an address is the argument's `align`"
    )
