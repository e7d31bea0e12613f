"""The children of a tuning that is killed: a device made of arithmetic, a GPU, and a compiler that compiles nothing.

The devices write a line into the file that TUNER_LOG names for each candidate that they time: run, configuration,
problem and the moment.
"""

import os
import time
from pathlib import Path

from builders import binary_of
from pretuned.measure.requests import (
    Opened,
    OpenRequest,
    PrepareRequest,
    Raced,
    RaceRequest,
    Ready,
    Screened,
    ScreenRequest,
    Verified,
)
from pretuned.outcome import Timed
from pretuned.spec.space import DeviceFacts

FACTS = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232448, l2_bytes=1 << 25)
TAKES_S = 0.005  # a candidate


def device():
    problems = []

    def answer(request):
        match request:
            case OpenRequest():
                return Opened(facts=FACTS)
            case PrepareRequest(problem=problem):
                problems[:] = [problem]
                return Ready()
            case ScreenRequest(entries=entries):
                return (screened(entry, problems[0]) for entry in entries)
            case RaceRequest(entries=entries):
                times = tuple((time_us(entry),) * 31 for entry in entries)
                return Raced(times_us=times, failures=(None,) * len(entries))
        return Verified(failure=None)

    return answer


def time_us(entry):
    values = dict(entry.configuration.values)
    return 100.0 / values["vec"] + values["block"] / 128


def screened(entry, problem):
    time.sleep(TAKES_S)
    write(entry, problem)
    return Screened(outcome=Timed(time_us=time_us(entry), spread=0.0, samples=1))


def gpu():
    from pretuned.measure.cuda.machine import serve  # noqa: PLC0415 - imports CuPy

    answer, problems = serve(), []

    def logged(request):
        if isinstance(request, PrepareRequest):
            problems[:] = [request.problem]
        answers = answer(request)
        return written(request, answers, problems[0]) if isinstance(request, ScreenRequest) else answers

    return logged


def written(request, answers, problem):
    for entry, answer in zip(request.entries, answers, strict=False):  # fewer where the device is lost
        write(entry, problem)
        yield answer


def write(entry, problem):
    line = f"{os.environ['TUNER_RUN']}\t{entry.configuration}\t{problem}\t{time.time()}\n"
    with Path(os.environ["TUNER_LOG"]).open("a") as log:
        log.write(line)


def compiler():
    return lambda request: binary_of(*request)
