"""cuBLAS at all 64 inputs, as pretuned times a kernel: `python cublas_peer.py > cublas.json`, microseconds by input.

A sample is one replay of a CUDA graph of several `torch.mm` over rotating buffers, three times L2 in all, after L2 was
swept; the median of nine.
"""

from __future__ import annotations

import json
import math
import statistics
import sys

import torch
from problems import INPUTS, label

SAMPLES = 9
SAMPLE_US = 400.0
MOST = 50  # launches in a graph
L2_FACTOR = 3
SWEEP_FACTOR = 2


def elapsed_us(work) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def capture(buffers, launches: int) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(launches):
            a, b, c = buffers[index % len(buffers)]
            torch.mm(a, b, out=c)
    graph.replay()
    return graph


def time_us(m: int, n: int, k: int, swept: torch.Tensor, l2_bytes: int) -> float:
    set_bytes = 2 * (m * k + k * n + m * n)
    count = max(2, min(MOST, math.ceil(L2_FACTOR * l2_bytes / set_bytes)))
    shapes = ((m, k), (k, n), (m, n))
    buffers = [[torch.randn(s, device="cuda", dtype=torch.float16) for s in shapes] for _ in range(count)]
    torch.mm(buffers[0][0], buffers[0][1], out=buffers[0][2])
    torch.cuda.synchronize()
    estimate = elapsed_us(capture(buffers, 2).replay) / 2
    launches = max(2, min(MOST, math.ceil(SAMPLE_US / estimate)))
    graph = capture(buffers, launches)
    taken = []
    for _ in range(SAMPLES):
        swept.sum()
        taken.append(elapsed_us(graph.replay) / launches)
    return statistics.median(taken)


def main() -> int:
    facts = torch.cuda.get_device_properties(0)
    swept = torch.ones(SWEEP_FACTOR * facts.L2_cache_size // 4, device="cuda")
    times = {label(m, n, k): time_us(m, n, k, swept, facts.L2_cache_size) for m, n, k in INPUTS}
    json.dump({"device": facts.name, "torch": torch.__version__, "time_us": times}, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
