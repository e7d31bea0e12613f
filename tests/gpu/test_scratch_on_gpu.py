"""Scratch that calls share by their streams: many calls from many threads, graphs captured and replayed meanwhile."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parent / "scratch"
THREADS = 8
CALLS = 125_000  # of each thread
RING = 250  # outputs of a thread before they are looked at
SIZE = 4096
GRAPHS = 20  # rounds between captures


def resident_bytes():
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


def wanted(values):
    """The sums that calls with these inputs give: whole numbers, so that no order of additions shows."""
    return cupy.asarray([SIZE * values[place % len(values)] for place in range(RING)], cupy.float32)[:, None]


def inputs(index):
    values = [8 * index + place + 1 for place in range(8)]
    return values, [cupy.full(SIZE, value, cupy.float32) for value in values]


def replayed(tuned, stream, xs, sums):
    """Capture two calls on a stream, and replay them on another while calls go on."""
    *outs, spare = [cupy.zeros(1, cupy.float32) for _ in range(3)]
    other = cupy.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    for x, out in zip(xs, outs, strict=False):
        tuned.total(x, out=out)
    graph = stream.end_capture()
    stream.synchronize()
    for _ in range(3):
        graph.launch(other)
        tuned.total(xs[2], out=spare, stream=stream)  # beside the graph
    other.synchronize()
    assert [float(out[0]) for out in outs] == sums[:2]


def test_a_million_calls_from_threads_that_share_streams(tuned):
    shared = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    places = [*[shared[0]] * 4, *[shared[1]] * 2, cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.null]
    failures, held = [], {}
    ready, pool = threading.Barrier(THREADS), cupy.get_default_memory_pool()

    def rounds(index, count):
        values, xs = inputs(index)
        ring, sums = cupy.empty((RING, 1), cupy.float32), wanted(values)
        rows = [ring[place] for place in range(RING)]
        own = index == 6
        places[index].synchronize()
        for turn in range(count):
            for place, row in enumerate(rows):
                tuned.total(xs[place % 8], out=row)
            assert bool((ring == sums).all()), (index, turn)
            if own and turn % GRAPHS == 0:
                replayed(tuned, places[index], xs, [float(SIZE * value) for value in values])

    def work(index):
        try:
            with places[index]:
                rounds(index, 20)
                if ready.wait() == 0:
                    gc.collect()
                    held.update(gpu=pool.total_bytes(), host=resident_bytes())
                ready.wait()
                rounds(index, CALLS // RING)
        except BaseException as error:  # noqa: BLE001 - a thread's error is the test's
            failures.append(error)
            ready.abort()

    tuned.prepare()
    cupy.cuda.runtime.deviceSynchronize()
    threads = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    gc.collect()
    assert pool.total_bytes() - held["gpu"] <= 1 << 21
    assert resident_bytes() - held["host"] <= 1 << 26


def test_tensors_of_a_graph_of_pytorch_keep_their_scratch(tuned):
    torch = pytest.importorskip("torch")
    x, out = torch.ones(SIZE, device="cuda"), torch.zeros(1, device="cuda")
    for _ in range(3):
        assert float(tuned.total(x)) == SIZE
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tuned.total(x, out=out)
    for value in (2.0, 3.0):
        x.fill_(value)
        graph.replay()
        assert float(tuned.total(torch.full_like(x, 7.0))) == 7 * SIZE
        assert float(out) == value * SIZE


def test_scratch_on_another_device_and_back(tuned):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU")
    for _ in range(3):
        for ordinal in (0, 1):
            with cupy.cuda.Device(ordinal):
                x = cupy.full(SIZE, ordinal + 1, cupy.float32)
                bound = tuned.total.bind(x)
                assert float(tuned.total(x)[0]) == SIZE * (ordinal + 1)
            with cupy.cuda.Device(1 - ordinal):  # not where its arrays are
                out = bound()
                assert float(tuned.total(x)[0]) == SIZE * (ordinal + 1)
            with cupy.cuda.Device(ordinal):
                assert float(out[0]) == SIZE * (ordinal + 1)
