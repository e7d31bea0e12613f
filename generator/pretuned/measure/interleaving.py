"""Samples of several kernels, taken in turn."""

from __future__ import annotations

from collections.abc import Sequence

from pretuned.measure.machine import K, Machine
from pretuned.measure.regions import CallBuffers
from pretuned.measure.requests import Raced, RaceRequest


def interleaved(machine: Machine[K], calls: Sequence[tuple[K, CallBuffers]], request: RaceRequest) -> Raced:
    """Return interleaved samples, in rounds until the rule names no entry any more.

    A round takes one sample of each kernel that still runs, in an order that turns by one each round. What drifts
    (clocks, temperature, a neighbour's load) affects all alike, and ratios of kernels are taken within rounds.
    """
    before_us, device_us = machine.canary_us(), 0.0
    samplers = machine.samplers(calls, request.estimates_us)
    times: list[list[float]] = [[] for _ in calls]
    running = list(range(len(calls)))
    for turn in range(request.rounds):
        first = turn % len(running)
        begun = [(index, samplers[index]()) for index in running[first:] + running[:first]]
        for index, ended in begun:
            sample = ended()
            times[index].append(sample.time_us)
            device_us += sample.device_us
        running = request.rule.going(times)
        if not running:
            break
    return Raced(
        times_us=tuple(map(tuple, times)),
        failures=(None,) * len(times),
        canary_us=(before_us, machine.canary_us()),
        device_s=device_us / 1e6,
    )
