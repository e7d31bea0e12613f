"""A device and compilers that take virtual seconds: launches, verification, references, compiles.

What a request takes is what the real one launches: how many launches a sample has is decided by the same functions
(`pretuned.measure.sampling`, `pretuned.measure.rounds`). Times come from recorded matrices, with noise: of each sample,
of each candidate at each place of its buffers, and of first launches. The host's own time, such as a search's between
batches, is not counted.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
import statistics
from collections import deque
from types import SimpleNamespace
from unittest.mock import patch

from pretuned.compile.pool import ENOUGH, LIMIT_S, limit_after
from pretuned.compile.result import Binary
from pretuned.measure import sampling
from pretuned.measure.requests import Raced, Screened, Verified
from pretuned.measure.rounds import RunAll, summary
from pretuned.outcome import LaunchFailed, TimedOut
from pretuned.record.rows import TunedDevice
from pretuned.tune import selecting, spending, workbench
from pretuned.tune.binaries import BinaryStore

COMPILER = "13.0.88"
H100 = TunedDevice(
    name="NVIDIA H100 80GB HBM3",
    sm_count=132,
    compute_capability=90,
    l2_bytes=50 << 20,
    shared_bytes=232448,
    memory_bytes=80 << 30,
    memory_gbps=3352,
    power_w=700,
)
LOAD_S = 0.0006  # of a candidate: its module, its buffers, the request
JUDGE_S = 0.0008  # of its results, of an ordinary size
COLD_US = 6.0  # that a first launch takes more
VERIFIED = 1  # launches to verify a candidate
SETTLED = 4  # launches after a duel, judged
PREPARE_S = 0.01


class VirtualTime:
    """Stands in for the module `time` wherever a tuning reads it."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        return self.now_s

    perf_counter = monotonic

    def charge(self, seconds):
        self.now_s += seconds

    @contextlib.contextmanager
    def everywhere(self):
        """Have the clock, the stages and the selections of tunings read this time."""
        with contextlib.ExitStack() as stack:
            for module in (workbench, spending, selecting):
                stack.enter_context(patch.object(module, "time", self))
            yield


class PricedRunner:
    """Charges `time` for what candidates of `space` are asked; noise of relative deviation `noise`, drawn by `seed`.

    Unless `verified`, nothing is charged for verification before and after a candidate is screened.
    """

    def __init__(self, space, time, seed, *, noise=0.004, bias=0.004, verified=True):
        self.space, self.time, self.noise, self.bias, self.verified = space, time, noise, bias, verified
        self.seed, self.random = seed, random.Random(seed)
        self.launches = 0
        self.ran, self.notes, self.remarks, self.prepared, self.problem = (), [], [], None, None
        self._made = set()

    def start(self):
        pass

    def prepare(self, request):
        self.problem = request.problem
        by_default = request.trust_default or request.spec.verify.reference is None
        judged = [] if request.reference != "now" else ["default"] if by_default else ["reference"]
        for part in ("inputs", *judged):
            key = part, request.problem, request.seed
            if key not in self._made:
                self._made.add(key)
                self.time.charge(self._takes_s(part, request))

    def _takes_s(self, part, request):
        """The seconds of inputs, of a reference, or of the default's own result where that is the reference."""
        if part != "default":
            return PREPARE_S if part == "inputs" else self.space.reference_s
        time_us = self._time_us(request.default)
        return LOAD_S + (self._launch(time_us) / 1e6 if math.isfinite(time_us) else 0.0)

    def _launch(self, time_us, count=1, place=0, configuration=None, cold=False):
        self.launches += count
        drawn = random.Random(f"{self.seed} {place} {configuration} {self.problem}").gauss(0, self.bias)
        one = time_us * math.exp(drawn + self.random.gauss(0, self.noise) / math.sqrt(count))
        return count * one + (COLD_US + 0.02 * min(time_us, 1000.0) if cold else 0.0)

    def _time_us(self, entry):
        return self.space.time_us(entry.configuration, self.problem)

    def verify(self, entry):
        time_us = self._time_us(entry)
        if not math.isfinite(time_us):
            return Verified(failure=LaunchFailed(message="CUDA_ERROR_INVALID_VALUE"))
        self.time.charge(LOAD_S + JUDGE_S + self._launch(time_us, VERIFIED) / 1e6)
        return Verified(failure=None, error=0.1)

    def screen(self, entries, *, verify=True, best_us=math.inf, limit_s=None):
        for entry in entries:
            screened = self._screened(entry, verify=verify, best_us=best_us)
            if getattr(screened.outcome, "time_us", None):
                best_us = min(best_us, screened.outcome.time_us)
            yield screened

    def _screened(self, entry, *, verify, best_us):
        time_us, verify = self._time_us(entry), verify and self.verified
        self.time.charge(LOAD_S)
        if not math.isfinite(time_us):
            return Screened(outcome=LaunchFailed(message="CUDA_ERROR_INVALID_VALUE"), load_s=LOAD_S)
        first_us = self._launch(time_us, VERIFIED, cold=True) if verify else 0.0
        verify_s = JUDGE_S + first_us / 1e6 if verify else 0.0
        if sampling.is_told(first_us, best_us):
            self.time.charge(verify_s)
            return Screened(outcome=summary([first_us]), load_s=LOAD_S, verify_s=verify_s)
        cold = True

        def held(groups):
            nonlocal cold
            found = []
            for count in groups:
                found.append(self._launch(time_us, count, configuration=entry.configuration, cold=cold))
                cold = False
            return found

        samples, spent_us = sampling.screened(held, sampling.MAX_LAUNCHES, best_us)
        verify_s += JUDGE_S if verify else 0.0
        self.time.charge(verify_s + spent_us / 1e6)
        return Screened(outcome=summary(samples), load_s=LOAD_S, verify_s=verify_s, device_s=spent_us / 1e6)

    def race(self, entries, rounds, *, estimates_us, rule=None, judge=False, place=0):
        times_us = [self._time_us(entry) for entry in entries]
        if not all(map(math.isfinite, times_us)):
            wrong = LaunchFailed(message="CUDA_ERROR_INVALID_VALUE")
            failures = tuple(None if math.isfinite(time_us) else wrong for time_us in times_us)
            return Raced(times_us=((),) * len(entries), failures=failures)
        self.time.charge(LOAD_S * len(entries))

        def sample_us(launches):
            found = [self._launch(time_us, launches) for time_us in times_us]
            self.time.charge(sum(found) / 1e6)
            return min(found)

        launches = sampling.raced(sample_us, min(estimates_us), max(estimates_us), sampling.MAX_LAUNCHES)
        samples, running = [[] for _ in entries], range(len(entries))
        for _ in range(rounds):
            for index in running:
                took = self._launch(times_us[index], launches, place, entries[index].configuration)
                self.time.charge(took / 1e6)
                samples[index].append(took / launches)
            running = (rule or RunAll()).going(samples)
            if not running:
                break
        if judge:
            self.time.charge(sum(JUDGE_S + self._launch(time_us, SETTLED) / 1e6 for time_us in times_us))
        return Raced(times_us=tuple(map(tuple, samples)), failures=(None,) * len(entries), canary_us=(20.0, 20.0))


