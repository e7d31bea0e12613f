"""Calls with complex arrays: of PyTorch, CuPy, and by the interface, which names them `<c8`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import fake_cuda
import sample
from fake_cupy import external
from fake_torch import FakeTorch
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.spec.loader import load_folder

KERNELS = Path(__file__).parents[1] / "data" / "complex"


@pytest.fixture
def tuned(tmp_path, cuda, load, monkeypatch):
    made = plan(load_folder(KERNELS), [], {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, tmp_path / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), tmp_path / "pkg" / "tuned")
    monkeypatch.setitem(fake_cuda.SIGNATURES, "rotate", "QQQQi")
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return load(tmp_path)


def test_tensors_are_taken_and_allocated(tuned, cuda, monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    for dtype, real in (("complex64", "float32"), ("complex128", "float64")) * 3:
        x, z = torch.Tensor((4096,), dtype), torch.Tensor((4096,), dtype)
        y, size = tuned.rotate(x, z)
        assert (y.dtype, size.dtype) == (getattr(torch, dtype), getattr(torch, real))
        assert cuda.launches[-1].arguments == (y.data_ptr(), size.data_ptr(), x.data_ptr(), z.data_ptr(), 4096)


@pytest.mark.parametrize(("lazy", "remedy"), [("conjugate", "resolve_conj"), ("negative", "resolve_neg")])
def test_a_lazy_view_is_refused_by_every_path(tuned, cuda, monkeypatch, lazy, remedy):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    x, z, view = (torch.Tensor((4096,), "complex64", address=place << 44) for place in (1, 2, 1))
    view.lazy = lazy
    found = f"expected elements as they lie in memory, found a lazy {lazy}"
    for _ in range(4):
        for name, given in (("x", (view, z)), ("z", (z, view))):
            with pytest.raises(ValueError, match=rf"^pkg\.tuned\.rotate: {name}: {found}; pass {name}\.{remedy}\(\)$"):
                tuned.rotate(*given)
        tuned.rotate(x, z)
        tuned.rotate(z, x)
    assert len(cuda.launches) == 8


def test_arrays_of_cupy_are_taken_and_allocated(tuned, cupy):
    for dtype, real in ((np.complex64, np.float32), (np.complex128, np.float64)) * 3:
        y, size = tuned.rotate(cupy.ndarray((4096,), dtype), cupy.ndarray((4096,), dtype))
        assert (y.dtype, size.dtype) == (dtype, real)


def test_an_interface_names_it(tuned, cuda, cupy):
    def array(typestr, address):
        cuda.addresses[address] = 0
        facts = {"shape": (4096,), "typestr": typestr, "data": (address, False), "version": 3}
        return external(facts)

    y, _ = tuned.rotate(array("<c8", 1 << 44), array("<c8", 1 << 45))
    assert y.dtype == np.complex64
    with pytest.raises(TypeError, match="x: expected dtype complex128 or complex64, found float64"):
        tuned.rotate(array("<f8", 1 << 44), array("<c8", 1 << 45))


def test_another_type_beside_it_is_refused(tuned, cupy):
    with pytest.raises(TypeError, match=r"z: expected dtype complex64 \(T\), found complex128"):
        tuned.rotate(cupy.ndarray((4096,), np.complex64), cupy.ndarray((4096,), np.complex128))
