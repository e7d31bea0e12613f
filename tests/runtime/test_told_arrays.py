"""Arrays that are read by what they tell: __cuda_array_interface__, DLPack, JAX; once a call, right, or refused."""

import importlib
import itertools
import subprocess
import sys

import numpy as np
import pytest

from capsules import capsule
from fake_cupy import external
from fake_jax import ArrayImpl, FakeJax, Tracer

SHAPE = (16, 1024)


class Foreign:
    """An array of a library of its own, which makes what it tells every time it is asked, and counts that."""

    def __init__(self, address, shape=SHAPE, *, typestr="<f4", sealed=False, **more):
        self.told = 0
        self.facts = {"shape": shape, "typestr": typestr, "data": (address, sealed), "version": 3, **more}

    @property
    def __cuda_array_interface__(self):
        self.told += 1
        return dict(self.facts)


class OfDlpack:
    """An array that has DLPack alone."""

    def __init__(self, address, shape=SHAPE, dtype="float32", strides=None):
        self.asked, self._made = [], (address, shape, dtype, strides)

    def __dlpack__(self, *, stream):
        self.asked.append(stream)
        return capsule(*self._made)

    def __dlpack_device__(self):
        return 2, 0


@pytest.fixture
def address(cuda):
    """Addresses of memory of the first GPU."""
    places = itertools.count(1 << 45, 1 << 30)

    def address():
        made = next(places)
        cuda.addresses[made] = 0
        return made

    return address


@pytest.fixture
def slow(tuned, monkeypatch):
    """The calls that go from the beginning."""
    counted, caller = [], importlib.import_module("pkg.tuned._runtime.calls").Caller
    whole = caller.slow
    monkeypatch.setattr(caller, "slow", lambda self, *call: counted.append(call) or whole(self, *call))
    return counted


@pytest.fixture(autouse=True)
def jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", FakeJax())


def called(tuned, cuda, x, **options):
    """Call a kernel, and return the output, the addresses that were launched with, and the stream."""
    y = tuned.affine(x, 2.0, relu=False, **options)
    launch = cuda.launches[-1]
    assert launch.arguments[2:] == (2.0, 16, 1024)
    return y, launch.arguments[:2], launch.stream


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("kind", [Foreign, OfDlpack])
@pytest.mark.usefixtures("fast_path")
def test_calls_that_come_again_take_the_fast_path(tuned, cuda, cupy, slow, address, kind, gpus):
    """At any address, with the output given and allocated, and on the stream that is current, or given."""
    del cuda.devices[gpus:]
    places = [address() for _ in range(8)]
    given = kind(address())
    for place in places:
        x = kind(place)
        y, arguments, stream = called(tuned, cuda, x)
        assert isinstance(y, cupy.ndarray)
        assert (arguments, stream) == ((y.data.ptr, place), 0)
        with cupy.cuda.Stream(55):
            y, arguments, stream = called(tuned, cuda, x, y=given)
        assert y is given
        assert (arguments[1], stream) == (place, 55)
    assert len(slow) == 3  # one with the output given, two without


@pytest.mark.usefixtures("fast_path")
def test_an_array_is_asked_once_a_call(tuned, cuda, address):
    del cuda.devices[1:]
    x, y = Foreign(address()), Foreign(address())
    for _ in range(3):
        called(tuned, cuda, x, y=y)
    x.told = y.told = 0
    called(tuned, cuda, x, y=y)
    assert (x.told, y.told) == (1, 1)


@pytest.mark.usefixtures("fast_path")
def test_strides_of_a_contiguous_array_are_those_of_none(tuned, cuda, slow, address):
    del cuda.devices[1:]
    for strides in (None, (4096, 4), [4096, 4], None):
        called(tuned, cuda, Foreign(address(), strides=strides))
    assert len(slow) == 2
    for _ in range(2):
        with pytest.raises(ValueError, match="x: expected a C-contiguous array"):
            called(tuned, cuda, Foreign(address(), strides=(8192, 4)))


