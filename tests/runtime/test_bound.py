"""`bind`, `prepare` and graph capture: what is done ahead of a call, and what a call may do then."""

import gc
import importlib
import struct
import threading
import weakref

import pytest

from fake_torch import FakeTorch

CAPTURED = 66


def runtime(tuned, name):
    """Return a module of the package's runtime."""
    return importlib.import_module(f"{tuned.__name__}._runtime.{name}")


def arrays(cupy, cols=1024, dtype="float32", device=0):
    return [cupy.ndarray((16, cols), dtype, device=device) for _ in range(2)]


def in_thread(work):
    """Run `work` in a thread of its own, which has no context; raise what it raises."""
    failures = []

    def guarded():
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    for error in failures:
        raise error


@pytest.fixture(params=[1, 2], ids=["one GPU", "two GPUs"])
def gpus(request, cuda):
    del cuda.devices[request.param :]
    return request.param


@pytest.fixture(params=[True, False], ids=["CuPy's launch", "ctypes"])
def direct(request, cupy):
    if not request.param:
        del cupy.cuda.driver.launchKernel
    return request.param


# Bound calls.


def test_a_bound_call_launches_what_the_call_launches_and_returns_its_output(tuned, cupy, cuda, gpus, direct):
    x, y = arrays(cupy)
    tuned.affine(x, 2.5, relu=False, y=y)
    bound = tuned.affine.bind(x, 2.5, relu=False, y=y)
    assert len(cuda.launches) == 1
    for _ in range(3):
        assert bound() is y
    assert len(cuda.launches) == 4
    assert all(launch == cuda.launches[0] for launch in cuda.launches)
    assert (cuda.direct > 0) is direct


def test_a_bound_call_with_zeros_scratch_and_several_launches(tuned, cupy, cuda, gpus, direct):
    total, x = cupy.ndarray((2,), "float32"), cupy.ndarray((65536, 2), "float32")
    bound = tuned.accumulate.bind(total, x)
    allocated = list(cupy.allocated)
    assert [shape for shape, *_ in allocated] == [(1,), (64 * 2 * 4,)]
    assert cuda.events == []
    for _ in range(2):
        first, last = bound()
        assert first is total
        assert cuda.events == ["memset", "memset", "partials", "finish"]
        partial = cuda.launches[-1].arguments[2]
        assert cuda.launches[-1].arguments == (total.data.ptr, last.data.ptr, partial)
        assert cuda.memsets == [(last.data.ptr, 0, 4, 0), (partial, 0, 64 * 2 * 4, 0)]
        cuda.events.clear()
        cuda.memsets.clear()
    assert cupy.allocated == allocated


def test_a_bound_call_from_threads_that_have_no_context(tuned, cupy, cuda, gpus, direct):
    x, y = arrays(cupy)
    total, rows = cupy.ndarray((2,), "float32"), cupy.ndarray((65536, 2), "float32")
    for bound in (tuned.affine.bind(x, 1.0, relu=False, y=y), tuned.accumulate.bind(total, rows)):
        bound()
        own = len(cuda.launches)
        in_thread(bound)
        assert [launch.arguments for launch in cuda.launches[own:]] == [one.arguments for one in cuda.launches[:own]]
        cuda.launches.clear()


def test_a_bound_call_launches_on_its_own_device_and_leaves_the_threads(tuned, cupy, cuda, direct):
    driver = runtime(tuned, "driver").driver("test")
    bound = [tuned.affine.bind(*arrays(cupy, device=device)[:1], 1.0, relu=False) for device in (0, 1)]
    for current in (0, 1):
        with driver.on(current):
            for device in (0, 1):
                assert bound[device]().data.device_id == device
                assert (cuda.launches[-1].device, cuda.device) == (device, current)


