"""Calls with float8_e4m3fn: tensors of PyTorch, arrays of CuPy by ml_dtypes, and interfaces, which cannot name it."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import fake_cuda
import sample
from fake_cupy import external
from fake_torch import FakeTorch
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.spec.loader import load_folder

KERNELS = Path(__file__).parents[1] / "data" / "float8"


@pytest.fixture
def tuned(tmp_path, cuda, load, monkeypatch):
    """The kernels with defaults only, in a package with images that say what they are."""
    made = plan(load_folder(KERNELS), [], {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, tmp_path / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), tmp_path / "pkg" / "tuned")
    monkeypatch.setitem(fake_cuda.SIGNATURES, "quantise", "QQfi")
    monkeypatch.setitem(fake_cuda.SIGNATURES, "dequantise", "QQfi")
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return load(tmp_path)


def test_tensors_of_it_are_taken_and_allocated(tuned, cuda, monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    for _ in range(3):
        y = tuned.quantise(torch.Tensor((4096,), "float32"), 2.0)
        assert (y.dtype, y.shape) == (torch.float8_e4m3fn, (4096,))
        assert tuned.dequantise(y, 0.5).dtype is torch.float32
    assert [launch.function for launch in cuda.launches] == ["quantise", "dequantise"] * 3


def test_arrays_of_cupy_are_taken_and_allocated_by_ml_dtypes(tuned, cupy):
    for _ in range(3):
        y = tuned.quantise(cupy.ndarray((4096,), np.float32), 2.0)
        assert y.dtype == ml_dtypes.float8_e4m3fn
        assert tuned.dequantise(y, 0.5).dtype == np.float32


def test_an_interface_that_cannot_name_it_is_told_what_to_pass(tuned, cuda, cupy):
    facts = {"shape": (4096,), "typestr": "<V1", "data": (1 << 44, False), "version": 3}
    cuda.addresses[1 << 44] = 0
    with pytest.raises(TypeError) as caught:
        tuned.dequantise(external(facts), 0.5)
    assert str(caught.value) == (
        "pkg.tuned.dequantise: x: expected dtype float16 or float8_e4m3fn or float8_e5m2, found <V1; "
        "__cuda_array_interface__ cannot name this type: pass an array of PyTorch, or of CuPy with ml_dtypes"
    )


def test_without_ml_dtypes_an_output_of_cupy_is_an_error_that_names_it(tuned, cupy, cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch := FakeTorch())
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)  # as where it is not installed
    x = cupy.ndarray((4096,), np.float32)
    with pytest.raises(RuntimeError) as caught:
        tuned.quantise(x, 2.0)
    assert isinstance(caught.value, tuned.PretunedError)
    assert str(caught.value).startswith(
        "pkg.tuned.quantise needs ml_dtypes for a CuPy array of float8_e4m3fn: install ml_dtypes, or pass an array of "
        "PyTorch ("
    )
    y = torch.Tensor((4096,), "float8_e4m3fn")
    for _ in range(3):  # with the output given nothing of it is needed, by the fast path neither
        assert tuned.quantise(x, 2.0, y=y) is y
    assert len(cuda.launches) == 3
