"""An array library that the package does not know is added by one file, with a fast path and without."""

import itertools
import math
import sys
import types
from contextlib import contextmanager

import pytest

from tensorbox_adapter import FastTensorBox, TensorBox, add_to


@pytest.fixture
def tensorbox(cuda, monkeypatch):
    """A library whose arrays are addresses."""
    addresses = itertools.count(1 << 42, 1 << 30)
    module = types.ModuleType("tensorbox")

    class Box:
        def __init__(self, shape, dtype, device=0):
            self.shape, self.dtype, self.device, self.frozen = shape, sys.intern(dtype), device, False
            self.address, self.nbytes = next(addresses), math.prod(shape) * {"float32": 4, "uint8": 1}[dtype]

    @contextmanager
    def device(_ordinal):
        yield

    module.Box, module.device = Box, device
    module.current_stream, module.current_device = lambda _ordinal: 31, lambda: 0
    monkeypatch.setitem(sys.modules, "tensorbox", module)
    for name in ("cupy", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    return module


def called(tuned, cuda, x, **options):
    y = tuned.affine(x, 2.0, relu=False, **options)
    launch = cuda.launches[-1]
    assert launch.arguments == (y.address, x.address, 2.0, 16, 1024)
    return y, launch.stream


@pytest.mark.parametrize("adapter", [TensorBox, FastTensorBox])
def test_its_arrays_are_passed_allocated_and_launched_on_its_stream(load, baked, tensorbox, cuda, adapter):
    tuned = load(baked)
    add_to("pkg.tuned", adapter)
    given = tensorbox.Box((16, 1024), "float32")
    for _ in range(4):
        x = tensorbox.Box((16, 1024), "float32")
        y, stream = called(tuned, cuda, x)
        assert isinstance(y, tensorbox.Box)
        assert stream == 31
        assert called(tuned, cuda, x, y=given, stream=7) == (given, 7)
    with pytest.raises(TypeError, match="x: expected dtype float16 or float32, found uint8"):
        tuned.affine(tensorbox.Box((16, 1024), "uint8"), 2.0, relu=False)
    given.frozen = True
    with pytest.raises(ValueError, match=r"pkg\.tuned\.affine: y: is frozen"):
        called(tuned, cuda, tensorbox.Box((16, 1024), "float32"), y=given)


@pytest.mark.parametrize(("adapter", "slow"), [(TensorBox, 6), (FastTensorBox, 2)])
@pytest.mark.usefixtures("fast_path")
def test_calls_that_come_again_take_the_fast_path_that_it_describes(
    load, baked, tensorbox, cuda, monkeypatch, adapter, slow
):
    del cuda.devices[1:]
    tuned = load(baked)
    add_to("pkg.tuned", adapter)
    calls = sys.modules.get("pkg.tuned._runtime.calls") or __import__("pkg.tuned._runtime.calls", fromlist=["calls"])
    counted, whole = [], calls.Caller.slow
    monkeypatch.setattr(calls.Caller, "slow", lambda self, *call: counted.append(1) or whole(self, *call))
    for _ in range(6):
        called(tuned, cuda, tensorbox.Box((16, 1024), "float32"))
    assert len(counted) == slow


@pytest.mark.usefixtures("fast_path")
def test_an_adapter_that_comes_after_calls_counts_for_the_next_one(load, baked, tensorbox, cuda):
    """Also where an earlier one of the library has a fast path."""
    del cuda.devices[1:]
    tuned = load(baked)
    add_to("pkg.tuned", FastTensorBox)
    for _ in range(4):
        called(tuned, cuda, tensorbox.Box((16, 1024), "float32"))

    class Elsewhere(FastTensorBox):
        def current_stream(self, device):
            return 77

        def expressions(self):
            return None

    add_to("pkg.tuned", Elsewhere)
    assert called(tuned, cuda, tensorbox.Box((16, 1024), "float32"))[1] == 77


def test_without_its_adapter_its_arrays_are_refused(load, baked, tensorbox, cuda):
    with pytest.raises(TypeError, match="expected an array on the GPU"):
        load(baked).affine(tensorbox.Box((16, 1024), "float32"), 2.0, relu=False)
