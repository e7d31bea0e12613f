"""A GPU and a compiler made of arithmetic: times follow a model, failures are planted."""

from __future__ import annotations

import hashlib
import random

from pretuned.compile.result import Binary
from pretuned.measure.requests import Raced, Screened, TooLarge, Verified
from pretuned.outcome import Crashed, Timed, WrongResult


class FakeRunner:
    """`time_us(configuration, dims)` is the model; `wrong` (of both) and `crash` (of a configuration) plant bugs."""

    def __init__(self, time_us, *, wrong=lambda _c, _d: False, crash=lambda _c: False, too_large=lambda _d: False):
        self.time_us, self.wrong, self.crash, self.too_large = time_us, wrong, crash, too_large
        self.random = random.Random(0)
        self.dims = {}
        self.requests = []

    def start(self):
        pass

    def prepare(self, request):
        self.dims = dict(request.problem.dims)
        return TooLarge(reason="takes 99 GB") if self.too_large(self.dims) else None

    def _sample(self, entry):
        return self.time_us(dict(entry.configuration.values), self.dims) * self.random.gauss(1, 0.002)

    def _failure(self, entry):
        if self.wrong(dict(entry.configuration.values), self.dims):
            return WrongResult(argument="y", message="y: off")
        return None

    def verify(self, entry):
        self.requests.append("verify")
        return Verified(failure=self._failure(entry), error=0.1)

    def screen(self, entry, samples=3):
        self.requests.append("screen")
        outcome = self._failure(entry) or Timed(time_us=self._sample(entry), spread=0.0, samples=3)
        return Screened(outcome=outcome, verify_s=0.0, time_s=0.0)

    def race(self, entries, rounds, *, round_us=0.0):
        self.requests.append("race")
        if any(self.crash(dict(entry.configuration.values)) for entry in entries):
            return Crashed(message="CUDA_ERROR_ILLEGAL_ADDRESS")
        times = tuple(tuple(self._sample(entry) for _ in range(rounds)) for entry in entries)
        return Raced(times_us=times, failures=(None,) * len(entries))


class FakeLibrary:
    """Every module compiles to a digest of itself."""

    compiler = "13.0.88"

    def __init__(self):
        self.compiled = set()

    def missing(self, jobs):
        return [job for job in jobs if job[0].key not in self.compiled]

    def compile(self, jobs):
        self.compiled |= {module.key for module, _ in jobs}

    def get(self, module, architecture):
        image = module.source.encode()
        return Binary(
            module=module.key,
            architecture=architecture,
            image=image,
            digest=hashlib.sha256(image).hexdigest(),
            flags=(),
            compiler=self.compiler,
            resources={},
        )
