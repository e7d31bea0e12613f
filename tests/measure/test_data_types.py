"""Inputs of every element type, and names and values that a reference may meet."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pretuned.measure import data
from pretuned.measure.data import FunctionError
from pretuned.runtime.types import DTYPES
from pretuned.spec.space import Problem
from specs import SCALE, edited, loaded

INTEGERS = edited(
    SCALE,
    ('name = "x", role = "in"', 'name = "x", role = "inout"'),
    ('["float32", "float16"]', '["int32"]'),
    ("rtol = { float32 = 1e-5, float16 = 2e-3 }", ""),
)


def problem(dtype="float32", n=100):
    return Problem(specialisation=(("T", dtype),), dims=(("n", n),))


def with_reference(spec, text):
    (spec.folder / "reference.py").write_text(text, encoding="utf-8")
    return spec


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_inputs_of_every_type_vary_and_come_in_its_storage(tmp_path, dtype):
    spec = loaded(tmp_path, ('{ dtypes = ["float32", "float16"] }', f'{{ dtypes = ["{dtype}"] }}'))
    x = data.inputs(spec, problem(dtype), 0)["x"].full
    assert x.dtype == data.storage(dtype)
    assert x.nbytes == 100 * DTYPES[dtype].size_bytes
    assert len(np.unique(x)) > (1 if dtype == "bool" else 5)
    decoded = data.decode(x, dtype)
    assert decoded.dtype == np.dtype(DTYPES[dtype].wide)
    assert np.array_equal(data.encode(decoded, dtype), x)


@pytest.mark.parametrize(("fill", "low", "high"), [("ones", 1, 1), ("uniform", 0, 1), ("integers", -8, 8)])
def test_fills(tmp_path, fill, low, high):
    spec = loaded(tmp_path, ('name = "x", role = "in"', f'name = "x", role = "in", fill = "{fill}"'))
    x = data.inputs(spec, problem(), 0)["x"].full
    assert low <= x.min() <= x.max() <= high
    assert fill != "integers" or np.array_equal(x, np.round(x))


def filled(folder, dtype, fill, *edits):
    """Return what the first input of this dtype and fill holds at n = 100."""
    types = f'{{ dtypes = ["{dtype}"] }}'
    spec = loaded(folder, ('{ dtypes = ["float32", "float16"] }', types), ('role = "in"', f'role = "in"{fill}'), *edits)
    return data.inputs(spec, problem(dtype), 0)["x"].full


@pytest.mark.parametrize(
    ("dtype", "fill", "values"),
    [
        ("uint8", "", range(256)),  # bytes: pixels, characters, masks
        ("uint8", ', fill = "integers"', range(9)),
        ("int8", "", range(-8, 9)),
        ("uint16", "", range(9)),
        ("int32", ', fill = { from = 0, to = "n - 1" }', range(100)),
        ("int8", ", fill = { from = -128, to = 127 }", range(-128, 128)),
        ("int64", ', fill = { from = "-n", to = "-n + 1" }', (-100, -99)),
        ("uint64", ", fill = { from = 5, to = 5 }", (5,)),
    ],
)
def test_integers_are_drawn_from_their_whole_range(tmp_path, dtype, fill, values):
    spec_of_all = filled(tmp_path, dtype, fill)
    assert set(spec_of_all.tolist()) <= set(values)
    assert len(set(spec_of_all.tolist())) >= min(len(values), 5)
    assert spec_of_all.dtype == np.dtype(dtype)


def test_both_ends_of_a_range_are_drawn(tmp_path):
    x = filled(tmp_path, "int32", ", fill = { from = 3, to = 6 }")
    assert set(x.tolist()) == {3, 4, 5, 6}
    x = filled(tmp_path, "float32", ", fill = { from = -0.5, to = 2 }")
    assert -0.5 <= x.min() < 0
    assert 1.9 < x.max() <= 2


@pytest.mark.parametrize(
    ("dtype", "fill", "message"),
    [
        (
            "int32",
            '{ from = 0, to = "n - 101" }',
            ("the fill of 'x' goes from 0 to -1, which is no value; say in `requires` which sizes the kernel takes"),
        ),
        (
            "int8",
            '{ from = 0, to = "n + 50" }',
            "the fill of 'x' goes from 0 to 150; int8 is an integer from -128 to 127",
        ),
        ("int32", '{ from = 0, to = "9 // (n - 100)" }', "the fill of 'x' cannot be worked out: '9 // (n - 100)' "),
    ],
)
def test_a_fill_without_a_value_at_a_problem_is_an_error(tmp_path, dtype, fill, message):
    with pytest.raises(FunctionError) as error:
        filled(tmp_path, dtype, f", fill = {fill}")
    assert str(error.value).startswith(message)


def test_other_problems_have_other_inputs(tmp_path):
    spec = loaded(tmp_path)
    one, other = (data.inputs(spec, problem(n=n), 0)["x"].full for n in (100, 101))
    assert not np.array_equal(one, other[:100])


def test_a_problem_of_size_zero(tmp_path):
    spec = loaded(tmp_path)
    stored = data.inputs(spec, problem(n=0), 0)
    assert stored["x"].full.shape == (0,)
    assert data.reference(spec, problem(n=0), stored)["y"].shape == (0,)


CODED = pytest.mark.parametrize("dtype", [name for name, record in DTYPES.items() if record.storage != name])


@CODED
def test_every_code_is_the_number_of_ml_dtypes(dtype):
    codes = np.arange(1 << 8 * DTYPES[dtype].size_bytes).astype(DTYPES[dtype].bits)
    with np.errstate(invalid="ignore"):  # NumPy remarks on signalling NaNs
        wanted = codes.view(getattr(ml_dtypes, dtype)).astype(np.float64)
    found = data.decode(codes, dtype)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(found[found == 0]), np.signbit(wanted[wanted == 0]))


@CODED
def test_numbers_round_as_those_of_ml_dtypes(dtype):
    """Floats of every exponent and both neighbours of each, infinities, NaNs and zeros of both signs among them."""
    bits = np.arange(0, 1 << 32, 1 << 14, dtype=np.int64)
    values = np.concatenate([(bits + beside) % (1 << 32) for beside in (-1, 0, 1)]).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        wanted = values.astype(getattr(ml_dtypes, dtype)).view(DTYPES[dtype].bits)
    found = data.encode(values, dtype)
    assert found.dtype == wanted.dtype
    assert np.array_equal(found[~np.isnan(values)], wanted[~np.isnan(values)])
    assert np.isnan(data.decode(found[np.isnan(values)], dtype)).all()


@CODED
def test_doubles_are_rounded_once(dtype):
    numbers = np.unique(data.decode(np.arange(1 << 7, dtype=DTYPES[dtype].bits), dtype))
    numbers = numbers[np.isfinite(numbers)]
    midway = (numbers[1:] + numbers[:-1]) / 2
    assert np.array_equal(data.decode(data.encode(np.nextafter(midway, np.inf), dtype), dtype), numbers[1:])
    assert np.array_equal(data.decode(data.encode(np.nextafter(midway, 0), dtype), dtype), numbers[:-1])


def test_an_argument_may_be_called_target_or_spec(tmp_path):
    (tmp_path / "own.py").write_text("def scale(target, spec, **_):\n    return spec * target\n")
    renamed = ('name = "x"', 'name = "target"'), ('name = "a"', 'name = "spec"'), ("reference.py:", "own.py:")
    spec = loaded(tmp_path, *renamed)
    stored = data.inputs(spec, problem(), 0)
    assert np.array_equal(data.reference(spec, problem(), stored)["y"], 2.0 * stored["target"].full.astype(np.float64))


def test_a_reference_may_work_in_place_and_answers_for_every_output(tmp_path):
    spec = loaded(tmp_path, toml=INTEGERS)
    stored = data.inputs(spec, problem("int32"), 0)
    before = stored["x"].full.copy()
    with_reference(spec, "def scale(x, **_):\n    x += 1\n    return {'x': x, 'y': 2 * x}\n")

    found = data.reference(spec, problem("int32"), stored)

    assert np.array_equal(stored["x"].full, before)
    assert np.array_equal(found["x"], before + 1)
    assert np.array_equal(found["y"], 2 * (before + 1))
    assert found["y"].dtype == np.int32


def test_a_spec_without_reference_has_none(tmp_path):
    spec = loaded(tmp_path, ('reference = "reference.py:scale"\n', ""))
    assert data.reference(spec, problem(), data.inputs(spec, problem(), 0)) is None