def test_a_bound_call_may_be_launched_by_several_threads_at_once(tuned, cupy, cuda, gpus, direct):
    x, y = arrays(cupy)
    bound = tuned.affine.bind(x, 2.0, relu=False, y=y)
    depth = []

    def call_elsewhere():
        if len(depth) < 3:
            depth.append(1)
            in_thread(bound)

    cuda.during = call_elsewhere
    bound()
    assert [launch.arguments for launch in cuda.launches] == [(y.data.ptr, x.data.ptr, 2.0, 16, 1024)] * 4


def test_arrays_and_scratch_live_as_long_as_the_bound_call(tuned, cupy, cuda):
    total, x = cupy.ndarray((2,), "float32"), cupy.ndarray((65536, 2), "float32")
    rooms, empty = [], cupy.empty

    def watched(shape, dtype):
        room = empty(shape, dtype)
        rooms.append(weakref.ref(room))
        return room

    cupy.empty = watched
    bound = tuned.accumulate.bind(total, x)
    watch = [weakref.ref(total), weakref.ref(x), *rooms]
    del total, x
    gc.collect()
    assert len(watch) == 4
    assert all(one() is not None for one in watch)
    bound()
    del bound
    gc.collect()
    assert [one() for one in watch] == [None] * 4


def test_the_stream_is_fixed_when_the_call_is_bound(tuned, cupy, cuda, gpus):
    x, y = arrays(cupy)
    with cupy.cuda.Stream(5):
        current = tuned.affine.bind(x, 1.0, relu=False, y=y)
    given = tuned.affine.bind(x, 1.0, relu=False, y=y, stream=cupy.cuda.Stream(6))
    with cupy.cuda.Stream(7):
        current()
        given()
    assert [launch.stream for launch in cuda.launches] == [5, 6]


def test_a_bound_call_of_pytorch(tuned, cuda, monkeypatch, gpus, direct):
    torch = FakeTorch()
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    x, y = torch.Tensor((16, 1024)), torch.Tensor((16, 1024))
    with torch.cuda.stream(torch.cuda.Stream(9)):
        bound = tuned.affine.bind(x, 1.0, relu=False, y=y)
    assert bound() is y
    assert (cuda.launches[0].stream, cuda.launches[0].arguments[:2]) == (9, (y.data_ptr(), x.data_ptr()))


def test_a_bound_call_whose_grid_is_empty(tuned, cupy, cuda):
    bound = tuned.accumulate.bind(cupy.ndarray((2,), "float32"), cupy.ndarray((0, 2), "float32"))
    _, last = bound()
    assert (cuda.launches, cuda.memsets) == ([], [(last.data.ptr, 0, 4, 0)])


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((None, 1.0), {}, "pkg.tuned.affine: x: expected an array on the GPU"),
        (("x", "1"), {}, "pkg.tuned.affine: alpha: expected float32"),
        (("x", 1.0), {"y": "x"}, "pkg.tuned.affine: y: shares memory with x"),
        (("x", 1.0), {"stream": "7"}, "pkg.tuned.affine: stream: expected a CuPy or PyTorch stream"),
    ],
)
def test_what_is_wrong_with_a_call_is_told_when_it_is_bound(tuned, cupy, cuda, arguments, keywords, message):
    x = cupy.ndarray((16, 1024), "float32")
    given = [x if one == "x" else one for one in arguments]
    options = {name: x if one == "x" else one for name, one in keywords.items()}
    with pytest.raises(tuned.PretunedError) as caught:
        tuned.affine.bind(*given, relu=False, **options)
    assert str(caught.value).startswith(message)
    assert cuda.launches == []


def test_what_the_driver_refuses_a_bound_call_is_named(tuned, cupy, cuda, gpus, direct):
    bound = tuned.affine.bind(arrays(cupy)[0], 1.0, relu=False)
    cuda.status = 700
    for run in (bound, lambda: in_thread(bound)):
        with pytest.raises(
            RuntimeError, match=r"^pkg\.tuned\.affine: the driver refused the launch: CUDA_ERROR_ILL"
        ) as e:
            run()
        assert isinstance(e.value, tuned.PretunedError)