def test_a_stream_that_an_array_names_is_waited_for(tuned, cuda, slow, address):
    del cuda.devices[1:]
    for _ in range(4):
        called(tuned, cuda, Foreign(address()))
    del slow[:]
    called(tuned, cuda, Foreign(address(), stream=9))
    waits = [event for event in cuda.events if event != "affine"]
    assert waits == ["record on 9", "0 waits"]
    called(tuned, cuda, Foreign(address(), stream=9), stream=9)
    called(tuned, cuda, Foreign(address(), stream=1))  # which is how the interface writes the default stream
    called(tuned, cuda, Foreign(address(), stream=None))
    assert [event for event in cuda.events if event != "affine"] == waits


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("odd", "kind", "message"),
    [
        ({"mask": object()}, TypeError, "x: expected an array without a mask, found a masked one; pass one that is"),
        ({"data": (0, False)}, ValueError, r"x: expected memory of a GPU, found the address 0 for elements of shape"),
        ({"typestr": ">f4"}, TypeError, "x: expected dtype float16 or float32, found >f4"),
        ({"typestr": "|V2"}, TypeError, r"x: expected dtype float16 or float32, found \|V2"),
        ({"shape": None}, TypeError, "x: expected a __cuda_array_interface__ with shape, data and a typestr"),
        ({"data": None}, TypeError, "x: expected a __cuda_array_interface__ with shape, data and a typestr"),
    ],
)
def test_an_odd_array_is_refused_by_every_path(tuned, cuda, address, odd, kind, message, warm):
    for _ in range(4 if warm else 0):
        called(tuned, cuda, Foreign(address()))
    before = len(cuda.launches)
    for _ in range(2):
        x = Foreign(address())
        x.facts |= odd
        with pytest.raises(kind, match=message):
            tuned.affine(x, 2.0, relu=False)
    assert len(cuda.launches) == before


def test_a_read_only_array_is_read_and_not_written(tuned, cuda, address):
    for _ in range(4):
        x = Foreign(address(), sealed=True)
        called(tuned, cuda, x, y=Foreign(address()))
        with pytest.raises(ValueError, match="y: expected an array that may be written, found a read-only one"):
            tuned.affine(Foreign(address()), 2.0, relu=False, y=x)


def test_an_array_without_elements_has_no_address(tuned, cuda):
    for _ in range(3):
        y = tuned.affine(Foreign(0, (0, 1024)), 2.0, relu=False)
        assert y.shape == (0, 1024)


def test_a_call_goes_to_the_device_of_its_arrays(tuned, cuda, cupy, address):
    """Whichever is current."""
    for _ in range(4):
        place = address()
        cuda.addresses[place] = 1
        y = tuned.affine(Foreign(place), 2.0, relu=False)
        assert y.data.device_id == 1


