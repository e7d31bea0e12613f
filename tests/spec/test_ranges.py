"""Ranges: lists of integers that a spec writes in short."""

from __future__ import annotations

import jsonschema
import pytest

from pretuned.schema.generate import spec_schema
from pretuned.spec import space
from specs import faults, loaded

BLOCKS = "block = [128, 256]"
SIZES = "sizes = [1024, 65536]"


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("{ from = 64, to = 256, step = 64 }", (64, 128, 192, 256)),
        ("{ from = 254, to = 257 }", (254, 255, 256, 257)),
        ("{ from = 1, to = 256, factor = 4 }", (1, 4, 16, 64, 256)),
        ("{ from = 3, to = 768, factor = 256 }", (3, 768)),
        ("{ from = -256, to = 256, step = 256 }", (-256, 0, 256)),
        ("{ to = 256, from = 256 }", (256,)),
    ],
)
def test_a_range_of_a_parameter_is_the_list_that_it_stands_for(tmp_path, written, values):
    spec = loaded(tmp_path, (BLOCKS, f"block = {written}"), ("block = 256", f"block = {values[-1]}"))

    assert spec.space["block"] == values
    assert {dict(one.values)["block"] for one in space.combinations("main", spec.all_implementations["main"])} == {
        *values
    }


def test_sizes_and_the_values_of_constant_dims_and_keywords_may_be_ranges(tmp_path):
    spec = loaded(
        tmp_path,
        (SIZES, "sizes = { from = 1024, to = 1048576, factor = 32 }"),
        ("[specialisations]", "[specialisations]\nmode = { values = { from = 0, to = 2 } }"),
    )

    assert spec.dims["n"].sizes == (1024, 32768, 1048576)
    assert spec.specialisations["mode"].values == (0, 1, 2)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{ from = 32, to = 100, step = 32 }", "its steps pass over 100: write `to = 96`, the last that they meet"),
        ("{ from = 1, to = 100, factor = 2 }", "its factors pass over 100: write `to = 64`, the last that they meet"),
        ("{ from = 64, to = 32 }", "goes from 64 to 32; write the lesser first"),
        ("{ from = 1, to = 64, step = 1, factor = 2 }", "a range has `step` or `factor`, not both; leave one out"),
        ("{ from = 1, to = 64, step = 0 }", "`step` is 0; it is at least 1"),
        ("{ from = 1, to = 64, step = -1 }", "`step` is -1; it is at least 1"),
        ("{ from = 1, to = 64, factor = 1 }", "`factor` is 1; it is at least 2"),
        ("{ from = 0, to = 64, factor = 2 }", "`from` is 0; a range with `factor` begins at 1 or more"),
        ("{ from = 1.0, to = 64 }", "`from` is 1.0; a range is made of integers"),
        ("{ from = false, to = true }", "`from` is false; a range is made of integers"),
        ("{ from = 1, to = 9223372036854775808 }", "`to` is an integer beyond 64 bits; a range is made of integers"),
        (
            "{ from = -9223372036854775807, to = 9223372036854775807 }",
            "has 18,446,744,073,709,551,615 values; a range has at most 10,000",
        ),
        (
            "{ from = 1 }",
            "a range lacks `to`; write it as in `{ from = 32, to = 1024, step = 32 }`",
        ),
        ("{}", "a range lacks `from`; write it as in `{ from = 32, to = 1024, step = 32 }`"),
        (
            "{ from = 1, to = 64, setp = 2 }",
            "a range has no 'setp'; did you mean 'step'?",
        ),
        (
            "{ values = [1, 2] }",
            "a range has no 'values'; write a list, or a range of from, to, step, factor",
        ),
    ],
)
def test_a_range_that_is_none_is_refused_with_what_to_write(tmp_path, written, message):
    assert faults(tmp_path, (BLOCKS, f"block = {written}")) == [f"scale.toml: space.block: {message}"]
    assert faults(tmp_path, (SIZES, f"sizes = {written}")) == [f"scale.toml: dims.n.sizes: {message}"]


def test_what_a_range_holds_is_judged_like_a_list(tmp_path):
    assert faults(tmp_path, (SIZES, "sizes = { from = 0, to = 2 }")) == [
        "scale.toml: dims.n.sizes[0]: is 0; a size is at least 1"
    ]


def test_editors_take_ranges_as_specs_do():
    block = spec_schema()["properties"]["space"]["oneOf"][0]["additionalProperties"]

    jsonschema.validate({"from": 32, "to": 1024, "step": 32}, block)
    jsonschema.validate([32, 64], block)
    for wrong in ({"from": 32}, {"from": 32, "to": 64, "setp": 1}, {"from": 1, "to": 2, "factor": 1}, []):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, block)