def test_a_bound_call_keeps_the_configuration_that_it_was_bound_with(tuned, cupy, cuda):
    x, y = arrays(cupy)
    with tuned.using(affine={"block": 64, "vec": 1}):
        bound = tuned.affine.bind(x, 1.0, relu=False, y=y)
    bound()
    tuned.use(defaults=True)
    bound()
    assert [launch.block[0] for launch in cuda.launches] == [64, 64]


# Prepared devices.


def loads(cuda):
    return sorted(image.rstrip("\0") for image in cuda.loaded)


def test_a_prepared_device_has_all_that_fits_loaded_and_nothing_else(tuned, cupy, cuda):
    tuned.prepare()
    shipped = {(kernel.name, one.source) for kernel in (tuned._affine, tuned._accumulate) for one in kernel.shipped}
    fitting = [source for _, source in shipped if any(name == "sm_90" for name, *_ in tuned._BINARIES[source][2])]
    assert len(cuda.loaded) == len(fitting) == len(shipped) - 1  # the A100's winner is no cubin for this device
    assert all(image.endswith("sm_90") for image in loads(cuda))
    assert cupy.compiled == []
    assert cuda.launches == []


def test_a_kernel_is_prepared_alone(tuned, cuda):
    tuned.accumulate.prepare()
    assert len(cuda.loaded) == 4
    assert {name for name, *_ in cuda._functions.values()} == {"accumulate", "partials", "finish"}


def test_after_it_calls_load_nothing_and_may_be_captured(tuned, cupy, cuda):
    tuned.prepare()
    cuda.captured = {CAPTURED}
    before = len(cuda.loaded)
    x, y = arrays(cupy)
    total, last = cupy.ndarray((2,), "float32"), cupy.ndarray((1,), "float32")
    with cupy.cuda.Stream(CAPTURED):
        for _ in range(3):
            tuned.affine(x, 1.0, relu=False, y=y)
            tuned.affine(x, 1.0, relu=True, y=y)
            tuned.accumulate(total, cupy.ndarray((300, 2), "float32"), last=last)
    assert len(cuda.launches) == 9
    assert {launch.stream for launch in cuda.launches} == {CAPTURED}
    assert len(cuda.loaded) == before
    assert cupy.allocated == []


def test_another_device_is_prepared_by_its_number_and_the_threads_stays(tuned, cupy, cuda):
    tuned.affine.prepare(1)
    assert cuda.device is None
    assert {device for _, _, device in cuda._functions.values()} == {1}
    before = len(cuda.loaded)
    tuned.affine(cupy.ndarray((16, 1024), "float32", device=1), 1.0, relu=False)
    assert len(cuda.loaded) == before


@pytest.mark.parametrize("device", [-1, 2])
def test_a_device_that_is_not_there_cannot_be_prepared(tuned, device):
    with pytest.raises(ValueError, match=f"pkg.tuned.affine: prepare: expected a device from 0 to 1, found {device}"):
        tuned.affine.prepare(device)


@pytest.mark.filterwarnings("ignore:.*no row for the device")
def test_where_nothing_fits_the_defaults_alone_are_compiled(tuned, cupy, cuda):
    cuda.devices[0].update({"name": "old", 75: 7, 76: 5})
    with pytest.warns(UserWarning, match="was compiled for 'old' while the program runs"):
        tuned.affine.prepare()
    assert len(cupy.compiled) == 4  # one for each specialisation
    cuda.captured = {CAPTURED}
    x, y = arrays(cupy)
    tuned.affine(x, 1.0, relu=False, y=y, stream=CAPTURED)
    assert len(cupy.compiled) == 4


def test_what_the_driver_refuses_while_preparing_is_named(tuned, cuda, monkeypatch):
    monkeypatch.setattr(cuda, "cuKernelGetFunction", lambda *_: 700)
    with pytest.raises(tuned.PretunedError, match=r"sm_90.cubin: cuKernelGetFunction: CUDA_ERROR_ILLEGAL_ADDRESS\n"):
        tuned.affine.prepare()


