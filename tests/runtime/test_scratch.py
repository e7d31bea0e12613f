"""Scratch that calls of the fast path share: whose it is, while threads, streams and captures come and go."""

import importlib
import random
import sys
import threading

import pytest

import attributed
import fake_cuda

CAPTURED = 77
ROWS = (65536, 2)  # of which a call has two launches, `partials` into scratch and `finish` out of it
pytestmark = pytest.mark.usefixtures("fast_path")


@pytest.fixture(params=[1, 2], ids=["one GPU", "two GPUs"])
def gpus(request, cuda):
    del cuda.devices[request.param :]


@pytest.fixture(params=[True, False], ids=["CuPy's launch", "ctypes"])
def direct(request, cupy):
    if not request.param:
        del cupy.cuda.driver.launchKernel


@pytest.fixture
def accumulate(gpus, direct, tuned, cupy):
    """Return what makes a call for new arrays; the fast path knows its problem."""

    def made():
        arrays = [cupy.ndarray(shape, "float32") for shape in ((2,), ROWS, (1,))]
        return lambda stream=None: tuned.accumulate(*arrays[:2], last=arrays[2], stream=stream)

    for _ in range(3):
        made()()
    cupy.allocated.clear()
    return made


def scratch_of(cuda):
    """Return the scratch of each call so far, its stream first; its second launch reads what its first one wrote."""
    found = []
    for first, second in zip(cuda.launches[::2], cuda.launches[1::2], strict=True):
        assert (first.function, second.function) == ("partials", "finish")
        assert (first.stream, first.arguments[0]) == (second.stream, second.arguments[2])
        found.append((first.stream, first.arguments[0]))
    return found


def test_calls_on_a_stream_share_it_and_allocate_nothing(accumulate, cupy, cuda):
    calls = [accumulate() for _ in range(3)]
    cuda.launches.clear()
    for _ in range(4):
        for call in calls:
            call()
    assert len(set(scratch_of(cuda))) == 1
    assert cupy.allocated == []


def test_scratch_of_no_bytes_costs_a_call_nothing(load, cupy, cuda, monkeypatch, tmp_path):
    monkeypatch.setitem(fake_cuda.SIGNATURES, "affine", "QQiQ")
    scratch = 'scratch = [{ name = "partial", dtype = "float32", shape = ["n if n > 1024 else 0"] }]'
    launch = 'arguments = ["out", "x", "n", "partial"]'
    kernel = load(attributed.package(tmp_path / "made", launch, 2, scratch=scratch)).wide
    direct = []
    for n in (1024, 65536):
        x, out = (cupy.ndarray((n,), "float32") for _ in range(2))
        for _ in range(4):
            kernel(x, out=out)
        direct.append(cuda.direct)
        kernel.bind(x, out=out)()
    partials = [launched.arguments[3] for launched in cuda.launches]
    assert partials[:5] == [0] * 5
    assert all(partials[5:])
    assert all(nbytes >= 65536 * 4 for (nbytes,), _, _ in cupy.allocated)
    assert direct[0] > 0  # a launch alone, as of kernels without scratch


def test_each_stream_has_its_own(accumulate, cupy, cuda):
    call = accumulate()
    cuda.launches.clear()
    for stream in (5, 6, 0) * 4:
        call(stream)
        with cupy.cuda.Stream(stream + 10):
            call()
    by_stream = dict(scratch_of(cuda))
    assert sorted(by_stream) == [0, 5, 6, 10, 15, 16]
    assert len(set(scratch_of(cuda))) == len(set(by_stream.values())) == 6
    assert sorted(stream for _, _, stream in cupy.allocated) == [5, 6, 10, 15, 16]  # on the stream that it is for


def test_the_stream_of_each_thread_keeps_none(accumulate, cupy, cuda):
    call = accumulate()
    for _ in range(3):
        call(2)
    assert [stream for *_, stream in cupy.allocated] == [2] * 3


def test_what_is_captured_has_its_own_for_good(accumulate, cupy, cuda):
    call = accumulate()
    call(CAPTURED)
    cuda.launches.clear()
    for _ in range(3):
        cuda.captured = {CAPTURED}
        call(CAPTURED)
        call(CAPTURED)
        cuda.captured = set()
        call(CAPTURED)
    rooms = [room for _, room in scratch_of(cuda)]
    eager = rooms[2::3]
    assert len(set(eager)) == 1
    assert len(set(rooms)) == 7


def test_a_call_in_the_middle_of_another_has_its_own(accumulate, cuda):
    """Two threads enqueue on one stream, the second between the launches of the first."""
    calls = [accumulate() for _ in range(2)]
    launches = []

    def meanwhile():
        if len(launches) == len(cuda.launches):
            return
        launches[:] = cuda.launches
        if cuda.launches[-1].function == "partials" and threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=calls[1], args=(5,))
            thread.start()
            thread.join()

    for _ in range(4):
        cuda.launches.clear()
        launches.clear()
        cuda.during = meanwhile
        calls[0](5)
        outer, *inner, last = cuda.launches
        assert outer.arguments[0] == last.arguments[2]
        assert [one.function for one in inner] == ["partials", "finish"]
        assert inner[0].arguments[0] == inner[1].arguments[2] != outer.arguments[0]


def test_large_scratch_is_not_kept_and_streams_are_not_without_end(accumulate, tuned, cupy, cuda, monkeypatch):
    scratch = importlib.import_module(f"{tuned.__name__}._runtime.fastpath.scratch")
    call = accumulate()
    monkeypatch.setattr(scratch, "STREAMS", 4)
    for stream in range(100, 120):
        call(stream)
    (kept,) = [streams for streams in scratch._kept.values() if streams]
    assert sorted(kept) == list(range(116, 120))
    monkeypatch.setattr(scratch, "LARGEST", 256)
    cupy.allocated.clear()
    for _ in range(3):
        call(99)
    assert len(cupy.allocated) == 3
    assert 99 not in kept


def test_threads_streams_and_captures_at_once(accumulate, cuda):
    """Between its launches nobody else writes a call's scratch: not another thread, stream or graph."""
    written, wrong, one_at_a_time = {}, [], threading.Lock()  # scratch -> the stream and thread that wrote it last
    cuda.captured = {1000, 1001, 1002, 1003}

    def watched(launch):
        writer = launch.stream, threading.get_ident()
        with one_at_a_time:
            if launch.function == "finish":
                wrong.extend([launch] if written[launch.arguments[2]] != writer else [])
                return
            stream, _ = written.get(launch.arguments[0], writer)
            if stream != launch.stream or (stream in cuda.captured and launch.arguments[0] in written):
                wrong.append(launch)
            written[launch.arguments[0]] = writer

    def work(index):
        draw, call = random.Random(index), accumulate()
        for _ in range(300):
            call(draw.choice([0, 5, 6, 1000 + index % 4]))

    cuda.after = watched
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert len(cuda.launches) >= 2 * 8 * 300
    rooms = 3 * 8  # and the first calls of each thread, which take the general path, have scratch of their own
    assert len([1 for stream, _ in written.values() if stream not in cuda.captured]) <= rooms + 8 * 2
