"""What a spec says of arrays beside dtype and shape, at calls."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
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
SIGNATURES = {
    "planes": "QQQqiQii",
    "add_scaled": "QQQfq",
    "double_pairs": "QQq",
    "shift": "QQQii",
    "accumulated": "QQQi",
    "row_sums": "QQQQii",
    "apart": "QQfqqi",
}
APART = "and it has to be all of x, or to lie apart from it"


@functools.cache
def baked():
    """The files of a package of the kernels, with defaults and one winner with guards."""
    choices = [
        sample.choice(2.0, ratio=(0.4, 0.5), vec=4, wrong="nothing"),
        sample.choice(4.0, vec=1, wrong="nothing"),
    ]
    rows = [sample.row("apart", sample.H100, {"T": "float32"}, {"rows": 24, "cols": 64}, *choices)]
    made = plan(load_folder(KERNELS), rows, {sample.H100.name: sample.H100})
    return files(made, sample.binaries(made), version="0.0.0")


@pytest.fixture
def tuned(tmp_path, cuda, load, monkeypatch):
    """The package, with images that say what they are."""
    sample.write({"__init__.py": b""}, tmp_path / "pkg")
    sample.write(baked(), tmp_path / "pkg" / "tuned")
    for name, codes in SIGNATURES.items():
        monkeypatch.setitem(fake_cuda.SIGNATURES, name, codes)
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return load(tmp_path)


@pytest.fixture
def slow(tuned, monkeypatch):
    """The calls that go from the beginning, before any is made: fast paths keep what they call."""
    counted, caller = [], importlib.import_module("pkg.tuned._runtime.calls").Caller
    whole = caller.slow

    def slow(self, *call):
        counted.append(call)
        return whole(self, *call)

    monkeypatch.setattr(caller, "slow", slow)
    return counted


@pytest.fixture
def torch(cuda, monkeypatch):
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.fixture(params=["cupy", "torch", "interface", "dlpack"])
def array(request, cupy, torch, cuda):
    """What makes an array of each library: shape, dtype, address."""

    def make(shape, dtype="float32", address=None, strides=None):
        size = {"float32": 4, "float64": 8}[dtype]
        in_bytes = strides and tuple(size * stride for stride in strides)
        if request.param == "cupy":
            return cupy.ndarray(shape, dtype, address=address, strides=in_bytes)
        tensor = torch.Tensor(shape, dtype, address=address, strides=strides)
        if request.param == "torch":
            return tensor
        cuda.addresses[tensor.data_ptr()] = 0
        if request.param == "interface":
            typestr = {"float32": "<f4", "float64": "<f8"}[dtype]
            facts = {"shape": tuple(shape), "typestr": typestr, "data": (tensor.data_ptr(), False)}
            return external(facts | ({"strides": in_bytes} if strides else {}))
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
            found = f"{name}: requires {demand}, found an address 4 bytes beyond a multiple; "
            assert str(caught.value).startswith(f"pkg.tuned.double_pairs: {found}")
        with pytest.raises(ValueError, match="requires"):
            tuned.double_pairs.bind(given[0], y=given[1])


def test_the_docstring_says_what_the_kernel_demands_of_addresses(tuned):
    assert "Requires aligned(x, 8)." in inspect.getdoc(tuned.double_pairs)


# Optional arrays.


def test_an_optional_array_is_a_null_pointer_where_it_is_left_out_by_every_path(tuned, array, cuda):
    x, y, bias = array((16, 256)), array((16, 256)), array((256,))
    for _ in range(4):
        tuned.shift(x, y=y)
        tuned.shift(x, bias=bias, y=y)
        tuned.shift(x, bias=None, y=y)
    without, given = ((address(y), one, address(x), 16, 256) for one in (0, address(bias)))
    assert [launch.arguments for launch in cuda.launches] == [without, given, without] * 4
    images = [launch.image for launch in cuda.launches[:3]]
    assert images[0] == images[2] != images[1]
    for options, wanted in (({}, without), ({"bias": bias}, given)):
        tuned.shift.bind(x, y=y, **options)()
        assert cuda.launches[-1].arguments == wanted


@pytest.mark.usefixtures("fast_path")
@pytest.mark.parametrize("gpus", [1, 2])
def test_calls_without_an_optional_array_take_the_fast_path(tuned, cupy, cuda, gpus, slow):
    del cuda.devices[gpus:]
    x, bias = cupy.ndarray((16, 256), "float32"), cupy.ndarray((256,), "float32")
    for _ in range(2):
        tuned.shift(x)
        tuned.shift(x, bias=bias)
    slow.clear()
    for _ in range(2):
        assert tuned.shift(x).shape == tuned.shift(x, bias=bias).shape == (16, 256)
    assert not slow
    assert [launch.arguments[1] for launch in cuda.launches] == [0, bias.data.ptr] * 4


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((255,), "float32", "bias: expected shape (cols,) = (256,), found (255,)"),
        ((1, 256), "float32", "bias: expected 1 dimension (cols,), found 2: (1, 256)"),
        ((256,), "float64", "bias: expected dtype float32 (T), found float64"),
    ],
)
def test_an_optional_array_that_is_given_is_checked_by_every_path(tuned, array, shape, dtype, message):
    x, right, wrong = array((16, 256)), array((256,)), array(shape, dtype)
    for _ in range(3):
        tuned.shift(x)
        tuned.shift(x, bias=right)
        with pytest.raises((ValueError, TypeError)) as caught:
            tuned.shift(x, bias=wrong)
        assert str(caught.value) == f"pkg.tuned.shift: {message}"


def test_what_is_required_may_depend_on_an_optional_array(tuned, array):
    narrow = array((16, 1))
    tuned.shift(narrow, bias=array((1,)))
    with pytest.raises(ValueError, match="requires has_bias or cols >= 2, found cols=1 of x, has_bias=False"):
        tuned.shift(narrow)


def test_an_array_that_is_not_optional_may_not_be_none(tuned, cupy):
    with pytest.raises(TypeError, match=r"^pkg\.tuned\.shift: x: expected an array on the GPU .*, found None$"):
        tuned.shift(None)


def test_an_optional_array_is_a_keyword_and_a_specialisation_of_explain(tuned):
    assert list(inspect.signature(tuned.shift).parameters) == ["x", "bias", "y", "stream"]
    assert "bias: Array of T with shape (cols,); may be left out." in inspect.getdoc(tuned.shift)
    facts = {"rows": 16, "cols": 256, "T": "float32"}
    assert tuned.explain("shift", has_bias=True, **facts).problem["has_bias"] is True
    with pytest.raises(TypeError, match=r"explain needs has_bias=... \(False or True\)"):
        tuned.explain("shift", **facts)


# Leading dims.


@pytest.mark.parametrize("shape", [(64, 32), (4, 16, 32), (2, 2, 2, 8, 32), (32,), (0, 3, 32)])
def test_leading_dims_of_any_number_are_one_dim_by_every_path(tuned, array, cuda, shape):
    x, w = array(shape), array((32,))
    for _ in range(4):
        y, sums = tuned.row_sums(x, w)
        assert (tuple(y.shape), tuple(sums.shape)) == (shape, shape[:-1])
    rows = math.prod(shape[:-1])
    assert [launch.arguments[2:] for launch in cuda.launches] == [(address(x), address(w), rows, 32)] * (4 * bool(rows))
    given, totals = array(shape), array(shape[:-1])
    for _ in range(3):
        assert tuned.row_sums(x, w, y=given, sums=totals) == (given, totals)
        assert tuned.row_sums(x, w, y=x, sums=totals) == (x, totals)
    assert tuned.row_sums.bind(x, w, y=given, sums=totals)() == (given, totals)


@pytest.mark.usefixtures("fast_path")
@pytest.mark.parametrize("gpus", [1, 2])
def test_shapes_with_the_same_product_each_take_the_fast_path(tuned, cupy, cuda, gpus, slow):
    del cuda.devices[gpus:]
    w, shapes = cupy.ndarray((32,), "float32"), [(64, 32), (4, 16, 32), (16, 4, 32), (32,)]
    given = [cupy.ndarray(shape, "float32") for shape in shapes]
    for _ in range(3):
        for x in given:
            tuned.row_sums(x, w)
    slow.clear()
    for x, shape in zip(given, shapes, strict=True):
        y, sums = tuned.row_sums(x, w)
        assert (y.shape, sums.shape) == (shape, shape[:-1])
    assert not slow
    assert [launch.arguments[-2] for launch in cuda.launches] == [64, 64, 64, 1] * 4


@pytest.mark.parametrize(
    ("x", "w", "options", "message"),
    [
        ((), (32,), {}, "x: expected at least 1 dimension (rows..., cols), found 0: ()"),
        ((4, 16, 32), (31,), {}, "w: expected shape (cols,) = (32,), found (31,)"),
        ((4, 16, 32), (1, 32), {}, "w: expected 1 dimension (cols,), found 2: (1, 32)"),
        (
            (4, 16, 32),
            (32,),
            {"y": (64, 32)},
            "y: expected the leading dimensions (4, 16) of x, found (64,) in shape (64, 32)",
        ),
        (
            (4, 16, 32),
            (32,),
            {"sums": (16, 4)},
            "sums: expected the leading dimensions (4, 16) of x, found (16, 4) in shape (16, 4)",
        ),
        ((4, 16, 32), (32,), {"y": (4, 16, 33)}, "y: expected shape (rows..., cols) = (64, 32), found (64, 33)"),
    ],
)
def test_leading_dims_that_differ_are_an_error_by_every_path(tuned, array, x, w, options, message):
    right, weights = array((4, 16, 32)), array((32,))
    for _ in range(3):
        tuned.row_sums(right, weights)
        with pytest.raises(ValueError, match="expected") as caught:
            tuned.row_sums(array(x), array(w), **{name: array(shape) for name, shape in options.items()})
        assert str(caught.value) == f"pkg.tuned.row_sums: {message}"


LED_BY_NO_ARRAY = """
arguments = [
  { name = "y", role = "out", dtype = "float32", shape = ["rows...", "cols"] },
  { name = "x", role = "in", dtype = "float32", shape = ["rows"] },
  { name = "rows", dtype = "int32" },
  { name = "cols", dtype = "int32" },
]
dims = { rows = { sizes = [64] }, cols = { sizes = [32], keyword = true } }
launches = [{ function = "spread", grid = ["rows"], block = [32] }]
"""


def test_an_output_has_one_leading_dim_where_no_array_has_leading_dims(tmp_path, load, cupy, cuda, monkeypatch):
    (tmp_path / "spread.toml").write_text(f"format = 1\n{LED_BY_NO_ARRAY}")
    (tmp_path / "spread.cu.jinja").write_text(
        'extern "C" __global__ void spread(float* y, const float* x, int rows, int cols) {}'
    )
    made = plan(load_folder(tmp_path), [], {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, tmp_path / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), tmp_path / "pkg" / "tuned")
    monkeypatch.setitem(fake_cuda.SIGNATURES, "spread", "QQii")
    monkeypatch.setenv("PRETUNED_WARN", "0")
    tuned, x = load(tmp_path), cupy.ndarray((64,), "float32")
    assert [tuned.spread(x, cols=32).shape for _ in range(4)] == [(64, 32)] * 4
    apart = cupy.ndarray((4, 16, 32), "float32")
    assert tuned.spread(x, cols=32, y=apart) is apart
    assert [launch.arguments[2:] for launch in cuda.launches] == [(64, 32)] * 5


# Strides.


def test_rows_may_lie_apart_by_every_path(tuned, array, cuda):
    shape = (16, 64)
    y, x = array(shape), array(shape)
    apart = [(array(shape, strides=(pitch, 1)), pitch) for pitch in (67, 128, 1000)]
    for _ in range(4):
        tuned.apart(x, 2.0, y=y)
        for other, pitch in apart:
            tuned.apart(other, 2.0, y=y)
            tuned.apart(x, 2.0, y=other)
            assert cuda.launches[-2].arguments == (address(y), address(other), 2.0, 64, pitch, 64)
            assert cuda.launches[-1].arguments == (address(other), address(x), 2.0, pitch, 64, 64)
        made = tuned.apart(apart[0][0], 2.0)
        assert cuda.launches[-1].arguments == (address(made), address(apart[0][0]), 2.0, 64, 67, 64)
    bound = tuned.apart.bind(apart[1][0], 2.0, y=apart[2][0])
    bound()
    assert cuda.launches[-1].arguments == (address(apart[2][0]), address(apart[1][0]), 2.0, 1000, 128, 64)


@pytest.mark.parametrize(
    ("shape", "strides", "pitch"),
    [
        ((2, 3, 64), (300, 100, 1), 100),
        ((2, 1, 3, 64), (300, 7, 100, 1), 100),
        ((1, 64), (5, 1), 64),
        ((64,), (1,), 64),
        ((3, 1, 64), (70, 1, 1), 70),
        ((3, 1), (70, 3), 70),
    ],
)
def test_leading_dims_whose_rows_lie_apart_are_one(tuned, array, cuda, shape, strides, pitch):
    x = array(shape, strides=strides)
    for _ in range(3):
        y = tuned.apart(x, 2.0)
        assert tuple(y.shape) == shape
        assert cuda.launches[-1].arguments[3:] == (shape[-1], pitch, shape[-1])
        assert cuda.launches[-1].grid[0] == math.prod(shape[:-1])


@pytest.mark.usefixtures("fast_path")
def test_halves_of_the_same_rows_take_the_fast_path(tuned, cupy, slow):
    x = cupy.ndarray((16, 64), "float32", strides=(512, 4))
    for _ in range(2):
        tuned.apart(x, 2.0, y=cupy.ndarray((16, 64), "float32", address=x.data.ptr + 256, strides=(512, 4)))
    for shift, right in ((256, True), (-256, True), (768, True), (252, False), (260, False), (0, False), (512, False)):
        slow.clear()
        y = cupy.ndarray((16, 64), "float32", address=x.data.ptr + shift, strides=(512, 4))
        for _ in range(3):
            if right:
                tuned.apart(x, 2.0, y=y)
            else:
                with pytest.raises(ValueError, match="y: shares memory with x"):
                    tuned.apart(x, 2.0, y=y)
        assert len(slow) == (0 if right else 3)


@pytest.mark.usefixtures("fast_path")
@pytest.mark.parametrize("library", ["cupy", "torch"])
@pytest.mark.parametrize("gpus", [1, 2])
def test_arrays_with_other_strides_each_take_the_fast_path(tuned, cupy, torch, cuda, gpus, library, slow):
    del cuda.devices[gpus:]

    def make(strides=None):
        if library == "torch":
            return torch.Tensor((16, 64), strides=strides)
        return cupy.ndarray((16, 64), "float32", strides=strides and tuple(4 * one for one in strides))

    given = [make(), *(make((pitch, 1)) for pitch in (67, 128, 256))]
    for _ in range(3):
        for x in given:
            tuned.apart(x, 2.0)
            tuned.apart(make(), 2.0, y=x)
            tuned.apart(x, 2.0, y=make((99, 1)))
    slow.clear()
    for x, pitch in zip(given, (64, 67, 128, 256), strict=True):
        tuned.apart(x, 2.0)
        tuned.apart(make(), 3.0, y=x)
        tuned.apart(x, 2.0, y=make((99, 1)))
        assert cuda.launches[-1].arguments[3:] == (99, pitch, 64)
    assert not slow


NONE_OVERLAP = r"expected x_stride of at least 64 elements, so that none overlap, found strides "
BELOW = "expected an array that is C-contiguous but for x_stride, found strides "
COPY = r"copy it with (cupy.ascontiguousarray\({0}\)|{0}.contiguous\(\)|its library)"


@pytest.mark.parametrize(
    ("shape", "strides", "message"),
    [
        ((16, 64), (0, 1), NONE_OVERLAP + r"\(0, 4\)"),
        (
            (16, 64),
            (63, 1),
            r"expected x_stride of at least 64 elements, so that none overlap, found strides \(252, 4\)",
        ),
        ((16, 64), (-64, 1), NONE_OVERLAP + r"\(-256, 4\)"),
        ((16, 64), (128, 2), BELOW + r"\(512, 8\)"),
        ((16, 64), (1, 16), BELOW + r"\(4, 64\)"),
        ((16, 64), (128, 0), BELOW + r"\(512, 0\)"),
        ((2, 8, 64), (1000, 64, 1), r"expected leading dimensions that are one, with rows at one distance, found .*"),
        ((2, 8, 64), (64, 128, 1), r"expected leading dimensions that are one, with rows at one distance, found .*"),
    ],
)
def test_strides_that_a_kernel_cannot_take_are_an_error_by_every_path(tuned, array, cuda, shape, strides, message):
    right, wrong = array(shape), array(shape, strides=strides)
    for _ in range(3):
        tuned.apart(right, 2.0)
        with pytest.raises(ValueError, match=rf"^pkg\.tuned\.apart: x: {message}.*{COPY.format('x')}"):
            tuned.apart(wrong, 2.0)
        with pytest.raises(ValueError, match=r"^pkg\.tuned\.apart: y: expected "):
            tuned.apart(right, 2.0, y=wrong)
    assert len(cuda.launches) == 3


def test_a_stride_that_is_no_whole_number_of_elements_is_an_error(tuned, cupy):
    x = cupy.ndarray((16, 64), "float32", strides=(258, 4))
    with pytest.raises(ValueError, match="x: expected x_stride to be a whole number of elements, 4 bytes each, found"):
        tuned.apart(x, 2.0)


def test_only_what_the_spec_names_may_lie_apart(tuned, array):
    x = array((16, 64), strides=(128, 1))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^pkg\.tuned\.row_sums: x: expected a C-contiguous array, found strides"):
            tuned.row_sums(x, array((64,)))
    planes, y = array((2, 3, 32), strides=(96, 48, 1)), array((2, 3, 32))
    with pytest.raises(ValueError, match=r"x: expected an array that is C-contiguous but for x_plane, found"):
        tuned.planes(y, planes)


def test_a_lazy_view_whose_rows_lie_apart_is_refused_by_every_path(tuned, torch, cuda):
    x = torch.Tensor((16, 1), strides=(2, 2))
    for _ in range(4):
        tuned.apart(x, 2.0)
    x.lazy = "negative"
    with pytest.raises(ValueError, match="x: expected elements as they lie in memory, found a lazy negative"):
        tuned.apart(x, 2.0)
    assert len(cuda.launches) == 4


def test_a_sparse_tensor_is_refused(tuned, torch):
    x = torch.Tensor((16, 64))
    x.layout = "torch.sparse_coo"
    with pytest.raises(ValueError, match=r"x: expected a dense tensor, found one of torch.sparse_coo; pass x.to_dense"):
        tuned.apart(x, 2.0)


def test_strides_of_several_dims(tuned, array, cuda):
    y, x = array((2, 3, 32), strides=(200, 40, 1)), array((2, 3, 32), strides=(128, 32, 1))
    for _ in range(3):
        tuned.planes(y, x)
        assert cuda.launches[-1].arguments[3:] == (200, 40, 128, 3, 16)
    for strides, message in (
        ((111, 40, 1), r"y_plane of at least 112 elements"),
        ((200, 41, 1), r"requires y_row % 2 == 0, found y_row=41 of y"),
        ((2**40, 2**33, 1), r"y_row of y: expected at most 2147483647 \(int32\), found 8589934592"),
    ):
        with pytest.raises(ValueError, match=message):
            tuned.planes(array((2, 3, 32), strides=strides), array((2, 3, 32)))


def test_arrays_whose_rows_lie_apart_overlap_by_all_that_they_reach_over(tuned, array, cuda):
    x = array((16, 64), strides=(128, 1))
    last = address(x) + 4 * (15 * 128 + 64)
    for _ in range(3):
        for shift, shares in ((0, True), (4 * 64 - 4, True), (-4, True), (4 * 64, False)):
            y = array((16, 64), address=address(x) + shift, strides=(128, 1))
            cuda.addresses[address(y)] = 0
            if shares:
                with pytest.raises(ValueError, match=r"y: shares memory with x"):
                    tuned.apart(x, 2.0, y=y)
            else:  # the other half of the same rows
                assert tuned.apart(x, 2.0, y=y) is y
        behind = array((16, 64), address=last)
        cuda.addresses[last] = 0
        tuned.apart(x, 2.0, y=behind)
        with pytest.raises(ValueError, match=r"y: shares memory with x"):
            tuned.apart(x, 2.0, y=array((16, 64), address=last - 8))


def test_strides_are_a_part_of_explain_and_of_the_docstring(tuned):
    facts = {"rows": 16, "cols": 64, "T": "float32"}
    assert tuned.explain("apart", **facts).problem["x_stride"] == 64
    found = tuned.explain("apart", x_stride=128, **facts)
    assert (found.problem["x_stride"], found.problem["y_stride"]) == (128, 64)
    assert "x_stride=128, y_stride=64) on" in str(found)
    for wrong in (63, True, "64", 64.0):
        with pytest.raises(TypeError, match=rf"x_stride: expected at least 64 elements, found {wrong!r}"):
            tuned.explain("apart", x_stride=wrong, **facts)
    assert list(inspect.signature(tuned.apart).parameters) == ["x", "a", "y", "stream"]
    assert "x: Array of T with shape (rows..., cols) and any x_stride." in inspect.getdoc(tuned.apart)


def test_a_guard_on_a_stride_is_judged_by_that_of_the_call_by_every_path(tuned, array, cuda):
    y = array((24, 64))
    given = [(array((24, 64), strides=(pitch, 1)) if pitch != 64 else array((24, 64)), pitch) for pitch in (64, 66, 68)]
    images = {}
    for _ in range(4):
        for x, pitch in given:
            tuned.apart(x, 2.0, y=y)
            assert cuda.launches[-1].arguments[3:] == (64, pitch, 64)
            images.setdefault(pitch, set()).add(cuda.launches[-1].image)
    assert images[64] == images[68] != images[66]
    assert {len(found) for found in images.values()} == {1}
    facts = {"rows": 24, "cols": 64, "T": "float32", "device": sample.H100.name}
    assert tuned.explain("apart", **facts).configuration["vec"] == 4
    found = tuned.explain("apart", y_stride=66, **facts)
    assert found.configuration["vec"] == 1
    assert any(why.endswith("'y_stride % vec == 0 or wrong == 'assumes'' does not hold") for why in found.why)


def test_an_array_that_is_changed_in_place_may_be_left_out(tuned, array, cuda):
    x, total = array((4096,)), array((4096,))
    for given in (None, total, total, None, None, total, total):  # from the beginning, then by fast paths
        y, returned = tuned.accumulated(x, total=given)
        assert returned is given
        passed = 0 if given is None else address(total)
        assert cuda.launches[-1].arguments == (address(y), passed, address(x), 4096)
    assert tuned.accumulated.bind(x)()[1] is None
    with pytest.raises(ValueError, match="total: shares memory with x, and an array that is written must not overlap"):
        tuned.accumulated(x, total=x)
    with pytest.raises(ValueError, match=r"total: expected shape \(n,\) = \(4096,\), found \(4095,\)"):
        tuned.accumulated(x, total=array((4095,)))
