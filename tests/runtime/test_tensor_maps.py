"""Tensor maps at run time: what is encoded, once an address, and passed by every path; and where there are none."""

import struct
import threading
from pathlib import Path

import pytest

import fake_cuda
import mapped
import sample
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.spec.loader import load as load_spec

MAPPED = Path(__file__).parents[1] / "gpu" / "tensor_maps"
A100 = dict(fake_cuda.H100) | {"name": "NVIDIA A100-SXM4-40GB", 75: 8, 76: 0, 16: 108}
CALLS = 4  # the first two from the beginning, then by the fast path, then packed before


@pytest.fixture
def turned(load, cupy, cuda, monkeypatch, tmp_path):
    """What makes a package of `mapped.package` and imports it."""
    for name, codes in mapped.SIGNATURES.items():
        monkeypatch.setitem(fake_cuda.SIGNATURES, name, codes)
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return lambda **options: load(mapped.package(tmp_path / "made", **options)).turned


def written(folder, name):
    """Write `pkg.tuned` with the default of a kernel of the tests on a GPU, and return its plan."""
    made = plan({name: load_spec(MAPPED / f"{name}.toml")}, [], {})
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), folder / "pkg" / "tuned")
    return made


def passed(launched, cuda):
    """Return the addresses that the two maps of a launch hold, of `out` and `x`, and the other arguments."""
    found = [struct.unpack("=QQ", tensor_map[:16]) for tensor_map in (launched.arguments[0], launched.arguments[2])]
    assert [cuda.mapped[number - 1].address for _, number in found] == [address for address, _ in found]
    return [address for address, _ in found], (launched.arguments[1], *launched.arguments[3:])


def test_what_is_encoded(turned, cupy, cuda):
    kernel = turned(of_x=', swizzle = "16B", l2 = "256B", fill = "nan"'.replace("16B", "32B"))
    x = cupy.ndarray((128, 1024), "float16")
    out = kernel(x, 2.0)
    of_x, of_out = cuda.mapped
    assert vars(of_x) == {
        "dtype": 6,  # CU_TENSOR_MAP_DATA_TYPE_FLOAT16
        "address": x.data.ptr,
        "dims": (1024, 128),
        "strides": (2048,),
        "box": (8, 32),
        "steps": (1, 1),
        "modes": (0, 1, 3, 1),  # interleave, swizzle, L2 promotion, fill
    }
    assert vars(of_out) == {
        "dtype": 6,
        "address": out.data.ptr,
        "dims": (128, 1024),
        "strides": (256,),
        "box": (32, 8),
        "steps": (1, 1),
        "modes": (0, 0, 0, 0),
    }


def test_every_way_to_call_passes_the_maps_of_its_arrays(turned, cupy, cuda, fast_path_on):
    kernel, x = turned(), cupy.ndarray((128, 1024), "float32")
    for _ in range(CALLS):
        out = kernel(x, 2.0)
        assert passed(cuda.launches[-1], cuda) == ([out.data.ptr, x.data.ptr], (128, 2.0, x.data.ptr))
    for _ in range(CALLS):
        kernel(x, 2.0, out=out)
    assert (cuda.direct > 0) is fast_path_on  # by CuPy's binding, as a call without maps
    kernel.bind(x, 2.5, out=out)()
    for launched, factor in zip(cuda.launches[-CALLS - 1 :], [2.0] * CALLS + [2.5], strict=True):
        assert passed(launched, cuda) == ([out.data.ptr, x.data.ptr], (128, factor, x.data.ptr))
    assert {launched.function for launched in cuda.launches} == {"tiles"}


def test_maps_beside_attributes_of_the_launch(turned, cupy, cuda):
    kernel, x = turned(launch='overlap = "pdl"'), cupy.ndarray((128, 1024), "float32")
    for _ in range(CALLS):
        out = kernel(x, 2.0)
        assert passed(cuda.launches[-1], cuda) == ([out.data.ptr, x.data.ptr], (128, 2.0, x.data.ptr))
    kernel.bind(x, 2.0, out=out)()
    assert [one.attributes for one in cuda.launches] == [{6: (1,)}] * (CALLS + 1)
    assert passed(cuda.launches[-1], cuda)[0] == [out.data.ptr, x.data.ptr]


def test_maps_in_one_of_several_launches(turned, cupy, cuda):
    second = '[[implementations.tiles.launches]]\nfunction = "plain"\ngrid = [1]\nblock = [32]'
    kernel, x = turned(launch=second), cupy.ndarray((128, 1024), "float32")
    for turn in range(CALLS):
        out = kernel(x, float(turn))
        tiles, plain = cuda.launches[-2:]
        assert passed(tiles, cuda) == ([out.data.ptr, x.data.ptr], (128, float(turn), x.data.ptr))
        assert plain.arguments == (out.data.ptr, x.data.ptr, 128, float(turn))


