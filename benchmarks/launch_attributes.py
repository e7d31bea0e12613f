"""What launch attributes give: `python benchmarks/launch_attributes.py`, on a GPU of compute capability 9.0 or newer.

out[i] = x[i]^2 + x[i + 1]^2 by two dependent launches, each of which may begin early (`overlap`), beside the same two
in plain order; a cooperative launch; launches of clusters. Each runs many times in a row: in a stream, behind a kernel
that holds the device until all are enqueued, and as a CUDA graph that is replayed. Prints microseconds a call on the
device: the median of the rounds, a tenth below it, a tenth above. What a replay wrote is compared with NumPy.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from baking import baked, texts

KERNELS = Path(__file__).parents[1] / "tests" / "gpu" / "launches"
ROUNDS = 21
CALLS = 200  # of two launches each: fewer than the driver's queue holds
HELD_NS = 5_000_000  # longer than it takes to enqueue them
SIZES = (1_000, 100_000, 1_000_000)
HOLD = """\
extern "C" __global__ void hold(long long ns) {
    long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < ns);
}
"""
OVERLAP = 'overlap   = "pdl"\n'


def kernels() -> dict[str, str]:
    """Return the files of the kernels, and of `in_order`, which is `early` without its attribute."""
    found = texts(KERNELS, ("early", "grid_sum", "cluster_rows"))
    assert found["early.toml"].count(OVERLAP) == 2
    in_order = found["early.toml"].replace(OVERLAP, "")
    return found | {"in_order.toml": in_order, "in_order.cu.jinja": found["early.cu.jinja"]}


class Timed:
    """A call on a stream and as a graph of many of it; `wanted` is what it computes."""

    def __init__(self, name: str, call: Callable[[], object], out: Any, wanted: Any, stream: Any) -> None:
        self.name, self.out, self.wanted, self.stream = name, out, wanted, stream
        self.call, self.hold = call, cupy.RawKernel(HOLD, "hold")
        call()
        stream.begin_capture()
        for _ in range(CALLS):
            call()
        self.graph = stream.end_capture()
        self.us: dict[str, list[float]] = {"stream": [], "graph": []}

    def round(self) -> None:
        """Take a sample of both ways."""
        self.us["stream"].append(self._between(lambda: [self.call() for _ in range(CALLS)]))
        self.out[...] = 0
        self.us["graph"].append(self._between(lambda: self.graph.launch(self.stream)))
        np.testing.assert_allclose(cupy.asnumpy(self.out), self.wanted, rtol=1e-3, atol=1e-2)

    def _between(self, enqueue: Callable[[], object]) -> float:
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        self.hold((1,), (1,), (np.int64(HELD_NS),))
        first.record(self.stream)
        enqueue()
        last.record(self.stream)
        last.synchronize()
        return float(cupy.cuda.get_elapsed_time(first, last)) * 1e3 / CALLS

    def line(self, way: str) -> str:
        """Return the line of one way."""
        low, *_, high = statistics.quantiles(self.us[way][1:], n=10)
        return f"{self.name:34} {way:7} {statistics.median(self.us[way][1:]):8.2f} us ({low:.2f}, {high:.2f})"


def prepared(package: Any, stream: Any) -> list[Timed]:
    """Return all that is timed, the pairs beside each other."""
    found = []

    def add(name: str, kernel: Any, x: Any, out: Any, wanted: Any) -> None:
        kernel.prepare()
        found.append(Timed(name, kernel.bind(x, out=out), out, wanted, stream))

    for n in SIZES:
        x = cupy.random.default_rng(5).standard_normal(n, dtype=cupy.float32)
        wide = cupy.asnumpy(x).astype(np.float64)
        for name in ("in_order", "early"):
            add(f"{name}, n={n:,}", getattr(package, name), x, cupy.empty_like(x), wide**2 + np.roll(wide, -1) ** 2)
    ones = cupy.ones(1_000_000, cupy.float32)
    add("cooperative grid_sum, n=1,000,000", package.grid_sum, ones, cupy.empty(1, cupy.float32), np.array([1e6]))
    rows = cupy.ones((100, 10_000), cupy.float32)
    add("cluster_rows, 100 x 10,000", package.cluster_rows, rows, cupy.empty(100, cupy.float32), np.full(100, 1e4))
    return found


def main() -> None:
    """Bake the kernels, time them in turns, and print the table."""
    os.environ["PRETUNED_WARN"] = "0"  # that there are no rows
    stream = cupy.cuda.Stream(non_blocking=True)
    with tempfile.TemporaryDirectory() as folder, stream:
        listed = prepared(baked(Path(folder), "attributed", kernels(), cupy.cuda.Device().compute_capability), stream)
        for _ in range(ROUNDS + 1):  # the first warms up
            for one in listed:
                one.round()
    for one in listed:
        print(one.line("stream"))
        print(one.line("graph"))


if __name__ == "__main__":
    main()
