"""Calls of the bundled kernels on a GPU: threads, streams, captures, PyTorch's tensors, other libraries' arrays."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")
kernels = pytest.importorskip("pretuned.kernels")

pytestmark = pytest.mark.gpu
THREADS = 8
MIXED = 2000
SAME = 125_000
RING = 1000  # outputs of a thread before they are looked at


def close(found, wanted, rtol=1e-5):
    found, wanted = cupy.asnumpy(found).astype(np.float64), np.asarray(wanted, np.float64)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * max(1e-30, float(np.sqrt((wanted**2).mean()))))


def problems():
    """Yield (name, call, what it gives) of every bundled kernel at a few sizes."""
    draw = cupy.random.default_rng(7)
    for n in (1000, 4096, 100_000):
        x, y = draw.standard_normal(n, dtype=cupy.float32), draw.standard_normal(n, dtype=cupy.float32)
        yield "axpby", (x, y, 2.0, 3.0), cupy.asnumpy(2 * x.astype("d") + 3 * y.astype("d"))
        yield "reduce_sum", (x,), cupy.asnumpy(x.astype("d").sum(keepdims=True))
    for rows, cols in ((5, 100), (64, 1024), (33, 4096)):
        x = draw.standard_normal((rows, cols), dtype=cupy.float32)
        wide = cupy.asnumpy(x.astype("d"))
        exps = np.exp(wide - wide.max(1, keepdims=True))
        yield "row_softmax", (x,), exps / exps.sum(1, keepdims=True)
        yield "transpose", (x,), wide.T
    for m, n, k in ((128, 64, 96), (200, 300, 100)):
        a, b = draw.standard_normal((m, k), dtype=cupy.float32), draw.standard_normal((k, n), dtype=cupy.float32)
        yield "sgemm", (a, b), cupy.asnumpy(a).astype(np.float64) @ cupy.asnumpy(b).astype(np.float64)


def in_threads(work):
    failures = []

    def run(index):
        try:
            work(index)
        except BaseException as error:  # noqa: BLE001 - a thread's error is the test's
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_mixed_kernels_and_sizes_from_threads_on_two_streams():
    given = list(problems())
    cupy.cuda.runtime.deviceSynchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]

    def work(index):
        with streams[index % 2] as stream:
            outputs = [None] * len(given)
            for turn in range(MIXED):
                place = (turn * 7 + index) % len(given)
                name, arguments, _ = given[place]
                outputs[place] = getattr(kernels, name)(*arguments)
                if turn % 100 == 99:
                    stream.synchronize()
                    for (_, _, wanted), found in zip(given, outputs, strict=True):
                        if found is not None:
                            close(found, wanted, 1e-4)

    in_threads(work)


def test_one_kernel_from_threads_with_pointers_of_their_own():
    n = 64

    def work(index):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            x, y = cupy.full(n, index + 1, cupy.float32), cupy.zeros(n, cupy.float32)
            ring = cupy.empty((RING, n), cupy.float32)
            rows = [ring[i] for i in range(RING)]
            for begin in range(0, SAME, RING):
                for i, row in enumerate(rows):
                    kernels.axpby(x, y, float((begin + i) % 1021), 1.0, out=row)
                wanted = (cupy.arange(begin, begin + RING) % 1021).astype(cupy.float32)[:, None] * (index + 1)
                assert bool((ring == wanted).all()), (index, begin)
            stream.synchronize()

    in_threads(work)


@pytest.mark.parametrize(("name", "arguments", "wanted"), list(problems()) if cupy.cuda.is_available() else [])
def test_a_captured_call_replays(name, arguments, wanted):
    kernel = getattr(kernels, name)
    kernel.prepare()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        out = kernel(*arguments)
        out.fill(0)
        keyword = "c" if name == "sgemm" else "out"
        stream.begin_capture()
        kernel(*arguments, **{keyword: out})
        graph = stream.end_capture()
        for _ in range(3):
            out.fill(0)
            graph.launch(stream)
            close(out, wanted, 1e-4)


@pytest.mark.parametrize(("name", "arguments", "wanted"), list(problems()) if cupy.cuda.is_available() else [])
def test_a_bound_call_launches_anywhere_and_allocates_nothing(name, arguments, wanted):
    pool = cupy.get_default_memory_pool()
    bound = getattr(kernels, name).bind(*arguments)
    gc.collect()  # what earlier tests have left is freed now, and not meanwhile
    held = pool.used_bytes(), pool.total_bytes()
    found = []
    thread = threading.Thread(target=lambda: found.append(bound()))
    thread.start()
    thread.join()
    assert (pool.used_bytes(), pool.total_bytes()) == held
    cupy.cuda.runtime.deviceSynchronize()
    close(found[0], wanted, 1e-4)


def test_after_prepare_a_call_with_its_output_allocates_nothing():
    x = cupy.ones((77, 1024), cupy.float32)
    out, pool = cupy.empty_like(x), cupy.get_default_memory_pool()
    kernels.prepare()
    gc.collect()
    held = pool.used_bytes(), pool.total_bytes()
    for _ in range(3):
        kernels.row_softmax(x, out=out)
    assert (pool.used_bytes(), pool.total_bytes()) == held
    close(out, np.full((77, 1024), 1 / 1024))


def test_a_call_that_has_to_load_under_capture_says_so():
    code = (
        "import cupy, pretuned.kernels as k\n"
        "x = cupy.ones((8, 128), cupy.float32); out = cupy.empty_like(x)\n"
        "stream = cupy.cuda.Stream(non_blocking=True)\n"
        "cupy.cuda.runtime.deviceSynchronize()\n"
        "with stream:\n"
        "    stream.begin_capture()\n"
        "    try:\n        k.row_softmax(x, out=out)\n"
        "    except k.PretunedError as error:\n        print(type(error).__name__, error)\n"
        "    stream.end_capture()\n"
        "k.row_softmax.prepare()\n"
        "with stream:\n"
        "    stream.begin_capture(); k.row_softmax(x, out=out); graph = stream.end_capture()\n"
        "    graph.launch(stream); stream.synchronize()\n"
        "print(float(out.sum()))\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith("CaptureError pretuned.kernels.row_softmax: its code has to be loaded")
    assert told.splitlines()[-1] == "8.0"


def test_a_tuned_device_never_loads_nvrtc():
    code = (
        "import cupy, pretuned.kernels as k\n"
        "x = cupy.asarray(__import__('numpy').ones((8, 128), 'float32'))\n"
        "k.row_softmax(x); cupy.cuda.runtime.deviceSynchronize()\n"
        "print('libnvrtc' in open('/proc/self/maps').read())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


class Wrapped:
    """An array of another library, by the CUDA array interface alone."""

    def __init__(self, array, stream=None):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | {"stream": stream}


def test_arrays_of_other_libraries():
    x = cupy.arange(1000, dtype=cupy.float32)
    out = cupy.empty_like(x)
    kernels.axpby(Wrapped(x), Wrapped(x), 1.0, 1.0, out=Wrapped(out))
    close(out, 2 * np.arange(1000))
    made = kernels.axpby(Wrapped(x), x, 1.0, 1.0)
    assert isinstance(made, cupy.ndarray)
    close(made, 2 * np.arange(1000))


def test_an_array_that_names_its_stream_is_waited_for():
    slow, x = cupy.cuda.Stream(non_blocking=True), cupy.zeros(1 << 24, cupy.float32)
    out = cupy.empty_like(x)
    cupy.cuda.runtime.deviceSynchronize()
    for value in (1.0, 2.0, 3.0):
        with slow:
            for _ in range(50):
                x.fill(0)
            x.fill(value)
        kernels.axpby(Wrapped(x, slow.ptr), Wrapped(x, slow.ptr), 1.0, 0.0, out=out)
        cupy.cuda.get_current_stream().synchronize()
        assert float(out.min()) == value
        slow.synchronize()


def test_streams_of_several_kinds():
    x, out = cupy.ones(4096, cupy.float32), cupy.zeros(4096, cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.runtime.deviceSynchronize()
    for given in (stream, stream.ptr, SimpleNamespace(__cuda_stream__=lambda: (0, stream.ptr))):
        kernels.axpby(x, x, 1.0, 1.0, out=out, stream=given)
        stream.synchronize()
        assert float(out.sum()) == 8192
        out.fill(0)
        cupy.cuda.runtime.deviceSynchronize()
    made = kernels.axpby(x, x, 1.0, 1.0, stream=stream)
    stream.synchronize()  # the sum runs on the current stream, which does not wait for this one
    assert float(made.sum()) == 8192


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_tensors_in_tensors_out(torch):
    for dtype, rtol in ((torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 1e-2)):
        x, y = torch.randn(10_000, device="cuda").to(dtype), torch.randn(10_000, device="cuda").to(dtype)
        out = kernels.axpby(x, y, 2.0, 3.0)
        assert isinstance(out, torch.Tensor)
        assert out.dtype == dtype
        close(out.double().cpu().numpy(), 2 * x.double().cpu().numpy() + 3 * y.double().cpu().numpy(), rtol)
    parameter = torch.nn.Parameter(torch.ones(64, 128, device="cuda"), requires_grad=False)
    close(kernels.row_softmax(parameter).cpu().numpy(), np.full((64, 128), 1 / 128))


def test_a_tensor_that_requires_a_gradient_is_refused_where_autograd_would_record(torch):
    x, y = torch.randn(4096, device="cuda"), torch.randn(4096, device="cuda")
    for _ in range(3):  # into the fast path
        kernels.axpby(x, y, 2.0, 3.0)
    x.requires_grad_()
    with pytest.raises(
        ValueError, match=r"x: requires a gradient.*pass x\.detach\(\), or call under torch\.no_grad\(\)"
    ):
        kernels.axpby(x, y, 2.0, 3.0)
    with pytest.raises(ValueError, match="requires a gradient"):
        kernels.axpby(x + y, y, 2.0, 3.0)  # not a leaf
    for without in (torch.no_grad, torch.inference_mode):
        with without():
            made = kernels.axpby(x, y, 2.0, 3.0)
            torch.testing.assert_close(made, 2 * x + 3 * y)
    assert not kernels.axpby(x.detach(), y, 2.0, 3.0).requires_grad

    class Axpby(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return kernels.axpby(x, y, 2.0, 3.0)

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad, 3 * grad

    Axpby.apply(x, y).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 2.0))


def test_tensors_are_worked_on_in_the_order_of_their_stream(torch):
    x, stream = torch.zeros(1 << 22, device="cuda"), torch.cuda.Stream()
    out = torch.empty_like(x)
    torch.cuda.synchronize()
    for value in range(1, 20):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000)  # a millisecond in which a launch elsewhere would read too early
            x.fill_(float(value))
            kernels.axpby(x, x, 1.0, 0.0, out=out)
            doubled = out + out
        stream.synchronize()
        assert float(doubled.min()) == float(doubled.max()) == 2.0 * value


def test_a_torch_graph_replays(torch):
    x, out = torch.randn(64, 1024, device="cuda"), torch.empty(64, 1024, device="cuda")
    kernels.row_softmax.prepare()
    kernels.reduce_sum.prepare()
    total = torch.empty(1, device="cuda")
    flat = x.view(-1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.row_softmax(x, out=out)
        kernels.reduce_sum(flat, out=total)
        made = kernels.row_softmax(x)
    for _ in range(3):
        x.copy_(torch.randn(64, 1024, device="cuda"))
        graph.replay()
        torch.testing.assert_close(out, torch.softmax(x, 1), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(made, torch.softmax(x, 1), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(total, flat.sum().reshape(1), rtol=1e-4, atol=1e-2)


def test_both_libraries_by_turns(torch):
    x, t = cupy.ones(4096, cupy.float32), torch.ones(4096, device="cuda")
    for _ in range(3):
        assert isinstance(kernels.axpby(x, x, 1.0, 1.0), cupy.ndarray)
        assert isinstance(kernels.axpby(t, t, 1.0, 1.0), torch.Tensor)
    close(kernels.axpby(x, t, 1.0, 1.0), np.full(4096, 2.0))


def test_two_devices_in_one_process(torch):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU here")
    for _ in range(3):
        for ordinal in (0, 1):
            with cupy.cuda.Device(ordinal):
                x = cupy.full((64, 1024), ordinal + 1.0, cupy.float32)
            with cupy.cuda.Device(1 - ordinal):  # called with the other one current
                out = kernels.row_softmax(x)
                assert cupy.cuda.runtime.getDevice() == 1 - ordinal
                assert out.device.id == ordinal
            with cupy.cuda.Device(ordinal):
                close(out, np.full((64, 1024), 1 / 1024))
                bound = kernels.row_softmax.bind(x, out=out)
                out.fill(0)
            bound()
            with cupy.cuda.Device(ordinal):
                close(out, np.full((64, 1024), 1 / 1024))
            t = torch.full((4096,), ordinal + 1.0, device=f"cuda:{ordinal}")
            made = kernels.axpby(t, t, 1.0, 1.0)
            assert made.device.index == ordinal
            assert float(made.sum()) == 4096 * 2 * (ordinal + 1)
    with cupy.cuda.Device(0):
        x = cupy.ones(64, cupy.float32)
    with cupy.cuda.Device(1):
        y = cupy.ones(64, cupy.float32)
    with pytest.raises(ValueError, match="expected device 0 as x has, found device 1"):
        kernels.axpby(x, y, 1.0, 1.0)


def test_two_devices_from_threads():
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU here")

    def work(index):
        with cupy.cuda.Device(index % 2), cupy.cuda.Stream(non_blocking=True):
            x = cupy.full(4096, index + 1, cupy.float32)
            for turn in range(500):
                assert float(kernels.axpby(x, x, float(turn), 1.0)[-1]) == (index + 1) * (turn + 1)

    in_threads(work)