class PricedPool:
    """Compile workers as `CompilePool` has them, whose jobs take what `compile_s(source)` says.

    A job is ended where a hurried pool would end it.
    """

    def __init__(self, time, workers, compile_s):
        self.time, self.compile_s = time, compile_s
        self.unanswered = 0
        self._idle = workers
        self._waiting = deque()
        self._running = []  # (begun, seconds, job, patient)
        self._ended = []
        self._took_s = {}
        self._at_s = 0.0

    def put(self, jobs, *, first=False):
        self._advance(self.time.now_s)
        fresh = [(job, first) for job in jobs]
        self.unanswered += len(fresh)
        if first:
            self._waiting.extendleft(reversed(fresh))
        else:
            self._waiting.extend(fresh)
        self._feed()

    def withdraw(self, jobs):
        self._advance(self.time.now_s)
        unwanted = {source.key for source, _ in jobs}
        gone = [job for job, _ in self._waiting if job[0].key in unwanted]
        self._waiting = deque(one for one in self._waiting if one[0][0].key not in unwanted)
        self.unanswered -= len(gone)
        return gone

    def mean_s(self, source):
        took_s = self._took_s.get(source.functions, ())
        return statistics.fmean(took_s) if len(took_s) >= ENOUGH else None

    def _feed(self):
        while self._waiting and self._idle:
            job, patient = self._waiting.popleft()
            self._idle -= 1
            self._running.append((self._at_s, self.compile_s(job[0]), job, patient))

    def _next(self):
        """The next moment at which a worker is free, with its job."""
        ends = []
        for one in self._running:
            begun_s, takes_s, (source, _), patient = one
            limit_s = LIMIT_S if patient else limit_after(self._took_s.get(source.functions, ()))
            ends.append((max(self._at_s, begun_s + min(takes_s, limit_s)), takes_s > limit_s, limit_s, one))
        return min(ends, key=lambda end: end[0], default=None)

    def _advance(self, until_s):
        """Let the workers work until then."""
        while (end := self._next()) is not None and end[0] <= until_s:
            self._at_s, late, limit_s, one = end
            self._running.remove(one)
            self._idle += 1
            _, takes_s, job, _ = one
            self._ended.append((job, TimedOut(limit_s=limit_s) if late else binary_of(*job)))
            if not late and takes_s:
                self._took_s.setdefault(job[0].functions, []).append(takes_s)
            self._feed()
        self._at_s = max(self._at_s, until_s)

    def take(self, *, wait_s):
        self._advance(self.time.now_s)
        if not self._ended and wait_s != 0 and (end := self._next()) is not None:
            left_s = end[0] - self.time.now_s
            self.time.charge(max(0.0, left_s if wait_s is None else min(wait_s, left_s)))
            self._advance(self.time.now_s)
        found, self._ended = self._ended, []
        self.unanswered -= len(found)
        return found

    def close(self):
        pass


def binary_of(source, architecture):
    image = source.text.encode()
    digest = hashlib.sha256(image).hexdigest()
    return Binary(
        module=source.key,
        architecture=architecture,
        image=image,
        digest=digest,
        flags=(),
        compiler=COMPILER,
        resources={},
    )


class PricedBinaries(BinaryStore):
    """Binaries that take virtual seconds to compile, on so many workers; what asks for types takes none."""

    def __init__(self, cache, spending, time, compile_s, *, workers=16):
        toolchain = SimpleNamespace(installed=lambda: COMPILER)
        super().__init__(cache, spending, workers=workers, toolchain=toolchain)
        self._priced = PricedPool(time, workers, compile_s)

    def start(self):
        self._pool = self._priced
        return self._pool
