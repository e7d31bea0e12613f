"""Numbers that calls bring: of the arrays' type, of types that Python has no number for, and left out."""

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
from pretuned.compile.parameters import PassedArgument, TakenParameter, mismatch
from pretuned.runtime.types import DTYPES
from pretuned.spec.loader import load_folder

KERNELS = Path(__file__).parents[1] / "data" / "scalars"
ROUNDED = [dtype for dtype in DTYPES.values() if dtype.floating and dtype.size_bytes < 4]
CODES = {"float64": "d", "float32": "f", "float16": "e", "bfloat16": "H", "float8_e5m2": "B", "int32": "i"}


@pytest.fixture
def tuned(tmp_path, cuda, load, monkeypatch):
    made = plan(load_folder(KERNELS), [], {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, tmp_path / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), tmp_path / "pkg" / "tuned")
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return load(tmp_path)


@pytest.fixture
def torch(cuda, monkeypatch):
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def signature(dtype):
    """What the entry point takes: `gain` is a double beside doubles."""
    return f"QQ{CODES[dtype]}I{'d' if dtype == 'float64' else 'f'}Hi"


def stored(dtype, value):
    """A number as the entry point is passed it, as NumPy and ml_dtypes round it."""
    kind = DTYPES[dtype].numpy()
    return struct.unpack(f"={CODES[dtype]}", np.array(value, kind).tobytes())[0]


@pytest.mark.parametrize("dtype", CODES)
def test_a_number_is_packed_as_the_arrays_are(tuned, torch, cuda, monkeypatch, dtype):
    monkeypatch.setitem(fake_cuda.SIGNATURES, "blend", signature(dtype))
    x, y = torch.Tensor((4096,), dtype), torch.Tensor((4096,), dtype)
    for alpha in (3, 3, 3, 3, 5, 5, 5, 7):  # from the beginning, by the fast path, by a packed block
        assert tuned.blend(x, alpha, 9, y=y) is y
        half = stored("bfloat16", 0.1)
        assert cuda.launches[-1].arguments[2:] == (stored(dtype, alpha), 9, 0.5, half, 4096)
    tuned.blend.bind(x, 2, 1, 0.25, -1.0, y=y)()
    assert cuda.launches[-1].arguments[2:] == (stored(dtype, 2), 1, 0.25, stored("bfloat16", -1.0), 4096)


def test_the_types_of_one_kernel_do_not_meet(tuned, torch, cuda, monkeypatch):
    """Arrays of one size and several types in turn, by the fast path: each call packs as its own."""
    for _ in range(4):
        for dtype in CODES:
            monkeypatch.setitem(fake_cuda.SIGNATURES, "blend", signature(dtype))
            tuned.blend(torch.Tensor((4096,), dtype), 2, 9)
            assert cuda.launches[-1].arguments[2] == stored(dtype, 2)


def test_signs_of_zero_and_nan_are_passed(tuned, torch, cuda, monkeypatch):
    monkeypatch.setitem(fake_cuda.SIGNATURES, "blend", signature("bfloat16"))
    x = torch.Tensor((4096,), "bfloat16")
    for _ in range(5):
        for alpha, bits in ((0.0, 0), (-0.0, 0x8000), (float("nan"), 0x7FC0), (float("-inf"), 0xFF80)):
            tuned.blend(x, alpha, 9)
            assert cuda.launches[-1].arguments[2] == bits


@pytest.mark.parametrize(
    ("dtype", "alpha", "message"),
    [
        ("int32", 1.0, "expected int32 (an integer from -2147483648 to 2147483647), found 1.0"),
        ("int32", 2**31, "expected int32 (an integer from -2147483648 to 2147483647), found 2147483648"),
        ("float16", 65520.0, "expected float16 (a number up to 6.6e04), found 65520.0"),
        ("bfloat16", 3.4e38, "expected bfloat16 (a number up to 3.4e38), found 3.4e+38"),
        ("float8_e5m2", 1e6, "expected float8_e5m2 (a number up to 5.7e04), found 1000000.0"),
        ("bfloat16", "1", "expected bfloat16 (a number up to 3.4e38), found '1'"),
        ("float32", None, "expected float32 (a number up to 3.4e38), found None"),
    ],
)
def test_what_the_type_does_not_hold_is_refused_every_time(tuned, torch, cuda, monkeypatch, dtype, alpha, message):
    monkeypatch.setitem(fake_cuda.SIGNATURES, "blend", signature(dtype))
    x = torch.Tensor((4096,), dtype)
    for _ in range(3):
        tuned.blend(x, 1, 9)
        with pytest.raises((TypeError, ValueError)) as caught:
            tuned.blend(x, alpha, 9)
        assert str(caught.value) == f"pkg.tuned.blend: alpha: {message}"


def test_the_signature_has_types_and_defaults(tuned):
    parameters = inspect.signature(tuned.blend).parameters
    assert [str(parameters[name]) for name in ("alpha", "last", "gain", "half")] == [
        "alpha: 'float'",
        "last: 'int'",
        "gain: 'float' = 0.5",
        "half: 'float' = 0.1",
    ]


@pytest.mark.parametrize("dtype", ROUNDED, ids=lambda dtype: dtype.name)
def test_numbers_are_rounded_as_numpy_and_ml_dtypes_round_them(dtype):
    """Every code, what lies midway between two, and its neighbours; what lies beyond is refused."""
    kind, bits = DTYPES[dtype.name].numpy(), np.dtype(dtype.bits)
    codes = np.arange(1 << (8 * dtype.size_bytes - 1)).astype(bits)
    with np.errstate(invalid="ignore"):  # of NaN
        numbers = codes.view(kind).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    middles = (numbers[:-1] + numbers[1:]) / 2
    several = np.concatenate([numbers, middles, np.nextafter(middles, np.inf), np.nextafter(middles, 0.0)])
    several = several[:: max(1, several.size // 20_000)]
    wanted = several.astype(kind).view(bits) if dtype.code == "e" else np.array([_once(dtype, one) for one in several])
    assert [dtype.code_of(float(one)) for one in several] == wanted.tolist()
    assert dtype.code_of(-float(numbers[-1])) == int(np.array(-numbers[-1], kind).view(bits))
    with pytest.raises(OverflowError):
        dtype.code_of(dtype.largest * 1.1)
    assert np.isnan(np.array(dtype.code_of(float("nan")), bits).view(kind).astype(np.float64))


def _once(dtype, value):
    """Return the code that is nearest to a number, the even one of two: ml_dtypes rounds twice, by float32 first."""
    kind, code = dtype.numpy(), int(np.array(value, dtype.numpy()).view(dtype.bits))
    around = np.arange(max(code - 1, 0), code + 2).astype(dtype.bits)
    near = [
        (abs(float(number) - value), int(code) & 1, int(code))
        for code, number in zip(around, around.view(kind), strict=True)
    ]
    return min(one for one in near if np.isfinite(one[0]))[2]


def test_a_parameter_of_another_class_of_its_size_is_refused():
    taken, passed = TakenParameter(kind="float16", bits=16), PassedArgument(name="a", dtype="bfloat16", array=False)
    assert mismatch("f", [taken], [passed]) == "f takes 'a' as float16; the spec has bfloat16"
    assert mismatch("f", [TakenParameter(kind="bfloat16", bits=16)], [passed]) is None