def test_rows_and_planes_that_lie_apart(load, cupy, cuda, monkeypatch, tmp_path):
    monkeypatch.setitem(fake_cuda.SIGNATURES, "doubled", ("128s", "128s"))
    monkeypatch.setenv("PRETUNED_WARN", "0")
    written(tmp_path, "doubled")
    doubled = load(tmp_path).doubled
    wide = [cupy.ndarray((3, 8, 12), "float32", strides=strides) for strides in ((960, 48, 4), (640, 64, 4))]
    for _ in range(CALLS):
        for x in wide:
            y = cupy.ndarray(x.shape, "float32", strides=(480, 48, 4))
            doubled(x, y=y)
            numbers = [struct.unpack("=QQ", one[:16])[1] for one in cuda.launches[-1].arguments]
            of_y, of_x = (cuda.mapped[number - 1] for number in numbers)
            assert (of_x.address, of_x.dims, of_x.strides) == (x.data.ptr, (12, 8, 3), x.strides[1::-1])
            assert (of_y.address, of_y.dims, of_y.strides) == (y.data.ptr, (12, 8, 3), (48, 480))
    with pytest.raises(ValueError, match=r"requires x_row % 4 == 0.*x_row=13"):
        doubled(cupy.ndarray((3, 8, 12), "float32", strides=(960, 52, 4)), y=y)


def test_a_view_is_written_by_whole_units_of_tma_or_not_at_all(load, cupy, cuda, monkeypatch, tmp_path):
    monkeypatch.setitem(fake_cuda.SIGNATURES, "doubled", ("128s", "128s"))
    monkeypatch.setenv("PRETUNED_WARN", "0")
    written(tmp_path, "doubled")
    doubled = load(tmp_path).doubled
    x, y = (cupy.ndarray((3, 8, 10), "float32", strides=(640, 64, 4)) for _ in range(2))
    for _ in range(CALLS):  # columns 10 and 11 of y are no part of it
        with pytest.raises(ValueError, match=r"requires c % 4 == 0.*c=10"):
            doubled(x, y=y)
    assert not cuda.launches


def test_a_map_is_encoded_once_an_address(turned, cupy, cuda):
    kernel = turned()
    arrays = [(cupy.ndarray((128, 1024), "float32"), cupy.ndarray((1024, 128), "float32")) for _ in range(3)]
    for turn in range(5):
        for x, out in arrays:
            kernel(x, float(turn), out=out)  # a number that is new at every turn: nothing was packed before
            assert passed(cuda.launches[-1], cuda) == ([out.data.ptr, x.data.ptr], (128, float(turn), x.data.ptr))
    assert sorted(one.address for one in cuda.mapped) == sorted(array.data.ptr for pair in arrays for array in pair)


def test_problems_and_types_have_maps_of_their_own(turned, cupy, cuda):
    kernel, addresses = turned(), {}
    for shape in ((128, 1024), (1024, 128), (128, 128)):
        for dtype in ("float16", "float32"):
            addresses[shape, dtype] = cupy.ndarray(shape, dtype)
    for _ in range(CALLS):
        for (shape, dtype), x in addresses.items():
            out = kernel(x, 2.0)
            assert passed(cuda.launches[-1], cuda)[0] == [out.data.ptr, x.data.ptr]
            number = struct.unpack("=QQ", cuda.launches[-1].arguments[2][:16])[1]
            found = cuda.mapped[number - 1]
            assert (found.dims, found.dtype) == (shape[::-1], {"float16": 6, "float32": 7}[dtype])


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((128, 1022), "'cols * sizeof(T) % 16 == 0' does not hold"),
        ((126, 1024), "'rows * sizeof(T) % 16 == 0' does not hold"),
    ],
)
def test_rows_that_tma_does_not_take_go_to_the_next_configuration(turned, cupy, cuda, shape, reason):
    kernel = turned()
    for _ in range(CALLS):
        kernel(cupy.ndarray(shape, "float16"), 2.0)
    assert {launched.function for launched in cuda.launches} == {"plain"}
    assert cuda.mapped == []
    tuned = __import__("pkg.tuned", fromlist=["explain"])
    assert reason in str(tuned.explain("turned", rows=shape[0], cols=shape[1], T="float16"))


def test_an_address_that_tma_does_not_take_goes_to_the_next_configuration(turned, cupy, cuda):
    kernel = turned()
    x = cupy.ndarray((128, 1024), "float32")
    shifted = cupy.ndarray((128, 1024), "float32", address=x.data.ptr + 8)
    for _ in range(CALLS):
        kernel(x, 2.0)
        kernel(shifted, 2.0)
    assert [launched.function for launched in cuda.launches] == ["tiles", "plain"] * CALLS


