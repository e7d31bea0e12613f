"""Timing on the device: a few held launches to screen, CUDA graph replay in interleaved rounds to decide. Uses CuPy.

Theory of operation. What the host takes for a launch, 4 us and more, must never show in a time. Two ways lead there.

*Screening* enqueues a kernel that waits for the host, then events and launches, and lets all of it go at once: the
device runs the launches back to back however long the host took. `pretuned.measure.sampling` says how many.

*Races* replay a graph of several launches between two events, which has the least spread; of as many launches for all,
since each shares what a graph costs to start. The bench begins one sample of each kernel before it waits for any, so
that the device stays busy over a round. What takes milliseconds a launch is raced without graphs, one launch a sample.

*Library functions* may refuse to be captured. A race with one that does takes all its samples as screening does, of
all, so that ratios stay those of like with like. What waits for the device inside a call cannot be timed at all.

Launches rotate through the workspace's sets of buffers. Where all sets together are larger than L2, a launch finds
nothing of its own there; where they are not, a kernel reads twice L2's size before the sample, outside the timed span.
It leaves no dirty lines behind (a memset would, and the first launches would pay for their write-back). In-out arrays
are given their values back before the sample too, so a kernel with them has at most one launch a set in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import cupy

from pretuned.measure import sampling
from pretuned.measure.cuda.judge import HOLD_NS, CudaJudge
from pretuned.measure.cuda.kernel import CudaKernel
from pretuned.measure.cuda.launching import ERRORS
from pretuned.measure.cuda.library import LibraryKernel
from pretuned.measure.machine import Machine, Poisoned, Refused, Sample, Sampler, restore
from pretuned.measure.regions import CallBuffers
from pretuned.measure.requests import PROBE_LAUNCHES

Loaded = CudaKernel | LibraryKernel

COLD_FACTOR: Final = 2  # times L2 that all sets together must take for rotation to do without a sweep
PATIENCE_S: Final = 0.8 * HOLD_NS / 1e9  # a host that took longer to enqueue has let the device run ahead
TRIES: Final = 3
UNCAPTURED: Final[tuple[type[Exception], ...]] = (Refused, Poisoned, *ERRORS)


@dataclass(slots=True)
class Replay:
    """A captured graph of `launches` calls of one kernel."""

    graph: Any
    buffers: CallBuffers
    launches: int


@dataclass(slots=True)
class Held:
    """So many calls of a kernel, enqueued for every sample behind a kernel that waits for the host."""

    kernel: Loaded
    buffers: CallBuffers
    launches: int


SampleSource = Replay | Held


class Timer:
    """Takes samples on one stream of the current device."""

    def __init__(self, machine: Machine[Loaded], judge: CudaJudge, stream: Any) -> None:  # noqa: ANN401 - CuPy ships no types
        self._machine = machine
        self._judge = judge
        self._stream = stream
        self._turn = 0  # the set that the next launch works on, before the number of sets is taken off
        self._events: list[Any] = []

    def screen(self, kernel: Loaded, buffers: CallBuffers, best_us: float) -> tuple[list[float], list[int], float]:
        """Return samples of a kernel in microseconds a call, the sets it ran on last, and the device's seconds."""
        sets: list[int] = []

        def held(groups: Sequence[int]) -> Sequence[float]:
            times_us, sets[:] = self._held(kernel, buffers, groups)
            return times_us

        samples, spent_us = sampling.screened(held, self._most(buffers, [kernel]), best_us)
        return samples, sets, spent_us / 1e6

    def samplers(self, calls: Sequence[tuple[Loaded, CallBuffers]], estimates_us: Sequence[float]) -> Sequence[Sampler]:
        """Return what begins one sample of each kernel, all of the same kind and launches."""
        sources = self._sources(calls, min(estimates_us), max(estimates_us))
        return [partial(self._begun, source) for source in sources]

    def _begun(self, source: SampleSource) -> Callable[[], Sample]:
        """Begin one sample, and return what waits for it."""
        elapsed = self._sample(source)

        def ended() -> Sample:
            elapsed_us = elapsed()
            return Sample(time_us=elapsed_us / source.launches, device_us=elapsed_us)

        return ended

    def canary_us(self) -> float:
        """Return the time of a kernel that takes a fixed number of cycles, the fastest of three; 0 if there is none."""
        taken = [self._timed([self._judge.canary]) for _ in range(TRIES)]
        return min((times_us[0] for times_us, punctual in taken if punctual), default=0.0)

    def prepare_call(self, kernel: LibraryKernel, buffers: CallBuffers) -> bool:
        """Find out how a library function, called before, can be timed; False where the host waits in it."""
        for _ in range(TRIES):
            started = time.perf_counter()
            (_,), punctual = self._timed([lambda: self._machine.call(kernel, buffers, 0)])
            took_s = time.perf_counter() - started
            if punctual:
                # The device's time is in it, too: a call that is slow there needs few calls in a sample anyway.
                kernel.most_calls = max(PROBE_LAUNCHES, int(PATIENCE_S / 2 / took_s))
                kernel.captured = self._is_captured(kernel, buffers)
                return True
        return False

    def _is_captured(self, kernel: LibraryKernel, buffers: CallBuffers) -> bool:
        """Whether a call can stand in a CUDA graph: CuPy refuses cuBLAS there, for one."""
        try:
            self._capture(kernel, buffers, 1)
        except UNCAPTURED:
            return False
        return True

    def _most(self, buffers: CallBuffers, kernels: Sequence[Loaded]) -> int:
        most = buffers.count if buffers.restores else sampling.MAX_LAUNCHES
        return min(most, *(kernel.most_calls or most for kernel in kernels))

    def _cold(self, buffers: CallBuffers) -> bool:
        """Whether something has to be done for caches to be cold."""
        return buffers.cold and buffers.nbytes < COLD_FACTOR * self._machine.facts.l2_bytes

    def _held(self, kernel: Loaded, buffers: CallBuffers, groups: Sequence[int]) -> tuple[list[float], list[int]]:
        """Return the device time of each group of launches, in microseconds, and the sets they ran on.

        A sample whose host was late is taken again, from the start: in-out arrays have changed by then. If it always
        was, the shortest counts, since a late host only adds to a time.
        """
        first, total = self._turn, sum(groups)
        sets = [(first + offset) % buffers.count for offset in range(total)]
        self._turn = (first + total) % buffers.count
        ends = [sum(groups[: position + 1]) for position in range(len(groups))]

        def calls(begin: int, end: int) -> Callable[[], None]:
            def enqueue() -> None:
                for index in sets[begin:end]:
                    self._machine.call(kernel, buffers, index)

            return enqueue

        parts = [calls(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
        tries: list[list[float]] = []
        while len(tries) < TRIES:
            if buffers.restores:
                for index in set(sets):
                    restore(self._machine, buffers, index)
            if self._cold(buffers):
                self._judge.sweep()
            times_us, punctual = self._timed(parts)
            if punctual:
                return times_us, list(dict.fromkeys(sets))
            tries.append(times_us)
        return min(tries, key=sum), list(dict.fromkeys(sets))

    def _timed(self, parts: Sequence[Callable[[], None]]) -> tuple[list[float], bool]:
        """Return the device time of what each of `parts` enqueues, in microseconds, all of it let go at once.

        Besides, whether the host was done before the device could run ahead of it.
        """
        while len(self._events) <= len(parts):
            self._events.append(cupy.cuda.Event())
        started = time.perf_counter()
        self._judge.hold()
        try:
            self._events[0].record(self._stream)
            for part, event in zip(parts, self._events[1:], strict=False):
                part()
                event.record(self._stream)
        finally:
            took_s = time.perf_counter() - started
            self._judge.release()
        self._events[len(parts)].synchronize()
        times_us = [_elapsed_us(self._events[index], self._events[index + 1]) for index in range(len(parts))]
        return times_us, took_s < PATIENCE_S

    def _sources(
        self, calls: Sequence[tuple[Loaded, CallBuffers]], fastest_us: float, slowest_us: float
    ) -> Sequence[SampleSource]:
        """Return what gives samples of each kernel, and is of the same kind and launches for all.

        Each has run once, which uploads graphs and warms clocks up. Single launches need neither.
        """
        (_, buffers), *_ = calls  # of all alike in what counts here
        kernels = [kernel for kernel, _ in calls]
        captured = all(kernel.captured for kernel in kernels)
        sources: list[SampleSource] = []

        def sample_us(launches: int) -> float:
            sources[:] = [
                self._capture(kernel, buffers, launches) if captured else Held(kernel, buffers, launches)
                for kernel, buffers in calls
            ]
            return min(self._sample(source)() for source in sources)

        launches = sampling.raced(sample_us, fastest_us, slowest_us, self._most(buffers, kernels))
        return sources or [Held(kernel, own, launches) for kernel, own in calls]

    def _capture(self, kernel: Loaded, buffers: CallBuffers, launches: int) -> Replay:
        """Capture calls on one set after another; what is initialised to zero is so inside the graph."""
        self._stream.begin_capture()
        try:
            for index in range(launches):
                self._machine.call(kernel, buffers, index % buffers.count)
        finally:
            graph = self._stream.end_capture()
        return Replay(graph=graph, buffers=buffers, launches=launches)

    def _sample(self, source: SampleSource) -> Callable[[], float]:
        """Begin one sample, and return what waits for its microseconds."""
        if isinstance(source, Replay):
            start, end = self._replayed(source)
            return lambda: _elapsed_us(start, end)
        (elapsed_us,), _ = self._held(source.kernel, source.buffers, (source.launches,))
        return lambda: elapsed_us

    def _replayed(self, replay: Replay) -> tuple[Any, Any]:
        """Enqueue one sample and return its events."""
        buffers = replay.buffers
        if buffers.restores:
            for index in range(min(buffers.count, replay.launches)):
                restore(self._machine, buffers, index)
        if buffers.cold:
            self._judge.sweep()  # it also keeps the device busy while the host enqueues what follows
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record(self._stream)
        replay.graph.launch(self._stream)
        end.record(self._stream)
        return start, end


def _elapsed_us(start: Any, end: Any) -> float:  # noqa: ANN401 - CuPy ships no types
    """Return the device time between two events in microseconds; waits for the second."""
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, end)) * 1e3
