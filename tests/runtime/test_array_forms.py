"""What a spec says of arrays beside dtype and shape, at calls."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

import fake_cuda
import sample
from fake_cupy import external
from fake_torch import FakeTorch
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.spec.loader import load_folder

KERNELS = Path(__file__).parents[1] / "data" / "arrays"
SIGNATURES = {"add_scaled": "QQQfq", "double_pairs": "QQq"}
APART = "and it has to be all of x, or to lie apart from it"


@pytest.fixture
def tuned(tmp_path, cuda, load, monkeypatch):
    """The kernels with defaults only, in a package with images that say what they are."""
    made = plan(load_folder(KERNELS), [], {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, tmp_path / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), tmp_path / "pkg" / "tuned")
    for name, codes in SIGNATURES.items():
        monkeypatch.setitem(fake_cuda.SIGNATURES, name, codes)
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return load(tmp_path)


@pytest.fixture
def torch(cuda, monkeypatch):
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.fixture(params=["cupy", "torch", "interface", "dlpack"])
def array(request, cupy, torch, cuda):
    """What makes an array of each library: shape, dtype, address."""

    def make(shape, dtype="float32", address=None):
        if request.param == "cupy":
            return cupy.ndarray(shape, dtype, address=address)
        tensor = torch.Tensor(shape, dtype, address=address)
        if request.param == "torch":
            return tensor
        cuda.addresses[tensor.data_ptr()] = 0
        if request.param == "interface":
            typestr = {"float32": "<f4", "float64": "<f8"}[dtype]
            return external({"shape": tuple(shape), "typestr": typestr, "data": (tensor.data_ptr(), False)})
        return OfDlpack(tensor)

    return make


class OfDlpack:
    """An array that has DLPack alone."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **_options):
        return self.tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def address(array):
    if hasattr(array, "__cuda_array_interface__"):
        return array.__cuda_array_interface__["data"][0]
    if hasattr(array, "data"):
        return array.data.ptr
    return (array.tensor if hasattr(array, "tensor") else array).data_ptr()


# In place.


def test_an_output_may_be_an_input_that_the_spec_allows_by_every_path(tuned, array, cuda):
    x, z, apart = array((1000,)), array((1000,)), array((1000,))
    for _ in range(4):  # from the beginning, then by the fast path, then packed
        for out in (x, z, apart):
            assert tuned.add_scaled(x, z, 2.0, out=out) is out
    addresses = [address(one) for one in (x, z, apart)]
    assert [launch.arguments[0] for launch in cuda.launches] == addresses * 4
    bound = tuned.add_scaled.bind(x, z, 2.0, out=x)
    bound()
    assert cuda.launches[-1].arguments == (addresses[0], *addresses[:2], 2.0, 1000)


@pytest.mark.parametrize("shift", [4, -4, 3996])
def test_an_output_may_not_be_a_part_of_an_input(tuned, array, cuda, shift):
    x, z = array((1000,)), array((1000,))
    tuned.add_scaled(x, z, 2.0, out=x)
    tuned.add_scaled(x, z, 2.0, out=x)
    shifted = array((1000,), address=address(x) + shift)
    cuda.addresses[address(x) + shift] = 0
    for _ in range(3):
        with pytest.raises(ValueError, match=f"^pkg.tuned.add_scaled: out: shares memory with x, {APART}$"):
            tuned.add_scaled(x, z, 2.0, out=shifted)
    assert len(cuda.launches) == 2


def test_the_docstring_says_which_inputs_an_output_may_be(tuned):
    assert "to write; allocated if None; may be x or z." in inspect.getdoc(tuned.add_scaled)


# Addresses.


@pytest.mark.parametrize("shift", [0, 8, 16])
def test_an_address_that_the_kernel_demands_is_taken_by_every_path(tuned, array, cuda, shift):
    base = address(array((2000,)))
    cuda.addresses[base + shift] = 0
    x = array((1000,), address=base + shift)
    for _ in range(4):
        tuned.double_pairs(x)
    assert [launch.arguments[1:] for launch in cuda.launches] == [(base + shift, 1000)] * 4


def test_another_address_is_an_error_by_every_path(tuned, array, cuda):
    x, y = array((1000,)), array((1000,))
    shifted = array((1000,), address=address(array((2000,))) + 12)
    cuda.addresses[address(shifted)] = 0
    for name, given, size in (("x", (shifted, y), "8"), ("y", (x, shifted), "2 * sizeof(float32)")):
        for _ in range(3):
            tuned.double_pairs(x, y=y)
            with pytest.raises(ValueError, match="requires") as caught:
                tuned.double_pairs(given[0], y=given[1])
            demand = f"aligned({name}, {size})"
            assert str(caught.value) == (
                f"pkg.tuned.double_pairs: {name}: requires {demand}, found an address 4 bytes beyond a multiple"
            )
        with pytest.raises(ValueError, match="requires"):
            tuned.double_pairs.bind(given[0], y=given[1])


def test_the_docstring_says_what_the_kernel_demands_of_addresses(tuned):
    assert "Requires aligned(x, 8)." in inspect.getdoc(tuned.double_pairs)
