"""The fast path: calls that come again give what the slow path gives, whatever libraries and the driver offer."""

import importlib
import itertools
import linecache
import math
import re
import struct
import sys
import threading
import traceback
from pathlib import Path

import pytest

from fake_cupy import external
from fake_torch import FakeTorch

OFFERS = [
    pytest.param(
        offer,
        id=f"{offer[0]} GPUs, {'CuPy' if offer[1] else 'ctypes'}, {'flag' if offer[2] else 'flags'}",
    )
    for offer in itertools.product((1, 2), (True, False), (True, False))
]
TWICE = (True, False)


def runtime(tuned, name):
    """Return a module of the package's runtime."""
    return importlib.import_module(f"{tuned.__name__}._runtime.{name}")


@pytest.fixture
def slow(monkeypatch):
    """Return what counts the calls of a package that go by the path from the beginning."""

    def slow(tuned):
        counted, caller = [], runtime(tuned, "calls").Caller
        whole = caller.slow

        def slow(self, *call):
            counted.append(self.kernel.name)
            return whole(self, *call)

        monkeypatch.setattr(caller, "slow", slow)
        return counted

    return slow


@pytest.fixture
def torch(cuda, monkeypatch):
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.fixture
def one_gpu(cuda):
    del cuda.devices[1:]


def without_launch_kernel(cupy):
    del cupy.cuda.driver.launchKernel


def calls(tuned, array):
    """Yield one call of each kind with the launches it makes: function, grid, block, and arguments after the arrays."""
    x, total = array((16, 1024), "float32"), array((2,), "float32")

    def affine(x, alpha, **options):
        y = tuned.affine(x, alpha, **options)
        return [y, x]

    def accumulate(x):
        result = tuned.accumulate(total, x)
        return [*result, x]

    def fresh():
        return array((16, 1024), "float32")

    yield lambda: affine(fresh(), 2.5, relu=False), [("affine", (16, 2, 1), 128, (2.5, 16, 1024))]
    yield lambda: affine(fresh(), 3, relu=False), [("affine", (16, 2, 1), 128, (3.0, 16, 1024))]
    yield lambda: affine(fresh(), 0.5, relu=True), [("affine", (16, 8, 1), 128, (0.5, 16, 1024))]
    yield lambda: affine(array((16, 64), "float32"), 1.0, relu=False), [("affine", (16, 1, 1), 64, (1.0, 16, 64))]
    yield lambda: affine(array((16, 1024), "float16"), 1.0, relu=False), [("affine", (16, 8, 1), 128, (1.0, 16, 1024))]
    yield lambda: affine(x, 1.5, relu=False, y=fresh()), [("affine", (16, 2, 1), 128, (1.5, 16, 1024))]
    yield lambda: accumulate(array((300, 2), "float32")), [("accumulate", (3, 1, 1), 128, (300,))]
    yield (
        lambda: accumulate(array((65536, 2), "float32")),
        [("partials", (64, 1, 1), 2, (65536,)), ("finish", (1, 1, 1), 2, ())],
    )


def check_all(tuned, cuda, array, address, rounds=5):
    """Make every call `rounds` times over, and hold each launch against what it has to be."""
    for _ in range(rounds):
        for call, launches in calls(tuned, array):
            cuda.launches.clear()
            passed = [address(one) for one in call()]
            found = [(one.function, one.grid, one.block[0]) for one in cuda.launches]
            assert found == [launch[:3] for launch in launches]
            if len(launches) == 1:
                assert cuda.launches[0].arguments == (*passed, *launches[0][3])
            else:
                partial = cuda.launches[0].arguments[0]
                assert cuda.launches[0].arguments == (partial, passed[-1], 65536)
                assert cuda.launches[1].arguments == (*passed[:2], partial)
                assert (partial, 0, 64 * 2 * 4, 0) in cuda.memsets


@pytest.fixture(params=OFFERS)
def with_cupy(request, load, baked, cupy, cuda, monkeypatch):
    """The package where CuPy and the machine offer this and not that, and whether CuPy's own launch is there."""
    gpus, direct, flag = request.param
    del cuda.devices[gpus:]
    if not direct:
        without_launch_kernel(cupy)
    if not flag:
        monkeypatch.delattr(cupy.ndarray, "_c_contiguous")
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return load(baked), direct


