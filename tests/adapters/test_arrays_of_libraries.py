"""What arrays of Numba, tvm-ffi and Warp can be that no other library's are: right, or refused in words."""

from __future__ import annotations

import importlib
import os
import sys

import numpy as np
import pytest

from host_launches import at
from pretuned.compile.host import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
N = 1000


class Made:
    """Arrays of one library in a world."""

    def __init__(self, world, name):
        self.world, self.library = world, world.libraries[name]

    def array(self, shape=(N,), dtype="float32", strides=None):
        address = next(self.world.memory)
        at(address, shape, dtype, strides)[...] = np.arange(np.prod(shape)).reshape(shape)
        return self.library.make(address, shape, dtype, strides, 0)

    @property
    def stream(self):
        """The stream of the last launch."""
        return self.world.driver.launches[-1].stream


@pytest.fixture
def made(request, world):
    """Return arrays of the library that a test is about; skipped where it is not installed."""
    name = next(known for known in ("numba", "tvm_ffi", "warp") if request.node.originalname.endswith(known))
    if name not in world.libraries:
        pytest.importorskip("numba.cuda" if name == "numba" else name)
    world.memory.clear()
    world.driver.addresses.clear()
    world.driver.events.clear()
    return Made(world, name)


@pytest.fixture
def slow(world, monkeypatch):
    """The calls that go from the beginning."""
    counted, caller = [], importlib.import_module("pkg.tuned._runtime.calls").Caller
    whole = caller.slow
    monkeypatch.setattr(caller, "slow", lambda self, *call: counted.append(call) or whole(self, *call))
    importlib.import_module("pkg.tuned._runtime.calls")._forget()
    return counted


@pytest.fixture(params=["numba", "tvm_ffi", "warp"])
def each(request, world):
    if request.param not in world.libraries:
        pytest.importorskip("numba.cuda" if request.param == "numba" else request.param)
    world.memory.clear()
    world.driver.addresses.clear()
    return Made(world, request.param)


def test_calls_that_come_again_take_the_fast_path_and_outputs_are_of_the_library(each, slow):
    for _ in range(6):
        x, z = each.array(), each.array()
        found = each.world.tuned.add_scaled(x, z, 2.0)
        assert type(found) is type(x)
        np.testing.assert_allclose(each.library.values(found), 3 * np.arange(N))
    assert len(slow) == 2 or os.environ.get("PRETUNED_FAST_PATH") == "0"
    each.world.tuned.add_scaled(each.array(), each.array(), 2.0, out=each.array(), stream=5)
    assert each.stream == 5


# Warp.


def test_calls_go_on_the_current_stream_of_warp(made):
    for _ in range(4):
        made.world.tuned.add_scaled(made.array(), made.array(), 2.0)
        assert made.stream == 91


def test_vectors_and_matrices_are_read_as_their_elements_of_warp(made):
    warp, tuned = sys.modules["warp"], made.world.tuned
    for _ in range(4):
        flat = made.array((16, 2, 32))
        rows = made.library._made(flat.ptr, (16, 2), warp.types.vector(32, warp.float32), None, flat.device)
        np.testing.assert_allclose(made.library.values(tuned.apart(rows, 2.0)), 2 * np.arange(1024).reshape(16, 2, 32))
        found = tuned.apart(rows[:, :1], 2.0)
        np.testing.assert_allclose(made.library.values(found), 2 * np.arange(1024).reshape(16, 2, 32)[:, :1])
        matrices = made.library._made(flat.ptr, (16,), warp.types.matrix((2, 32), warp.float32), None, flat.device)
        found = tuned.apart(matrices[4:], 2.0)
        np.testing.assert_allclose(made.library.values(found), 2 * np.arange(1024).reshape(16, 2, 32)[4:])


