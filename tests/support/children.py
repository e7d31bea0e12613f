"""What children of tests run: importable through sys.path, which a child takes over from its parent."""

import os
import signal
import time

from pretuned.compile.nvrtc import INSTALL
from pretuned.compile.result import Toolchain, Unavailable
from pretuned.measure.requests import (
    Lost,
    Opened,
    OpenRequest,
    PrepareRequest,
    Raced,
    RaceRequest,
    Ready,
    Screened,
    ScreenRequest,
    TooLarge,
    Trouble,
    Verified,
)
from pretuned.outcome import CompileError, Timed, WrongResult
from pretuned.spec.space import DeviceFacts

FACTS = DeviceFacts(sm_count=1, compute_capability=90, shared_bytes=1, l2_bytes=1)


def echo():
    def answer(request):
        match request:
            case ("exit", status):
                print("the last line")
                os._exit(status)
            case ("signal", number):
                os.kill(os.getpid(), number)
                signal.pause()
            case ("sleep", seconds):
                time.sleep(seconds)
        return request

    return answer


def worker(target):
    """A toolchain whose workers run `target`."""
    return Toolchain(worker=target, installed=lambda: None, any_architecture="compute_80")


def compiler():
    """Dies on one source, hangs on another, and is missing on a third."""

    def answer(request):
        module, _ = request
        if "die" in module.text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "hang" in module.text:
            time.sleep(60)
        if "missing" in module.text:
            return Unavailable(reason=f"compiling needs CuPy and NVRTC (no module named 'cupy'): {INSTALL}")
        return CompileError(line=module.text)

    return answer


FATAL, NOTED, ENDLESS = 9, 10, 11


def gpu():
    """A GPU that does what the configuration says.

    `do` is 0 for right, 1 to die, 2 to hang, 3 to lose the context, 4 to spoil the process, so that what does 5 is
    wrong from then on, and 6 to be wrong. Where inputs are drawn by FATAL, its own reference ends the process;
    by ENDLESS, it never returns.
    """
    prepared = []

    def answer(request):
        match request:
            case OpenRequest():
                return OPENED.get(request.index, Opened(facts=FACTS))
            case PrepareRequest():
                if request.seed == FATAL and not request.by_numpy:
                    os._exit(3)
                if request.seed == ENDLESS:
                    time.sleep(60)
                prepared.append(request.problem)
                return PREPARED.get(request.seed, Ready(notes=("why",) if request.seed == NOTED else ()))
        assert prepared, "nothing was prepared"
        return tried(request)

    return answer


WRONG = WrongResult(argument="y", message="y: off")
SPOILED = []
OPENED = {
    8: Lost(message="cudaErrorMemoryAllocation: out of memory"),
    9: Trouble(message="no such device"),
}
PREPARED = {7: TooLarge(reason="too large"), 8: Trouble(message="reference.py:f failed: ValueError: no")}


def tried(request):
    """What becomes of a candidate, or of each."""
    if isinstance(request, ScreenRequest):
        return (screened(entry) for entry in request.entries)
    entries = request.entries if isinstance(request, RaceRequest) else (request.entry,)
    for entry in entries:
        if (lost := done(entry)) is not None:
            return lost
    if isinstance(request, RaceRequest):
        return Raced(times_us=((1.0,),) * len(entries), failures=(None,) * len(entries))
    return Verified(failure=None)


def screened(entry):
    return done(entry) or Screened(outcome=Timed(time_us=1.0, spread=0.0, samples=3))


def done(entry):
    """Do what the configuration says."""
    match dict(entry.configuration.values)["do"]:
        case 1:
            os._exit(3)
        case 2:
            time.sleep(60)
        case 3:
            return Lost(message="CUDA_ERROR_ILLEGAL_ADDRESS")
        case 4:
            SPOILED.append(entry)
        case 5 if SPOILED:
            return Verified(failure=WRONG)
        case 6:
            return Verified(failure=WRONG)
    return None
