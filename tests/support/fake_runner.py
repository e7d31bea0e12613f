"""A GPU and a compiler made of arithmetic: times follow a model, failures are planted."""

from __future__ import annotations

import math
import random

from builders import H100, binary_of
from pretuned.measure.requests import Raced, Screened, TooLarge, Verified
from pretuned.measure.rounds import RunAll
from pretuned.outcome import Crashed, Timed, WrongResult
from pretuned.record.cache import Cache
from pretuned.tune.request import EffortProfile, TuningDevice
from pretuned.tune.spending import Spending
from pretuned.tune.workbench import Workbench

ROWS_ALONE = EffortProfile(surveyed_problems=0, tried_problems=0, certified_problems=0)
DEVICE = TuningDevice(record=H100, driver="580", effort=ROWS_ALONE)


class FakeRunner:
    """`time_us(configuration, dims)` is the model; `wrong` (of both) and `crash` (of a configuration) plant bugs.

    At each place of its buffers, a configuration is off by a factor of its own, of relative deviation `bias`; other
    `places` have other factors.
    """

    def __init__(
        self,
        time_us,
        *,
        wrong=lambda _c, _d: False,
        crash=lambda _c: False,
        too_large=lambda _d: False,
        bias=0.0,
        places=0,
    ):
        self.time_us, self.wrong, self.crash, self.too_large = time_us, wrong, crash, too_large
        self.bias, self.places, self.place = bias, places, 0
        self.random = random.Random(0)
        self.dims = {}
        self.requests = []
        self.ran, self.prepared, self.notes, self.remarks = (), None, [], []

    def start(self):
        pass

    def factor(self, values, dims, place):
        """By what a configuration is off at a place."""
        drawn = random.Random(f"{self.places} {place} {sorted(values.items())} {sorted(dims.items())}")
        return math.exp(drawn.gauss(0, self.bias))

    def prepare(self, request):
        self.dims = dict(request.problem.dims)
        return TooLarge(reason="takes 99 GB") if self.too_large(self.dims) else None

    def _sample(self, entry):
        values = dict(entry.configuration.values)
        factor = self.factor(values, self.dims, self.place) if self.bias else 1.0
        return self.time_us(values, self.dims) * factor * self.random.gauss(1, 0.002)

    def _failure(self, entry):
        if self.wrong(dict(entry.configuration.values), self.dims):
            return WrongResult(argument="y", message="y: off")
        return None

    def verify(self, entry):
        self.requests.append("verify")
        return Verified(failure=self._failure(entry), error=0.1)

    def screen(self, entries, *, verify=True, best_us=math.inf, limit_s=None):
        for entry in entries:
            yield self.screened(entry, verify=verify)

    def screened(self, entry, *, verify):
        self.requests.append("screen")
        failure = self._failure(entry) if verify else None
        return Screened(outcome=failure or Timed(time_us=self._sample(entry), spread=0.0, samples=1), device_s=0.001)

    def race(self, entries, rounds, *, estimates_us, rule=None, judge=False, place=0):
        self.place = place
        self.requests.append("race")
        if any(self.crash(dict(entry.configuration.values)) for entry in entries):
            return Crashed(message="CUDA_ERROR_ILLEGAL_ADDRESS")
        times, running = [[] for _ in entries], range(len(entries))
        for _ in range(rounds):
            for index in running:
                times[index].append(self._sample(entries[index]))
            running = (rule or RunAll()).going(times)
            if not running:
                break
        failures = tuple(self._failure(entry) if judge else None for entry in entries)
        return Raced(times_us=tuple(map(tuple, times)), failures=failures, canary_us=(20.0, 20.0))


def asks_for_types(module):
    """Whether a source is compiled for what its kernels take, and never launched."""
    return "PRETUNED_TAKES(" in module.text


class FakeBinaries:
    """Every source compiles to a digest of itself; what asks for types is not counted."""

    compiler = "13.0.88"
    workers = 16

    def compile_s(self, _source):
        return None

    def withdraw(self, _jobs):
        return []

    def __init__(self):
        self.compiled = set()

    def start(self):
        pass

    def request(self, jobs, *, first=False):
        fresh = {module.key for module, _ in jobs if not asks_for_types(module)} - self.compiled
        self.compiled |= fresh
        return len(fresh)

    def poll(self, *, wait_s=0.0):
        pass

    def find(self, module, architecture):
        return self.get(module, architecture)

    def get(self, module, architecture):
        return binary_of(module, architecture, self.compiler)


def fake_workbench(runner, **given):
    """A workbench of `runner` and `given`; for the rest, what keeps nothing and reports to nobody."""
    usual = {"binaries": FakeBinaries(), "cache": Cache(None), "spending": Spending(), "listen": lambda _event: None}
    return Workbench(runner=runner, **{"device": DEVICE} | usual | given)
