"""Timing on the device: CUDA graph replay over rotating buffers, cold caches, interleaved rounds. Uses CuPy.

Theory of operation. A *sample* is one replay of a graph of several launches between two events, so that what the host
takes for a launch does not count. Launch i of the graph works on buffer set i modulo the number of sets. Before each
sample, outside the timed span, the L2 cache is swept: a kernel reads twice its size. One sweep serves a whole sample,
whose launches touch different sets; it leaves no dirty lines behind (a memset would, and the first launches would pay
for their write-back), and it keeps the device busy while the host enqueues the events and the graph. In-out arrays are
given their values back before the sample too, so a kernel with them has at most one launch a set.

A *round* takes one sample of every kernel, in an order that turns by one each round: what drifts (clocks, temperature,
a neighbour's load) hits all alike, and the ratio of two kernels is taken within rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import cupy

from pretuned.measure.arena import Arena
from pretuned.measure.cuda.judge import Judge
from pretuned.measure.cuda.kernel import Kernel
from pretuned.measure.requests import PROBE_LAUNCHES

SAMPLE_US: Final = 400.0  # of device time a sample: long against the 0.5 us that an event resolves
SCREEN_SAMPLE_US: Final = 100.0
MAX_LAUNCHES: Final = 50


def sets_wanted(set_bytes: int, l2_bytes: int) -> int:
    """Return how many sets keep a launch from meeting its own data: 3 times L2 in all, 2 at least, 50 at most."""
    return max(2, min(MAX_LAUNCHES, math.ceil(3 * l2_bytes / max(1, set_bytes))))


@dataclass(slots=True)
class Replay:
    """A captured graph of `launches` calls of one kernel."""

    graph: Any
    launches: int


def capture(kernel: Kernel, arena: Arena, launches: int, stream: Any) -> Replay:  # noqa: ANN401 - CuPy ships no types
    """Capture `launches` calls over the arena's sets; what is initialised to zero is so inside the graph."""
    stream.begin_capture()
    try:
        for index in range(launches):
            enqueue(kernel, arena, index % arena.count, stream)
    finally:
        graph = stream.end_capture()
    return Replay(graph=graph, launches=launches)


def enqueue(kernel: Kernel, arena: Arena, index: int, stream: Any) -> None:  # noqa: ANN401 - CuPy ships no types
    """Enqueue one call on set `index`: initial values, then the launches."""
    addresses: dict[str, int] = {}
    for memory in (arena, kernel.scratch):
        if memory is None:
            continue
        addresses |= memory.addresses(index)
        for name, region in memory.sets[index].items():
            if name in kernel.initialised and region.buffer.nbytes:
                cupy.cuda.runtime.memsetAsync(addresses[name], 0, region.buffer.nbytes, stream.ptr)
    kernel.launch(addresses, stream.ptr)


def sample(replay: Replay, arena: Arena, judge: Judge, stream: Any) -> tuple[Any, Any]:  # noqa: ANN401 - the same
    """Enqueue one sample and return its events."""
    if any(buffer.role == "inout" for buffer in arena.buffers):
        for index in range(min(arena.count, replay.launches)):
            arena.restore(index)
    judge.sweep()
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record(stream)
    replay.graph.launch(stream)
    end.record(stream)
    return start, end


def time_us(events: tuple[Any, Any], launches: int) -> float:
    """Return the device time of one call in microseconds; waits for the sample."""
    events[1].synchronize()
    return float(cupy.cuda.get_elapsed_time(*events)) * 1e3 / launches


def replay_for(kernel: Kernel, arena: Arena, judge: Judge, stream: Any, sample_us: float) -> Replay:  # noqa: ANN401
    """Return a replay of about `sample_us` of device time."""
    most = arena.count if any(buffer.role == "inout" for buffer in arena.buffers) else MAX_LAUNCHES
    probe = capture(kernel, arena, min(most, PROBE_LAUNCHES), stream)
    time_us(sample(probe, arena, judge, stream), 1)  # the first run of a graph uploads it
    estimate = time_us(sample(probe, arena, judge, stream), probe.launches)
    wanted = max(PROBE_LAUNCHES, min(most, math.ceil(sample_us / max(estimate, 0.5))))
    return probe if wanted == probe.launches else capture(kernel, arena, wanted, stream)


def screen(kernel: Kernel, arena: Arena, judge: Judge, stream: Any, samples: int) -> tuple[list[float], int]:  # noqa: ANN401
    """Return a few samples of one kernel, in microseconds a call, and on how many sets it ran."""
    replay = replay_for(kernel, arena, judge, stream, SCREEN_SAMPLE_US)
    warm_up = sample(replay, arena, judge, stream)
    taken = [sample(replay, arena, judge, stream) for _ in range(samples)]
    time_us(warm_up, 1)
    return [time_us(events, replay.launches) for events in taken], min(replay.launches, arena.count)


def race(
    kernels: Sequence[Kernel],
    arena: Arena,
    judge: Judge,
    stream: Any,  # noqa: ANN401 - CuPy ships no types
    rounds: int,
) -> list[list[float]]:
    """Return `rounds` samples of each kernel, interleaved, in microseconds a call; one list a kernel, by round."""
    replays = [replay_for(kernel, arena, judge, stream, SAMPLE_US) for kernel in kernels]
    for replay in replays:
        time_us(sample(replay, arena, judge, stream), 1)  # uploads the graph, and warms the clocks up
    times: list[list[float]] = [[] for _ in kernels]
    for turn in range(rounds):
        order = [(index + turn) % len(kernels) for index in range(len(kernels))]
        taken = [(index, sample(replays[index], arena, judge, stream)) for index in order]
        for index, events in taken:
            times[index].append(time_us(events, replays[index].launches))
    return times