def test_an_array_without_elements_needs_no_map(turned, cupy, cuda):
    kernel = turned()
    for shape in ((0, 1024), (128, 0)):
        kernel(cupy.ndarray(shape, "float32"), 2.0)
    assert cuda.mapped == []


def test_an_older_device_runs_what_needs_none(turned, cupy, cuda):
    cuda.devices = [A100]
    kernel = turned(where=sample.A100)
    kernel(cupy.ndarray((128, 1024), "float32"), 2.0)
    assert ([launched.function for launched in cuda.launches], cuda.mapped) == (["plain"], [])
    said = str(__import__("pkg.tuned", fromlist=["explain"]).explain("turned", rows=128, cols=1024, T="float32"))
    assert "tensor maps need compute capability 9.0, and the device has 8.0" in said


def test_a_kernel_that_needs_them_is_refused_in_words_on_an_older_device(load, cupy, cuda, tmp_path):
    made = written(tmp_path, "summed")
    tuned, arrays = load(tmp_path), [cupy.ndarray((64, 64), "float32") for _ in range(2)]
    assert {architecture for _, architecture in made.jobs} == {"compute_90"}
    cuda.devices = [A100]
    tuned.prepare()
    with pytest.raises(
        ValueError, match=r"rows_of_box=32: tensor maps need compute capability 9.0, and the device has"
    ):
        tuned.summed(*arrays)
    assert (cuda.loaded, cuda.launches, cuda.mapped, cupy.compiled) == ([], [], [], [])


def test_a_map_that_the_driver_refuses_is_an_error_in_words(turned, cupy, cuda, monkeypatch):
    monkeypatch.setattr(type(cuda), "cuTensorMapEncodeTiled", lambda *_: 1)
    kernel, x = turned(), cupy.ndarray((128, 1024), "float32")
    for _ in range(3):
        with pytest.raises(Exception, match="the driver refused the launch: cuTensorMapEncodeTiled: CUresult 1"):
            kernel(x, 2.0)
    assert cuda.launches == []


def test_a_refusal_in_the_fast_path_is_reported_and_forgotten(turned, cupy, cuda, monkeypatch):
    kernel, x = turned(), cupy.ndarray((128, 1024), "float32")
    out, new = cupy.ndarray((1024, 128), "float32"), cupy.ndarray((128, 1024), "float32")
    for _ in range(CALLS):
        kernel(x, 2.0, out=out)
    with monkeypatch.context() as patch:
        patch.setattr(type(cuda), "cuTensorMapEncodeTiled", lambda *_: 1)
        with pytest.raises(Exception, match="the driver refused the launch: cuTensorMapEncodeTiled: CUresult 1"):
            kernel(new, 2.0, out=out)
        kernel(x, 2.0, out=out)  # which was encoded before
    kernel(new, 2.0, out=out)
    assert [passed(one, cuda)[0][1] for one in cuda.launches] == [x.data.ptr] * (CALLS + 1) + [new.data.ptr]


def test_every_device_has_plans_of_its_own(turned, cupy, cuda):
    kernel = turned()
    for device in (0, 1, 0, 1):
        cupy._local.device = device
        cuda._local.context = 1000 + device
        x = cupy.ndarray((128, 1024), "float32", device=device)
        kernel(x, 2.0)
        assert passed(cuda.launches[-1], cuda)[0][1] == x.data.ptr
    assert [launched.device for launched in cuda.launches] == [0, 1, 0, 1]


def test_a_prepared_kernel_may_be_captured(turned, cupy, cuda):
    kernel = turned()
    kernel.prepare()
    cuda.captured = {0}
    x, out = cupy.ndarray((128, 1024), "float32"), cupy.ndarray((1024, 128), "float32")
    for _ in range(CALLS):
        kernel(x, 2.0, out=out)
        assert passed(cuda.launches[-1], cuda)[0] == [out.data.ptr, x.data.ptr]


def test_threads_get_their_own_maps(turned, cupy, cuda):
    kernel, wrong = turned(), []
    kernel(cupy.ndarray((128, 1024), "float32"), 2.0)
    lock = threading.Lock()

    def run():
        cuda._local.context = 1000
        x, out = cupy.ndarray((128, 1024), "float32"), cupy.ndarray((1024, 128), "float32")
        for turn in range(50):
            with lock:  # so that the launch at the end of the list is this thread's
                kernel(x, float(turn), out=out)
                if passed(cuda.launches[-1], cuda)[0] != [out.data.ptr, x.data.ptr]:
                    wrong.append(turn)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (wrong, len(cuda.launches)) == ([], 151)
