"""The bundled scan: the same bits at each call, calls on several streams and in graphs, the ends of tiles, wrapping."""

from __future__ import annotations

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")
kernels = pytest.importorskip("pretuned.kernels", reason="pretuned is not installed, so nothing is baked")

pytestmark = pytest.mark.gpu
LARGE = 20_000_003
TURNS = 30


def whole(n, dtype="float32", seed=1):
    """Whole numbers, whose sums float32 has exactly, and these sums."""
    host = np.random.default_rng(seed).integers(-8, 9, n)
    return cupy.asarray(host.astype(dtype)), cupy.asarray(np.cumsum(host))


def test_a_call_has_the_same_bits_each_time():
    x = cupy.random.default_rng(3).standard_normal(LARGE, dtype=cupy.float32)
    first = kernels.scan(x).view(cupy.uint32)
    for _ in range(TURNS):
        assert bool((kernels.scan(x).view(cupy.uint32) == first).all())


def test_scans_on_two_streams_and_in_graphs_do_not_meet():
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    cases = [(*whole(LARGE - 70_001 * place, seed=place), stream) for place, stream in enumerate(streams)]
    outs, graphs = [], []
    for x, _, stream in cases:
        with stream:
            outs.append([kernels.scan(x), cupy.empty_like(x)])
            stream.begin_capture()
            kernels.scan(x, out=outs[-1][1])
            graphs.append(stream.end_capture())
    cupy.cuda.Device().synchronize()
    for _ in range(TURNS):
        for (x, _, stream), (out, _), graph in zip(cases, outs, graphs, strict=True):
            kernels.scan(x, out=out, stream=stream)
            graph.launch(streams[0])
            graph.launch(stream)
    cupy.cuda.Device().synchronize()
    for (_, sums, _), both in zip(cases, outs, strict=True):
        assert all(bool((out == sums).all()) for out in both)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_around_the_ends_of_tiles_and_vectors(dtype, exclusive):
    base, _ = whole(300_000, dtype)
    for tile in (32, 4096, 8192, 16_384, 65_536, 262_144):
        for n in (tile - 1, tile, tile + 1, tile + 5):
            for begin, shift in ((0, 0), (1, 1), (3, 2)):
                x, memory = base[begin : begin + n], cupy.full(n + shift + 1, 77, dtype)
                out = kernels.scan(x, exclusive, out=memory[shift : shift + n])
                wanted = cupy.cumsum(x, dtype=dtype)
                wanted = wanted - x if exclusive else wanted
                assert bool((out == wanted).all()), (n, begin, shift)
                assert [int(memory[i]) for i in (*range(shift), -1)] == [77] * (shift + 1)


def test_integers_wrap_around():
    x = cupy.full(100_000, 2**30, cupy.int32)
    assert bool((kernels.scan(x) == cupy.cumsum(x, dtype=cupy.int64).astype(cupy.int32)).all())
