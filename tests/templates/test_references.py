"""What the bundled kernels are compared with: the references at their edges, and inputs that float32 sums exactly."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from kernel_folders import bundled, specs_in
from pretuned.measure.data import inputs
from pretuned.measure.data import reference as referred
from pretuned.measure.references import small_problem
from pretuned.spec import space

TEMPLATES = Path(__file__).parents[2] / "templates"
INF, NAN = float("inf"), float("nan")


@pytest.fixture(scope="module")
def reference():
    found = importlib.util.spec_from_file_location("bundled_reference", TEMPLATES / "reference.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


EXAMPLES = {file.parent for file in (TEMPLATES.parent / "examples").rglob("*.toml") if file.name != "pyproject.toml"}


@pytest.mark.parametrize("folder", sorted({TEMPLATES, *EXAMPLES}), ids=lambda folder: folder.parent.name)
def test_references_are_more_precise_than_what_they_judge(folder):
    remarks = []
    for spec in specs_in(folder).values():
        problem = small_problem(spec, next(iter(space.all_problems(spec))))
        referred(spec, problem, inputs(spec, problem, 1), remarks.append)
    assert remarks == []


def test_softmax_of_known_rows(reference):
    rows = np.log([[1.0, 1.0, 2.0], [3.0, 1.0, 0.5]])
    np.testing.assert_allclose(reference.row_softmax(rows), [[0.25, 0.25, 0.5], [6 / 9, 2 / 9, 1 / 9]])


def test_softmax_does_not_overflow(reference):
    np.testing.assert_allclose(reference.row_softmax(np.array([[1e4, 1e4], [-1e4, -1e4]])), 0.5)


def test_minus_infinity_has_no_weight(reference):
    assert reference.row_softmax(np.array([[-INF, 2.0, -INF]])).tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize("row", [[-INF, -INF], [NAN, 1.0], [INF, 1.0]], ids=str)
def test_rows_without_a_softmax_are_nan(reference, row):
    assert np.isnan(reference.row_softmax(np.array([row]))).all()


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_softmax_of_nothing(reference, shape):
    assert reference.row_softmax(np.zeros(shape)).shape == shape


def test_sum_of_nothing_is_zero(reference):
    assert reference.reduce_sum(np.zeros(0)).tolist() == [0.0]


@pytest.mark.parametrize("row", [[1.0, 3.0, 3.0, 2.0], [-INF] * 3, [0.0, NAN, INF, NAN]], ids=str)
def test_the_largest_element_and_its_place(reference, row):
    place = next((i for i, value in enumerate(row) if np.isnan(value)), row.index(max(row)))
    assert reference.row_argmax(np.array([row])).tolist() == [place]
    np.testing.assert_array_equal(reference.row_max(np.array([row])), [row[place]])


def test_inputs_of_the_sum_are_exact_in_a_random_order():
    spec = bundled()["reduce_sum"]
    for problem in space.problems(spec, (("T", "float16"),)):  # other types draw alike
        drawn = inputs(spec, problem, seed=0)["x"].full
        x = drawn.astype(np.int8)  # 64 million of which are mixed several times faster than as they are
        assert (x == drawn).all()
        drift = np.abs(np.cumsum(np.random.default_rng(0).permutation(x), dtype=np.int64)).max()
        assert 0 < drift < 2**24


@pytest.mark.parametrize(
    ("row", "wanted"), [([NAN, 1.0], [NAN, NAN]), ([INF, 1.0], [NAN, 0.0]), ([0, 0], [0, 0])], ids=str
)
def test_rms_norm_of_special_rows(reference, row, wanted):
    np.testing.assert_equal(reference.rms_norm(np.array([row]), np.ones(2), 1e-6)[0], wanted)


def test_8_bits_of_zeros_have_no_scale(reference):
    found = reference.rms_norm_fp8(np.zeros((1, 3)), np.ones(3), 1e-6)
    assert found["scale"].tolist() == [0.0]
    assert found["out"].tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("row", [[NAN, 1.0], [INF, 1.0]], ids=str)
def test_layer_norm_of_special_rows_is_nan(reference, row):
    assert np.isnan(reference.layer_norm(np.array([row]), np.ones(2), np.zeros(2), 1e-5)).all()


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_gradients_of_norms_are_their_slopes(reference, name):
    draw = np.random.default_rng(0)
    arrays = {"x": draw.normal(size=(3, 5)), "weight": draw.normal(size=5), "bias": draw.normal(size=5)}
    grad = draw.normal(size=(3, 5))
    found = getattr(reference, f"{name}_backward")(grad_out=grad, eps=0.01, **arrays)
    for argument in ("x", "weight", "bias")[: 3 if name == "layer_norm" else 2]:
        step = draw.normal(size=arrays[argument].shape)
        ends = [
            (
                grad * getattr(reference, name)(eps=0.01, **arrays | {argument: arrays[argument] + sign * 1e-6 * step})
            ).sum()
            for sign in (1, -1)
        ]
        np.testing.assert_allclose((found[f"grad_{argument}"] * step).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