def test_the_same_calls_whatever_cupy_and_the_machine_offer(with_cupy, cupy, cuda, slow, fast_path_on):
    tuned, direct = with_cupy
    counted = slow(tuned)
    check_all(tuned, cuda, cupy.ndarray, lambda one: one.data.ptr, rounds=2)
    before = len(counted)
    check_all(tuned, cuda, cupy.ndarray, lambda one: one.data.ptr)
    if fast_path_on:
        assert len(counted) == before
        assert (cuda.direct > 0) is direct


@pytest.fixture(params=itertools.product((1, 2), TWICE), ids=str)
def with_torch(request, load, baked, torch, cuda, monkeypatch):
    """The package in a process with PyTorch and without CuPy."""
    gpus, raw = request.param
    del cuda.devices[gpus:]
    if not raw:
        vars(torch._C).clear()
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return load(baked)


def test_the_same_calls_with_pytorch(with_torch, torch, cuda, slow, fast_path_on):
    tuned = with_torch
    counted = slow(tuned)
    check_all(tuned, cuda, torch.Tensor, torch.Tensor.data_ptr, rounds=2)
    before = len(counted)
    check_all(tuned, cuda, torch.Tensor, torch.Tensor.data_ptr)
    assert len(counted) == before or not fast_path_on
    x = torch.Tensor((16, 1024))
    with torch.cuda.stream(torch.cuda.Stream(9)):
        for _ in range(2):
            tuned.affine(x, 1.0, relu=False)
            assert (cuda.launches[-1].stream, torch.allocated[-1][2]) == (9, 9)
    tuned.affine(x, 1.0, relu=False, stream=torch.cuda.Stream(7), y=torch.Tensor((16, 1024)))
    assert cuda.launches[-1].stream == 7


def test_a_tensor_that_requires_a_gradient_is_refused_where_autograd_would_record(
    with_torch, torch, cuda, slow, fast_path_on
):
    """Also by the fast path, which knows the problem and the address."""
    tuned, x = with_torch, torch.Tensor((16, 1024))
    for _ in range(3):
        tuned.affine(x, 1.0, relu=False)
    before = len(cuda.launches)
    x.requires_grad = True
    with pytest.raises(ValueError, match=re.escape("x: requires a gradient, and autograd does not record this call")):
        tuned.affine(x, 1.0, relu=False)
    with pytest.raises(ValueError, match="requires a gradient"):
        tuned.affine.bind(x, 1.0, relu=False)
    assert len(cuda.launches) == before
    counted = slow(tuned)
    with torch.no_grad():
        for _ in range(3):
            tuned.affine(x, 1.0, relu=False)
    assert len(cuda.launches) == before + 3
    assert not counted or not fast_path_on


@pytest.mark.usefixtures("fast_path")
def test_both_libraries_in_one_process(tuned, cupy, torch, cuda, slow):
    counted = slow(tuned)
    for _ in range(3):
        for array, address in ((cupy.ndarray, lambda one: one.data.ptr), (torch.Tensor, torch.Tensor.data_ptr)):
            x = array((16, 1024), "float32")
            y = tuned.affine(x, 1.0, relu=False)
            assert type(y) is array
            assert cuda.launches[-1].arguments[:2] == (address(y), address(x))
    assert len(counted) == 3  # one for the problem, one for each library's fast path
    x, y = cupy.ndarray((16, 1024), "float32"), torch.Tensor((16, 1024))
    assert tuned.affine(x, 1.0, relu=False, y=y) is y  # neither library's own, and right
    assert cuda.launches[-1].arguments[:2] == (y.data_ptr(), x.data.ptr)


@pytest.mark.usefixtures("fast_path")
def test_it_is_opened_at_the_second_call_of_a_problem(tuned, cupy, slow):
    counted = slow(tuned)
    for cols, after in ((64, [1, 2, 2, 2]), (1024, [3, 4, 4]), (64, [4])):
        for wanted in after:
            tuned.affine(cupy.ndarray((16, cols), "float32"), 1.0, relu=False)
            assert len(counted) == wanted