def test_without_cupy_arrays_are_launched_on_the_default_stream(load, baked, cuda, address, monkeypatch):
    for name in ("cupy", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    tuned = load(baked)
    for _ in range(4):
        x, y = Foreign(address()), Foreign(address())
        assert called(tuned, cuda, x, y=y)[2] == 0
        with pytest.raises(RuntimeError, match="affine needs cupy to allocate an output"):
            tuned.affine(x, 2.0, relu=False)


def test_dlpack_has_the_library_wait_on_the_stream_of_the_call(tuned, cuda, cupy, address):
    for _ in range(3):
        x, y = OfDlpack(address()), external({"shape": SHAPE, "typestr": "<f4", "data": (address(), False)})
        with cupy.cuda.Stream(55):
            called(tuned, cuda, x, y=y)
        assert x.asked == [55]


def test_adapters_import_no_library():
    """Each is looked for among what is imported, also where a value is of none of them."""
    code = """
import sys
from pretuned.runtime import adapters
assert adapters.adapter_of(object()) is None
assert adapters.handle_of("a kernel", 5, 0) == 5
libraries = {"cupy", "torch", "numba", "warp", "tvm_ffi", "jax", "numpy"}
assert not libraries & sys.modules.keys(), libraries & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_strides_that_go_backwards_are_read_with_their_sign(tuned, cuda, address):
    """CuPy's capsules divide them as if they had none."""

    class Backwards(OfDlpack):
        def __dlpack__(self, *, stream):
            return capsule(address(), SHAPE, "float32", (-4096, 4), unsigned=True)

    for _ in range(3):
        called(tuned, cuda, OfDlpack(address()))
        with pytest.raises(ValueError, match=r"x: expected a C-contiguous array, found strides \(-4096, 4\) in bytes"):
            tuned.affine(Backwards(address()), 2.0, relu=False)


# JAX.


@pytest.mark.parametrize("gpus", [1, 2])
def test_arrays_of_jax_are_read(tuned, cuda, slow, address, gpus, fast_path_on):
    del cuda.devices[gpus:]
    for _ in range(6):
        x = ArrayImpl(SHAPE, "float32", address())
        y, arguments, _ = called(tuned, cuda, x)
        assert isinstance(y, sys.modules["cupy"].ndarray)
        assert arguments == (y.data.ptr, x.unsafe_buffer_pointer())
    assert not fast_path_on or len(slow) == 2


def test_an_array_of_jax_that_is_in_the_making_is_waited_for_on_the_stream_of_the_call(tuned, cuda, cupy, address):
    for _ in range(5):
        x = ArrayImpl(SHAPE, "float32", address(), ready=False)
        with cupy.cuda.Stream(55):
            called(tuned, cuda, x)
        assert set(x.asked) == {55}


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("made", "kind", "message"),
    [
        (lambda at: Tracer(), TypeError, "x: expected an array, found a jax.Tracer, which stands for"),
        (
            lambda at: ArrayImpl(SHAPE, "float32", at, deleted=True),
            ValueError,
            "x: expected an array, found one that JAX has deleted, or that was donated",
        ),
        (
            lambda at: ArrayImpl(SHAPE, "float32", at, devices=(0, 1)),
            ValueError,
            r"x: expected an array on one device, found one on 2; pass its shards one by one \(x.addressable_shards\)",
        ),
        (
            lambda at: ArrayImpl(SHAPE, "float32", at, platform="cpu"),
            TypeError,
            "x: expected an array on the GPU, found a jaxlib.ArrayImpl on cpu; move it with jax.device_put",
        ),
        (lambda at: ArrayImpl(SHAPE, "int8", at), TypeError, "x: expected dtype float16 or float32, found int8"),
    ],
)
def test_an_odd_array_of_jax_is_refused_by_every_path(tuned, cuda, address, made, kind, message, warm):
    for _ in range(4 if warm else 0):
        called(tuned, cuda, ArrayImpl(SHAPE, "float32", address()))
    before = len(cuda.launches)
    for _ in range(2):
        with pytest.raises(kind, match=message):
            tuned.affine(made(address()), 2.0, relu=False)
    assert len(cuda.launches) == before


def test_an_array_of_jax_is_not_written(tuned, cuda, address):
    for _ in range(4):
        called(tuned, cuda, ArrayImpl(SHAPE, "float32", address()))
        with pytest.raises(ValueError, match="y: expected an array that may be written, found a jaxlib"):
            tuned.affine(
                ArrayImpl(SHAPE, "float32", address()), 2.0, relu=False, y=ArrayImpl(SHAPE, "float32", address())
            )


def test_bfloat16_of_jax_is_read_though_its_interface_cannot_name_it(tuned, cuda, address):
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    for _ in range(3):
        with pytest.raises(TypeError, match="x: expected dtype float16 or float32, found bfloat16"):
            tuned.affine(ArrayImpl(SHAPE, np.dtype(dtype), address()), 2.0, relu=False)
