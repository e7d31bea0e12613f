"""Complex numbers by value: packed by every path of a call, told apart by their bits, and what is wrong with one."""

from __future__ import annotations

import inspect
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import fake_cuda
import sample
from fake_torch import FakeTorch
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.runtime.types import DTYPES
from pretuned.spec.loader import load_folder

KERNELS = Path(__file__).parents[1] / "data" / "complex_scalars"
CODES = {"complex64": "8s", "complex128": "16s", "float32": "f"}
NAN, INF = float("nan"), float("inf")


@pytest.fixture(params=["1", "0"], ids=["fast path", "slow path"])
def tuned(request, tmp_path, cuda, load, monkeypatch):
    made = plan(load_folder(KERNELS), [], {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, tmp_path / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), tmp_path / "pkg" / "tuned")
    monkeypatch.setenv("PRETUNED_WARN", "0")
    monkeypatch.setenv("PRETUNED_FAST_PATH", request.param)
    return load(tmp_path)


@pytest.fixture
def torch(cuda, monkeypatch):
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def signature(monkeypatch, dtype):
    monkeypatch.setitem(fake_cuda.SIGNATURES, "spin", ("Q", "Q", CODES[dtype], "i", "16s"))
    monkeypatch.setitem(fake_cuda.SIGNATURES, "stretch", ("Q", "Q", CODES[dtype], "i"))


def stored(dtype, value):
    value = complex(value)
    return struct.pack("=2f" if dtype == "complex64" else "=2d", value.real, value.imag)


VALUES = (0.5 - 1.25j, 0.5 - 1.25j, 0.5 - 1.25j, 0.5 - 1.25j, 3, 3, 3, 3, 2.5, 2.5, 2.5, np.complex64(1j), True)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_number_is_packed_as_the_arrays_are(tuned, torch, cuda, monkeypatch, dtype):
    signature(monkeypatch, dtype)
    x, y = torch.Tensor((4096,), dtype), torch.Tensor((4096,), dtype)
    for alpha in VALUES:
        assert tuned.spin(x, alpha, y=y) is y
        assert cuda.launches[-1].arguments == (
            *(y.data_ptr(), x.data_ptr(), stored(dtype, alpha), 4096, stored("complex128", 1 - 2j)),
        )
        tuned.spin(x, 1j, alpha, y=y)
        assert cuda.launches[-1].arguments[4] == stored("complex128", alpha)
    tuned.spin.bind(x, 1j, 2, y=y)()
    assert cuda.launches[-1].arguments[2:] == (stored(dtype, 1j), 4096, stored("complex128", 2))


def test_bits_that_compare_equal_are_not_mixed_up(tuned, torch, cuda, monkeypatch):
    signature(monkeypatch, "complex64")
    x, y = torch.Tensor((4096,), "complex64"), torch.Tensor((4096,), "complex64")
    alike = [complex(re, im) for re in (0.0, -0.0, 1.0) for im in (0.0, -0.0)] + [1.0, complex(NAN, INF), -0.0, 0]
    for _ in range(5):
        for alpha in alike:
            for kernel in (tuned.spin, tuned.stretch):
                kernel(x, alpha, y=y)
                assert cuda.launches[-1].arguments[2] == stored("complex64", alpha)


def test_real_and_complex_arrays_in_turn(tuned, torch, cuda, monkeypatch):
    for _ in range(5):
        for dtype in ("complex64", "float32"):
            signature(monkeypatch, dtype)
            x = torch.Tensor((4096,), dtype)
            for alpha in (1.5, 2, -0.0, 0.0):
                tuned.stretch(x, alpha)
                found = cuda.launches[-1].arguments[2]
                assert struct.pack("=f", found) if dtype == "float32" else found == stored(dtype, alpha)
        with pytest.raises(TypeError, match=r"alpha: expected float32 \(a number up to 3\.4e38\), found 1j$"):
            tuned.stretch(x, 1j)


WORDS = "a complex number of parts up to"
BAD = {
    "a text": ("1+2j", "complex64", f"expected complex64 ({WORDS} 3.4e38), found '1+2j'"),
    "bytes": (b"12345678", "complex64", f"expected complex64 ({WORDS} 3.4e38), found b'12345678'"),
    "None": (None, "complex128", f"expected complex128 ({WORDS} 1.8e308), found None"),
    "a pair": ((1.0, 2.0), "complex128", f"expected complex128 ({WORDS} 1.8e308), found (1.0, 2.0)"),
    "a part too large": (1e39j, "complex64", f"expected complex64 ({WORDS} 3.4e38), found 1e+39j"),
    "an integer too large": (10**400, "complex128", f"expected complex128 ({WORDS} 1.8e308), found "),
}


@pytest.mark.parametrize(("alpha", "dtype", "message"), BAD.values(), ids=BAD)
def test_what_the_type_does_not_hold_is_refused_every_time(tuned, torch, cuda, monkeypatch, alpha, dtype, message):
    signature(monkeypatch, dtype)
    x = torch.Tensor((4096,), dtype)
    for _ in range(4):
        tuned.spin(x, 1j)
        with pytest.raises((TypeError, ValueError)) as caught:
            tuned.spin(x, alpha)
        assert str(caught.value).startswith(f"pkg.tuned.spin: alpha: {message}")
    assert len(cuda.launches) == 4


def test_an_array_on_the_gpu_is_not_read(tuned, torch, monkeypatch):
    signature(monkeypatch, "complex64")
    x = torch.Tensor((4096,), "complex64")
    for _ in range(4):
        tuned.spin(x, 1j)
        with pytest.raises(TypeError, match=r"alpha: expected a number, found an array on the GPU; pass alpha\.item\("):
            tuned.spin(x, torch.Tensor((), "complex64"))


def test_the_signature(tuned):
    parameters = inspect.signature(tuned.spin).parameters
    assert [str(parameters[name]) for name in ("alpha", "shift")] == ["alpha: 'complex'", "shift: 'complex' = (1-2j)"]
    assert str(inspect.signature(tuned.stretch).parameters["alpha"]) == "alpha: 'complex'"
    assert "Complex number, passed as complex128." in tuned.spin.__doc__


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_bytes_are_those_of_numpy(dtype):
    for value in (1 + 2j, 1e-40 - 0.1j, complex(NAN, -INF), np.complex64(0.1 + 3j), 7, True, np.float32(0.1)):
        assert DTYPES[dtype].packed(value) == np.array(value).astype(dtype).tobytes()