@pytest.mark.usefixtures("fast_path")
def test_types_stand_in_one_chain_under_their_extents(tuned, cupy, cuda, slow):
    half = cupy.ndarray((16, 1024), "float16")
    with pytest.warns(UserWarning, match="no row for the device"):
        tuned.affine(half, 1.0, relu=False)
    counted = slow(tuned)
    for _ in range(4):
        for dtype, grid in (("float16", (16, 8, 1)), ("float32", (16, 2, 1))):
            tuned.affine(cupy.ndarray((16, 1024), dtype), 1.0, relu=False)
            assert cuda.launches[-1].grid == grid
        with pytest.raises(TypeError, match="expected dtype float16 or float32, found float64"):
            tuned.affine(cupy.ndarray((16, 1024), "float64"), 1.0, relu=False)
        with pytest.raises(TypeError, match=r"y: expected dtype float32 \(T\), found float16"):
            tuned.affine(cupy.ndarray((16, 1024), "float32"), 1.0, relu=False, y=half)
    assert counted.count("affine") == 3 + 4 * 2  # of the float16's second call, the float32's two, and the errors
    (path,) = runtime(tuned, "calls").caller(tuned._affine).paths.values()
    (memo,) = path.memos.values()
    (entry,) = memo.values()
    assert {entry[0].name, entry[1][0].name} == {"float16", "float32"}
    assert entry[1][1] is None


@pytest.mark.usefixtures("fast_path")
@pytest.mark.parametrize("direct", TWICE)
def test_calls_that_come_again_are_packed_once(tuned, cupy, cuda, direct, monkeypatch):
    if not direct:
        without_launch_kernel(cupy)
    made, plans = [], runtime(tuned, "plans")
    block = plans.PreparedLaunch.block
    monkeypatch.setattr(plans.PreparedLaunch, "block", lambda self: made.append(1) or block(self))
    arrays = [[cupy.ndarray((16, 1024), "float32") for _ in range(2)] for _ in range(3)]
    for count in (2, 4):
        for alpha in (1.0, 2.0, -math.inf):
            for x, y in arrays:
                for _ in range(count):
                    tuned.affine(x, alpha, relu=False, y=y)
                    assert cuda.launches[-1].arguments == (y.data.ptr, x.data.ptr, alpha, 16, 1024)
    assert len(made) == 1 + 9  # one that is packed at every call, and one for each of what came again


@pytest.mark.parametrize("direct", TWICE)
def test_numbers_that_equal_each_other_are_not_mixed_up(tuned, cupy, cuda, direct):
    if not direct:
        without_launch_kernel(cupy)
    x, y = (cupy.ndarray((16, 1024), "float32") for _ in range(2))
    values = [0.0, -0.0, math.nan, -math.nan, 0, False, True, 1, 1.0, math.inf, -math.inf, 5e-324, -1.0]
    for order in (values, values[::-1], values * 3, values[::2] * 3, [0.0] * 4 + [-0.0] * 4):
        for alpha in order:
            tuned.affine(x, alpha, relu=False, y=y)
            found = cuda.launches[-1].arguments[2]
            assert struct.pack("=f", found) == struct.pack("=f", struct.unpack("=f", struct.pack("=f", alpha))[0])


@pytest.mark.usefixtures("fast_path")
def test_what_does_not_come_again_leaves_no_blocks_behind(tuned, cupy, cuda, monkeypatch):
    packed = runtime(tuned, "fastpath.packed")
    monkeypatch.setattr(packed, "PACKED", 8)
    kept = []
    monkeypatch.setattr(
        runtime(tuned, "fastpath.paths"),
        "PackedCalls",
        lambda *a, **k: kept.append(packed.PackedCalls(*a, **k)) or kept[-1],
    )
    x, y = (cupy.ndarray((16, 1024), "float32") for _ in range(2))
    for number in range(1, 40):
        for _ in range(4):
            tuned.affine(x, float(number), relu=False, y=y)
            assert cuda.launches[-1].arguments[2] == number
            assert all(len(one.known) <= 8 and len(one._noted) <= 8 for one in kept)
    assert len(kept) == 1


