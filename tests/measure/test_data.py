"""Inputs and references on the host."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pretuned.measure import data
from pretuned.spec.loader import load
from pretuned.spec.space import Problem, all_problems
from specs import SCALE, loaded, write

PROBLEM = Problem(specialisation=(("T", "float16"),), dims=(("n", 1000),))


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


def with_reference(spec, text):
    (spec.folder / "reference.py").write_text(text)
    return spec


def test_bfloat16_is_rounded_as_ml_dtypes_does():
    generator = np.random.default_rng(0)
    bits = generator.integers(0, 2**32, 100_000, dtype=np.uint32)
    bits[:1000] = (bits[:1000] & np.uint32(0xFFFF0000)) | np.uint32(0x8000)  # ties
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        wanted = values.astype(ml_dtypes.bfloat16)
    assert np.array_equal(data.encode(values, "bfloat16"), wanted.view(np.uint16))
    assert np.array_equal(data.decode(wanted.view(np.uint16), "bfloat16"), wanted.astype(np.float64))


def test_the_same_seed_gives_the_same_inputs_and_another_others(spec):
    first, again, other = (data.inputs(spec, PROBLEM, seed)["x"].full for seed in (0, 0, 1))
    assert first.dtype == np.float16
    assert first.shape == (1000,)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_large_inputs_repeat_a_block(spec, monkeypatch):
    monkeypatch.setattr(data, "BLOCK", 7)
    x = data.inputs(spec, PROBLEM, 0)["x"]
    assert x.block.size == 7
    assert np.array_equal(x.full, np.tile(x.block, 143)[:1000])


def test_a_reference_gets_float64_and_names(spec):
    with_reference(
        spec,
        "def scale(x, a, n, T, **_):\n"
        "    assert (str(x.dtype), n, T) == ('float64', 1000, 'float16')\n"
        "    return a * x\n",
    )
    stored = data.inputs(spec, PROBLEM, 0)
    assert np.array_equal(data.reference(spec, PROBLEM, stored)["y"], 2.0 * stored["x"].full.astype(np.float64))


OWN = """
import numpy

def scale(x, **_):
    return x

def make(generator, n, **_):
    return {"x": numpy.arange(n) % 3}

"""


def test_inputs_of_the_specs_own(tmp_path):
    own = SCALE.replace("[verify]\n", '[verify]\ninputs = "reference.py:make"\n')
    file = write(tmp_path, own)
    (tmp_path / "reference.py").write_text(OWN)
    spec = load(file)
    assert data.inputs(spec, PROBLEM, 0)["x"].full[:4].tolist() == [0, 1, 2, 0]


def test_what_a_reference_returns_for_an_array_that_is_left_out_is_ignored():
    spec = load(Path(__file__).parents[1] / "data" / "arrays" / "accumulated.toml")
    for problem in all_problems(spec):
        stored = data.inputs(spec, problem, 1)
        there = dict(problem.specialisation)["has_total"]
        assert set(data.reference(spec, problem, stored)) == ({"y", "total"} if there else {"y"})
