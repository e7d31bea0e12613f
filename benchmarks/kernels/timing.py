"""Device time of contestants: graphs of launches that rotate through cold arrays, replayed in interleaved rounds.

A contestant is a list of calls, one for each set of its arrays; a graph has so many launches of them in turn. The sets
of all together pass three times L2, or there are as many as launches, and before each sample a sweep reads twice L2: so
no launch finds anything of its arrays in the cache. Rounds go through all contestants in turn, each time beginning with
another, so that drifting clocks meet all alike. The median of the rounds counts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import torch

Calls = Sequence[Callable[[], object]]
ROUNDS = 7
SLOW_ROUNDS = 3
SLOW = 2.5  # times the fastest: what is slower gets fewer rounds
SAMPLE_US = 300.0
MOST = 50  # launches in a graph
LEAST = 3
L2_FACTOR = 3
SWEEP_FACTOR = 2
BYTES_A_US = 2.5e6
FLOPS_A_US = 4e7


class Bench:
    """Captures and times, on a stream of its own."""

    def __init__(self) -> None:
        self.l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self.stream = torch.cuda.Stream()
        self._swept = torch.ones(SWEEP_FACTOR * self.l2_bytes // 4, device="cuda")

    def launches(self, nbytes: float, flops: float = 0.0) -> int:
        """Return how many launches a graph has, by what they have to do at least."""
        estimate = 1.5 + max(nbytes / BYTES_A_US, flops / FLOPS_A_US)
        return max(LEAST, min(MOST, math.ceil(SAMPLE_US / estimate)))

    def sets(self, nbytes: float, launches: int) -> int:
        """Return how many sets of arrays keep that many launches cold."""
        return min(launches, max(2, math.ceil(L2_FACTOR * self.l2_bytes / max(1.0, nbytes))))

    def capture(self, calls: Calls, launches: int) -> tuple[torch.cuda.CUDAGraph, list[object]]:
        """Return a graph of the calls in turn, and what they returned, which must live as long."""
        graph = torch.cuda.CUDAGraph()  # without torch.cuda.graph, which collects garbage each time
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            graph.capture_begin(capture_error_mode="relaxed")  # libraries may allocate
            try:
                kept = [calls[index % len(calls)]() for index in range(launches)]
            finally:
                graph.capture_end()
            graph.replay()
        self.stream.synchronize()
        return graph, kept

    def warm_up(self, call: Callable[[], object]) -> object:
        """Call once outside of graphs, on their stream, where libraries compile."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            result = call()
        self.stream.synchronize()
        return result

    def sample_us(self, graph: torch.cuda.CUDAGraph) -> float:
        """Return the time of one replay."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(self.stream):
            self._swept.sum()
            start.record()
            graph.replay()
            end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    def race(self, graphs: Mapping[str, torch.cuda.CUDAGraph], launches: int) -> dict[str, float]:
        """Return the median time of a launch of each, in microseconds."""
        taken: dict[str, list[float]] = {name: [] for name in graphs}
        names = list(graphs)
        for turn in range(ROUNDS if names else 0):
            fastest = min((statistics.median(times) for times in taken.values() if times), default=math.inf)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                if turn >= SLOW_ROUNDS and statistics.median(taken[name]) > SLOW * fastest:
                    continue
                taken[name].append(self.sample_us(graphs[name]) / launches)
        return {name: statistics.median(times) for name, times in taken.items()}