def test_overrides_that_come_and_go_leave_no_plans_behind(tuned, cupy, cuda):
    for number in range(200):
        with tuned.using(defaults=["affine"] * number):
            for _ in range(3):
                tuned.affine(cupy.ndarray((16, 64), "float32"), 1.0, relu=False)
                assert cuda.launches[-1].block == ((128 if number else 64), 1, 1)
    caller = runtime(tuned, "calls").caller(tuned._affine)
    assert len(caller.plans) <= 64
    assert all(len(path.memos) <= 64 for path in caller.paths.values())


@pytest.mark.parametrize("direct", TWICE)
def test_a_thread_that_has_no_context_yet(tuned, cupy, cuda, one_gpu, direct):
    if not direct:
        without_launch_kernel(cupy)

    def work():
        for _ in range(2):
            tuned.affine(cupy.ndarray((16, 1024), "float32"), 1.0, relu=False)
            tuned.accumulate(cupy.ndarray((2,), "float32"), cupy.ndarray((300, 2), "float32"))  # zeros its output
            tuned.accumulate(cupy.ndarray((2,), "float32"), cupy.ndarray((65536, 2), "float32"))  # has scratch

    for _ in range(2):
        work()
    for one in range(3):
        failures = []

        def guarded(first=one, failures=failures):
            try:
                tuned.accumulate(cupy.ndarray((2,), "float32"), cupy.ndarray(([300, 65536, 9][first], 2), "float32"))
                work()
            except Exception as error:  # noqa: BLE001 - a thread's error is the test's
                failures.append(error)

        before = len(cuda.launches)
        thread = threading.Thread(target=guarded)
        thread.start()
        thread.join()
        assert failures == []
        assert len(cuda.launches) - before == 2 * 4 + [1, 2, 1][one]


def test_a_stream_that_an_array_names_is_waited_for_in_a_thread_that_has_no_context(tuned, cupy, cuda):
    facts = {"shape": (16, 1024), "typestr": "<f4", "strides": None, "version": 3}
    x = external(facts | {"data": (1 << 41, False), "stream": 9})
    y = external(facts | {"data": (2 << 41, False)})
    assert tuned.affine(x, 1.0, relu=False, y=y, stream=7) is y
    assert cuda.events == ["record on 9", "7 waits", "affine"]


def test_a_thread_without_a_context_is_left_on_the_first_device(tuned, cupy, cuda):
    found = []

    def work():
        for device in (1, 0, 1):
            tuned.affine(cupy.ndarray((16, 1024), "float32", device=device), 1.0, relu=False)
            found.append((cuda.launches[-1].device, cuda.device))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(1, None), (0, 0), (1, 0)]


@pytest.mark.usefixtures("fast_path")
@pytest.mark.parametrize("direct", TWICE)
def test_it_serves_the_current_device_and_another_device_is_still_served(tuned, cupy, cuda, slow, direct):
    if not direct:
        without_launch_kernel(cupy)
    counted = slow(tuned)
    driver = runtime(tuned, "driver").driver("test")
    for current in (0, 1):
        with cupy.cuda.Device(current), driver.on(current):
            for _ in range(4):
                for device in (0, 1):
                    x = cupy.ndarray((16, 1024), "float32", device=device)
                    y = tuned.affine(x, 1.0, relu=False)
                    assert cuda.launches[-1].device == y.data.device_id == device
                    assert cuda.device == current
    assert len(counted) == 4 + 4 + 2  # on the other device, two of each problem's