def test_what_no_launch_takes_is_refused_of_warp(made):
    warp, tuned = sys.modules["warp"], made.world.tuned
    z = made.array()

    pair = warp.struct(type("Pair", (), {"__annotations__": {"first": warp.float32}, "__module__": __name__}))
    for _ in range(3):
        with pytest.raises(
            TypeError, match=r"x: expected an array on the GPU, found a warp.array on cpu; move it with x.to"
        ):
            tuned.add_scaled(warp.zeros(N, dtype=float, device="cpu"), z, 2.0)
        with pytest.raises(TypeError, match=r"x: expected an array, found an annotation, .*, which has no memory"):
            tuned.add_scaled(warp.array(dtype=float), z, 2.0)
        structs = warp.array(ptr=z.ptr, shape=N, dtype=pair, device="cpu")
        structs.device = z.device
        with pytest.raises(TypeError, match=r"x: expected an array of numbers, found one of the struct .*Pair"):
            tuned.add_scaled(structs, z, 2.0)
        tuned.add_scaled(made.array(), z, 2.0)
    with pytest.raises(TypeError, match="row_sums: Warp has no arrays of 0 dimensions; pass the output"):
        tuned.row_sums(made.array((32,)), made.array((32,)))


def test_a_tape_that_records_is_told_that_it_misses_a_call_of_warp(made):
    warp, tuned = sys.modules["warp"], made.world.tuned
    x, z = made.array(), made.array()
    x._requires_grad = True
    for _ in range(4):
        tuned.add_scaled(x, z, 2.0)
        with (
            warp.Tape(),
            pytest.raises(ValueError, match=r"x: requires a gradient, and wp\.Tape does not record this call"),
        ):
            tuned.add_scaled(x, z, 2.0)
        with warp.Tape():
            tuned.add_scaled(z, z, 2.0)


def test_a_stream_is_passed_of_warp(made, monkeypatch):
    warp = sys.modules["warp"]
    stream = object.__new__(warp.Stream)
    stream.cuda_stream, stream.owner, stream.device = 92, False, made.library._devices[0]
    monkeypatch.setattr(warp.Stream, "__del__", lambda _: None, raising=False)
    out = made.array()
    for _ in range(4):
        made.world.tuned.add_scaled(made.array(), made.array(), 2.0, out=out, stream=stream)
        assert made.stream == 92
    stream.device = made.library._devices[1]
    for _ in range(2):
        with pytest.raises(TypeError, match="stream: expected device 0 as the arrays have, found device 1"):
            made.world.tuned.add_scaled(made.array(), made.array(), 2.0, out=out, stream=stream)


# tvm-ffi.


def test_calls_go_on_the_stream_of_the_environment_of_tvm_ffi(made, monkeypatch):
    for stream in (0, 7, 8, 0):
        monkeypatch.setattr(sys.modules["tvm_ffi"], "get_raw_stream", lambda _device, stream=stream: stream)
        for _ in range(3):
            made.world.tuned.add_scaled(made.array(), made.array(), 2.0)
            assert made.stream == stream
        assert made.world.torch.allocated[-1][2] == stream


def test_a_tensor_on_the_cpu_is_refused_of_tvm_ffi(made):
    library, z = sys.modules["tvm_ffi"], made.array()
    for _ in range(3):
        with pytest.raises(
            TypeError, match=r"x: expected an array on the GPU, found a tvm_ffi.Tensor on cpu:0; move it"
        ):
            made.world.tuned.add_scaled(library.from_dlpack(np.zeros(N, np.float32)), z, 2.0)
        made.world.tuned.add_scaled(z, z, 2.0)


# Numba.


def test_a_stream_that_an_array_names_is_waited_for_of_numba(made):
    x, z = made.array(), made.array()
    for _ in range(4):
        made.world.tuned.add_scaled(x, z, 2.0)
    assert made.stream == 0

    class Stream:
        def __int__(self):
            return 44

    z.stream = Stream()
    before = len(made.world.driver.events)
    made.world.tuned.add_scaled(x, z, 2.0)
    assert made.world.driver.events[before:][:2] == ["record on 44", "0 waits"]
    made.world.tuned.add_scaled(x, z, 2.0, stream=44)
    assert made.world.driver.events.count("record on 44") == 1


def test_one_row_for_all_is_not_taken_for_contiguous_of_numba(made):
    """Its interface names no strides for such an array."""
    z = made.array((16, 64))
    for _ in range(3):
        x = made.array((16, 64))
        made.world.tuned.apart(z, 2.0)
        x.strides = (0, 4)
        with pytest.raises(ValueError, match=r"x: expected .*, found strides \(0, 4\) in bytes"):
            made.world.tuned.apart(x, 2.0)
