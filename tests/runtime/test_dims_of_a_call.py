"""Dims that no input's extent is alone: solved for, told by an output that is given, or a keyword of the call."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

import fake_cuda
import sample
from fake_torch import FakeTorch
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.spec.loader import load_folder

KERNELS = Path(__file__).parents[1] / "data" / "shapes"
SIGNATURES = {
    "silu_and_mul": "QQi",
    "row_sums": "QQQi",
    "topk_softmax": "QQQii",
    "ramp": "Qiq",
    "repeated": "QQii",
    "halves": "QQQiiB?f",
}


@pytest.fixture(scope="module")
def baked(tmp_path_factory):
    """The kernels with defaults only, in a package with images that say what they are."""
    folder = tmp_path_factory.mktemp("shapes")
    made = plan(load_folder(KERNELS), [], {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), folder / "pkg" / "tuned")
    return folder


@pytest.fixture
def tuned(baked, cupy, load, monkeypatch):
    for name, signature in SIGNATURES.items():
        monkeypatch.setitem(fake_cuda.SIGNATURES, name, signature)
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return load(baked)


def test_an_extent_is_solved_for_its_dim(tuned, cupy, cuda):
    for columns in (6, 10, 6, 10, 6, 10, 0):  # from the fifth on by the fast path
        out = tuned.silu_and_mul(cupy.ndarray((4, columns), "float32"))
        assert out.shape == (4, columns // 2)
        if columns:
            assert (cuda.launches[-1].grid, cuda.launches[-1].arguments[2]) == ((4, 1, 1), columns // 2)
    for n in (5, 5, 5):
        y = tuned.row_sums(cupy.ndarray((n + 1,), "int32"), cupy.ndarray((77,), "float32"))
        assert y.shape == (n,)
        assert cuda.launches[-1].arguments[3] == n


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4, 7), "silu_and_mul: x: expected 2 * d elements along axis 1, a multiple of 2, found 7: (4, 7)"),
        ((4, 7, 1), "silu_and_mul: x: expected 2 dimensions (n, 2 * d), found 3: (4, 7, 1)"),
    ],
)
def test_an_extent_without_a_solution_is_named(tuned, cupy, shape, message):
    for _ in range(2):
        with pytest.raises(ValueError, match="expected") as caught:
            tuned.silu_and_mul(cupy.ndarray(shape, "float32"))
        assert str(caught.value) == f"pkg.tuned.{message}"


def test_a_negative_dim_is_none(tuned, cupy):
    with pytest.raises(ValueError, match="expected") as caught:
        tuned.row_sums(cupy.ndarray((0,), "int32"), cupy.ndarray((7,), "float32"))
    assert str(caught.value) == (
        "pkg.tuned.row_sums: offsets: expected n + 1 elements along axis 0, at least 1, found 0: (0,)"
    )


def test_a_keyword_is_a_dim_and_shapes_follow_from_it(tuned, cupy, cuda):
    logits = cupy.ndarray((5, 8), "float32")
    for topk in (2, 3, np.int64(3), 2, 3, 2, 0):
        weights, ids = tuned.topk_softmax(logits, topk=topk)
        assert (weights.shape, ids.shape) == ((5, topk), (5, topk))
        assert (weights.dtype, ids.dtype) == ("float32", "int32")
        assert cuda.launches[-1].arguments[3:] == (5, topk)
    given = cupy.ndarray((5, 4), "int32")
    assert tuned.topk_softmax(logits, topk=4, ids=given)[1] is given


@pytest.mark.parametrize(
    ("topk", "message"),
    [
        (-1, "topk: expected an integer from 0 on, found -1"),
        (True, "topk: expected an integer from 0 on, found True"),
        (2.0, "topk: expected an integer from 0 on, found 2.0"),
        (None, "topk: expected an integer from 0 on, found None"),
        ("2", "topk: expected an integer from 0 on, found '2'"),
        (9, "requires topk <= experts, found experts=8 of logits, topk=9"),
        (2**40, "requires topk <= experts, found experts=8 of logits, topk=1099511627776"),
    ],
)
def test_a_keyword_that_is_no_size_is_refused_by_every_path(tuned, cupy, topk, message):
    logits = cupy.ndarray((5, 8), "float32")
    for good in (1, 2):  # both are in the fast path, and 1 == True, 2 == 2.0
        for _ in range(3):
            tuned.topk_softmax(logits, topk=good)
    with pytest.raises(ValueError, match="found") as caught:
        tuned.topk_softmax(logits, topk=topk)
    assert str(caught.value) == f"pkg.tuned.topk_softmax: {message}"


def test_a_keyword_on_the_gpu_is_not_read(tuned, cupy):
    with pytest.raises(ValueError, match="expected") as caught:
        tuned.topk_softmax(cupy.ndarray((5, 8), "float32"), topk=cupy.ndarray((), "int64"))
    assert str(caught.value) == (
        "pkg.tuned.topk_softmax: topk: expected an integer from 0 on, found an array on the GPU"
    )


def test_an_output_that_does_not_fit_the_keyword_is_refused(tuned, cupy):
    with pytest.raises(ValueError, match="expected shape") as caught:
        tuned.topk_softmax(cupy.ndarray((5, 8), "float32"), topk=2, ids=cupy.ndarray((5, 3), "int32"))
    assert str(caught.value) == ("pkg.tuned.topk_softmax: ids: expected shape (n, topk) = (5, 2), found (5, 3)")


def test_an_output_that_tells_a_dim_has_to_be_given(tuned, cupy, cuda):
    for n in (10, 10, 11, 10, 11, 11):
        y = cupy.ndarray((n,), "int32")
        assert tuned.ramp(7, y=y) is y
        assert cuda.launches[-1].arguments == (y.data.ptr, 7, n)
    assert cupy.allocated == []
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'y'"):
        tuned.ramp(7)
    with pytest.raises(TypeError, match="expected an array") as caught:
        tuned.ramp(7, y=None)
    assert str(caught.value) == "pkg.tuned.ramp: y: expected an array, whose shape gives n, found None"


def test_a_specialisation_by_value_is_in_shapes(tuned, cupy, cuda):
    x = cupy.ndarray((6,), "float32")
    for times in (2, 3, 2, 3, 2, 3):
        assert tuned.repeated(x, times=times).shape == (6 * times,)
        assert cuda.launches[-1].arguments[2:] == (6, times)
    with pytest.raises(ValueError, match="expected shape") as caught:
        tuned.repeated(x, times=3, y=cupy.ndarray((12,), "float32"))
    assert str(caught.value) == "pkg.tuned.repeated: y: expected shape (n * times,) = (18,), found (12,)"


def test_signatures_say_what_a_call_brings(tuned):
    assert (
        str(inspect.signature(tuned.ramp))
        == "(start: 'int', *, y: 'GpuArray', stream: 'Stream | None' = None) -> 'GpuArray'"
    )
    assert list(inspect.signature(tuned.topk_softmax).parameters) == ["logits", "topk", "weights", "ids", "stream"]
    assert inspect.signature(tuned.topk_softmax).parameters["topk"].annotation == "int"
    assert "y: Array of int32 with shape (n,) to write; its shape gives n." in tuned.ramp.__doc__
    assert "topk: Size, an integer from 0 on." in tuned.topk_softmax.__doc__


def test_bound_calls_prepare_and_explain_know_such_dims(tuned, cupy, cuda):
    logits = cupy.ndarray((5, 8), "float32")
    tuned.prepare()
    bound = tuned.topk_softmax.bind(logits, topk=3)
    assert [one.shape for one in bound()] == [(5, 3), (5, 3)]
    assert cuda.launches[-1].arguments[3:] == (5, 3)
    assert "topk_softmax(experts=8, n=5, topk=3)" in str(tuned.explain("topk_softmax", n=5, topk=3, experts=8))
    with pytest.raises(TypeError, match="explain needs topk"):
        tuned.explain("topk_softmax", n=5, experts=8)


def test_tensors_of_pytorch(tuned, cuda, monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    for _ in range(3):
        assert tuned.silu_and_mul(torch.Tensor((4, 6), "float32")).shape == (4, 3)
        assert [one.shape for one in tuned.topk_softmax(torch.Tensor((4, 8), "float32"), topk=3)] == [(4, 3), (4, 3)]
        y = torch.Tensor((12,), "int32")
        assert tuned.ramp(1, y=y) is y


def halves(tuned, cupy, n, columns, dtype="float32"):
    x, rest = cupy.ndarray((n, columns), dtype), cupy.ndarray((n, columns % 2 + 1), dtype)
    return tuned.halves(x, rest)


def test_derived_names_are_passed_and_decide_shapes_and_launches(tuned, cupy, cuda):
    for columns in (101, 128, 101, 128, 101, 128):  # from the fifth on by the fast path
        d = columns // 2
        assert halves(tuned, cupy, 5, columns).shape == (5, d)
        launch = cuda.launches[-1]
        tiles = -(-d // 32)
        assert (launch.grid, launch.block, launch.shared_bytes) == ((tiles, 5, 1), (32, 1, 1), 128)
        assert launch.arguments[3:] == (columns, d, tiles, d % 32 != 0, float(d))


def test_a_derived_argument_that_its_type_does_not_hold_refuses_a_configuration(tuned, cupy):
    said = "pkg.tuned.halves: no configuration can run this call (columns=32768, n=2): passed over block=32, vec=1: "
    said += "its argument 'tiles' is 512, and uint8 is an integer from 0 to 255"
    with pytest.raises(ValueError, match="no configuration") as caught:
        halves(tuned, cupy, 2, 32768)
    assert str(caught.value) == said


def test_what_a_call_passes_derived_is_no_parameter_of_the_function(tuned):
    assert list(inspect.signature(tuned.halves).parameters) == ["x", "rest", "y", "stream"]
    assert "y: Array of T with shape (n, columns // 2) to write" in tuned.halves.__doc__