REFUSALS = [  # what the driver refuses, how, and the name it goes by
    ("cuLaunchKernelEx", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ("cuLaunchKernelEx", 999, "CUresult 999"),
    ("cuMemsetD8Async", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ("cuStreamIsCapturing", 700, "cuStreamIsCapturing: CUDA_ERROR_ILLEGAL_ADDRESS"),
    ("cuCtxSetCurrent", 201, "cuCtxSetCurrent: CUDA_ERROR_INVALID_CONTEXT"),
]


@pytest.fixture(params=itertools.product(TWICE, (0, 1, 2, 4)), ids=str)
def two_calls(request, tuned, cupy, one_gpu):
    """Calls of each kernel, made some times before: with one launch, and with zeros, scratch and two."""
    direct, before = request.param
    if not direct:
        without_launch_kernel(cupy)
    total, last, x = (cupy.ndarray(shape, "float32") for shape in ((2,), (1,), (65536, 2)))
    y, z = (cupy.ndarray((16, 1024), "float32") for _ in range(2))

    def accumulate():
        tuned.accumulate(total, x, last=last)

    def affine():
        tuned.affine(y, 1.0, relu=False, y=z)

    for _ in range(before):
        accumulate()
        affine()
    return affine, accumulate


@pytest.mark.parametrize(("refusing", "status", "named"), REFUSALS)
def test_what_the_driver_refuses_is_named(two_calls, cuda, monkeypatch, refusing, status, named):
    if refusing in {"cuLaunchKernelEx", "cuCtxSetCurrent"}:
        cuda.status = status
    if refusing == "cuCtxSetCurrent":
        monkeypatch.setattr(cuda, "cuCtxGetCurrent", lambda found: setattr(found._obj, "value", None) or 0)
    cuda.refusing[refusing] = status  # of functions that are found once
    monkeypatch.setattr(cuda, refusing, lambda *_: status)
    for call in two_calls if cuda.status else two_calls[1:]:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=f"the driver refused the launch: {re.escape(named)}$") as caught:
                call()
            assert type(caught.value).__name__ == "LaunchError"
            assert str(caught.value).startswith(f"pkg.tuned.{call.__name__}: ")


def test_a_block_is_nobody_elses_while_the_driver_reads_it(tuned, cupy, cuda):
    """In the middle of one launch, before its arguments are read, another thread makes the same call with its own."""
    arrays = [cupy.ndarray((16, 1024), "float32") for _ in range(4)]
    depth = []

    def call_elsewhere():
        if len(depth) < 3:
            depth.append(1)
            x, y = arrays[2], arrays[3]
            thread = threading.Thread(target=lambda: tuned.affine(x, 7.0, relu=False, y=y))
            thread.start()
            thread.join()

    for _ in range(6):
        cuda.during = call_elsewhere
        depth.clear()
        cuda.launches.clear()
        tuned.affine(arrays[0], 3.0, relu=False, y=arrays[1])
        inner, outer = cuda.launches[:-1], cuda.launches[-1]
        assert outer.arguments == (arrays[1].data.ptr, arrays[0].data.ptr, 3.0, 16, 1024)
        assert {one.arguments for one in inner} == {(arrays[3].data.ptr, arrays[2].data.ptr, 7.0, 16, 1024)}


@pytest.mark.usefixtures("fast_path")
def test_a_traceback_shows_its_source(tuned, cupy, cuda):
    x = cupy.ndarray((16, 1024), "float32")
    for _ in range(3):
        tuned.affine(x, 1.0, relu=False)
    with pytest.raises(tuned.PretunedError) as caught:
        tuned.affine(x, "two", relu=False)
    shown = "".join(traceback.format_exception(caught.value))
    assert 'File "<pkg.tuned.affine, cupy>"' in shown
    assert "return slow((a0, a1), (s0,), (k0,), stream)" in shown


GOLDEN = Path(__file__).parent / "golden" / "affine_fast_path.txt"  # which the documentation shows


@pytest.mark.usefixtures("fast_path")
def test_its_source_reads_as_documented(tuned, cupy, one_gpu):
    for _ in range(2):
        tuned.affine(cupy.ndarray((16, 1024), "float32"), 1.0, relu=False)
    assert "".join(linecache.getlines("<pkg.tuned.affine, cupy>")) == GOLDEN.read_text()


@pytest.mark.usefixtures("fast_path")
def test_its_source_holds_no_text_of_the_spec(tuned, cupy, one_gpu):
    """Names come from specs, and sizes from calls; the source has neither."""
    for _ in range(2):
        tuned.accumulate(cupy.ndarray((2,), "float32"), cupy.ndarray((65536, 2), "float32"))
    source = "".join(linecache.getlines("<pkg.tuned.accumulate, cupy>"))
    assert source.startswith("def call(a0, a1, a2, stream):\n")
    assert not re.search(r"total|last|lanes|partial|65536|float32|['\"]", source)