# Graph capture.


@pytest.mark.parametrize("bind", [True, False])
def test_a_call_that_would_have_to_load_under_capture_says_what_to_do(tuned, cupy, cuda, bind):
    cuda.captured = {CAPTURED}
    x, y = arrays(cupy)
    call = tuned.affine.bind if bind else tuned.affine
    message = (
        r"^pkg\.tuned\.affine: its code has to be loaded, which cannot be done while a graph is captured; call "
        r"affine\.prepare\(\) before the capture, or affine once$"
    )
    for _ in range(2):
        with pytest.raises(RuntimeError, match=message) as caught:
            call(x, 1.0, relu=False, y=y, stream=cupy.cuda.Stream(CAPTURED))
        assert type(caught.value).__name__ == "CaptureError"
        assert isinstance(caught.value, tuned.PretunedError)
    assert cuda.loaded == cuda.launches == []
    tuned.affine(x, 1.0, relu=False, y=y)
    call(x, 1.0, relu=False, y=y, stream=cupy.cuda.Stream(CAPTURED))


def scratch_of(cupy, cuda, run):
    """Return weak references to the scratch that `run` allocates."""
    rooms, empty = [], cupy.empty

    def watched(shape, dtype):
        room = empty(shape, dtype)
        if str(dtype) == "uint8":
            rooms.append(weakref.ref(room))
        return room

    cupy.empty = watched
    try:
        run()
    finally:
        cupy.empty = empty
    gc.collect()
    return rooms


@pytest.mark.parametrize("before", [0, 3])
def test_a_graph_keeps_the_scratch_of_the_calls_in_it(tuned, cupy, cuda, before, fast_path_on):
    total, last, x = (cupy.ndarray(shape, "float32") for shape in ((2,), (1,), (65536, 2)))
    tuned.prepare()

    def call(stream=None):
        tuned.accumulate(total, x, last=last, stream=stream)

    for _ in range(before):  # by the fast path too
        call()
    allocated = scratch_of(cupy, cuda, call)
    assert len(allocated) == (0 if before and fast_path_on else 1)
    assert all(room() is None for room in allocated)
    cuda.captured = {CAPTURED}
    (kept,) = scratch_of(cupy, cuda, lambda: call(CAPTURED))
    with cupy.cuda.Stream(CAPTURED):
        (other,) = scratch_of(cupy, cuda, call)
    assert kept().data.ptr != other().data.ptr
    tuned.use(defaults=True)  # plans are made anew; the graph has theirs still
    tuned.use()
    gc.collect()
    assert kept() is not None
    assert other() is not None


@pytest.mark.parametrize("replayed", [True, False])
def test_a_graph_keeps_the_scratch_of_a_bound_call_in_it(tuned, cupy, cuda, replayed):
    bound = []
    shapes = ((2,), (65536, 2))

    def bind():
        arrays = [cupy.ndarray(shape, "float32") for shape in shapes]
        bound.append(tuned.accumulate.bind(*arrays, stream=CAPTURED))

    (room,) = scratch_of(cupy, cuda, bind)
    bound[0]()
    if replayed:
        cuda.captured = {CAPTURED}
        bound[0]()
        bound[0]()
    bound.clear()
    gc.collect()
    assert (room() is not None) is replayed


def test_a_bound_block_holds_what_was_packed(tuned, cupy, cuda):
    x, y = arrays(cupy)
    bound = [tuned.affine.bind(x, alpha, relu=False, y=y) for alpha in (0.0, -0.0, 1.5)]
    for one in bound * 2:
        one()
    found = [struct.pack("=f", launch.arguments[2]) for launch in cuda.launches]
    assert found == [struct.pack("=f", alpha) for alpha in (0.0, -0.0, 1.5)] * 2
