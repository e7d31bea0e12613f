"""Compilers that hang, die, print 100 MB or write rubbish: `python benchmarks/faults/compilers.py`.

For the host device a script stands for the C++ compiler. Either it fails at every source, and the tuning ends with a
message, or at every other one, and the rest is tuned. For NVRTC a worker misbehaves at one source of two, and the other
is compiled. Time, memory, and what stays of processes are looked at. `--count` is how often all of it is tried.
"""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import stubs
from operations import bases, no_cache, sound
from project import TUNE, Area
from table import HUNG, OTHER, Tried, main

from pretuned.compile import host, pool
from pretuned.compile.pool import CompilePool
from pretuned.compile.result import Toolchain
from pretuned.outcome import CompileError, Crashed, TimedOut
from pretuned.render import Source

LIMIT_S, BOUND_S, BOUND_MB = 4.0, 120.0, 600
TURNS = """#!/bin/bash
case " $* " in *" --version "* | *runtime.cpp* | *" -shared "*) exec {real} "$@" ;; esac
if [ {every} = 2 ] && mkdir {turn} 2>/dev/null; then exec {real} "$@"; fi
rmdir {turn} 2>/dev/null
{does}
"""
EXPECTED = {"hanging": TimedOut, "dying": Crashed, "loud": CompileError}


def hurry() -> None:
    """Give compilers less time, in the process of a command."""
    CompilePool.__init__.__kwdefaults__["limit_s"] = LIMIT_S
    pool.START_S = LIMIT_S
    for function in (host.compiler, host.version):
        function.cache_clear()


def of_host(area: Area, name: str, every: int) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a tuning whose compiler misbehaves at `every` source: 1, or the second each time."""
    no_cache(area)
    script, real = area.root / "c++", host.compiler()
    assert real is not None
    does, turn = stubs.SCRIPTS[name], area.root / "turn"
    script.write_text(TURNS.format(real=real.path, every=every, turn=turn, does=does), encoding="utf-8")
    script.chmod(0o755)
    began = time.monotonic()
    done = area.run(*TUNE, extra={"CXX": str(script)}, first=hurry)
    yield from done.failures()
    yield from area.children()
    if (took := time.monotonic() - began) > BOUND_S:
        yield HUNG, f"{took:.0f} s"
    if (peak := resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10) > BOUND_MB:
        yield OTHER, f"{peak} MB"
    if done.status not in ({7} if every == 1 else {0, 7}):
        yield OTHER, f"status {done.status}: {done.output[-200:]}"
    if done.status == 0 and not sound(area, fresh=False):
        yield OTHER, "the lock is damaged"
    healed = area.run(*TUNE)
    yield from healed.failures()
    if healed.status or not sound(area, fresh=True):
        yield OTHER, f"the next run has status {healed.status}: {healed.output[-200:]}"
    yield from area.litter()


def of_nvrtc(worker: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a pool whose worker misbehaves at one source of two."""
    texts = [f"__global__ void kernel{number}();" for number in range(6)]
    sources = [Source(text=text, options=(), functions=("kernel",)) for text in texts]
    toolchain = Toolchain(worker=f"stubs:{worker}", installed=lambda: "13.0", any_architecture="compute_80")
    with CompilePool(2, toolchain=toolchain, limit_s=LIMIT_S) as found:
        results = {source.key: result for (source, _), result in found.compile([(one, "sm_90") for one in sources])}
    for key, result in results.items():
        expected = EXPECTED[worker] if int(key, 16) % 2 else CompileError
        if not isinstance(result, expected):
            yield OTHER, f"{result!r:.100}, not {expected.__name__}"


def run(count: int, _draw: random.Random) -> Iterator[Tried]:
    """Try everything `count` times."""
    pool.START_S = LIMIT_S
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        base = bases(folder, [""])[""]
        for _ in range(count):
            for worker in EXPECTED:
                yield Tried(line="NVRTC's worker", name=worker, failures=tuple(of_nvrtc(worker)))
            for script in stubs.SCRIPTS:
                for every in (1, 2):
                    failures = tuple(of_host(base.copy(folder / "area"), script, every))
                    yield Tried(line="the C++ compiler", name=f"{script}, 1 of {every}", failures=failures)


if __name__ == "__main__":
    main("compilers", __doc__ or "", run, count=1)
