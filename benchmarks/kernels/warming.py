"""Fills the caches of torch.compile and Triton on disk in many processes at once, before anything is timed.

A shape takes seconds to compile, nearly all of it on one core. The processes compile what the run will ask for, while
our own kernels are baked, and the run finds it in the caches. What they do not finish in time, the run compiles itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from contest import Case, Contest
from pretuned.spec.loader import load_folder
from pretuned.spec.model import KernelSpec

MOST_PROCESSES = 12


class Warming:
    """Compiles in processes from when it is made until `end`, for so many seconds at most."""

    def __init__(
        self,
        planned: Mapping[str, Sequence[Case]],
        entered: Mapping[str, Contest],
        templates: Path,
        seed: int,
        seconds: float,
    ) -> None:
        jobs = [
            (kernel, case)
            for kernel, cases in planned.items()
            for case in cases
            if seconds and any(peer.at(case) for peer in entered[kernel].peers if peer.compiles)
        ]
        jobs.sort(key=lambda job: not job[1].compiled)
        self._began, self._seconds, self._futures = time.perf_counter(), seconds, []
        self._processes = min(MOST_PROCESSES, len(jobs), os.cpu_count() or 1)
        if jobs:
            os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # of each process
            self._pool = ProcessPoolExecutor(self._processes, mp_context=get_context("spawn"))
            self._futures = [self._pool.submit(_compiled, templates, kernel, case, seed) for kernel, case in jobs]

    def end(self) -> None:
        """Wait for the rest of the time, and end the processes."""
        if not self._futures:
            return
        left = max(0.0, self._began + self._seconds - time.perf_counter())
        done, undone = wait(self._futures, timeout=left)
        children = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.kill()
            child.join()
        del os.environ["TORCHINDUCTOR_COMPILE_THREADS"]
        took = time.perf_counter() - self._began
        print(
            f"peers compiled at {len(done)} problems in {took:.1f} s by {self._processes} processes, {len(undone)} left"
        )
        failures = dict.fromkeys(filter(None, map(_failure, done)))
        print(*failures, sep="\n", end="\n" if failures else "", file=sys.stderr, flush=True)


def _failure(future: Future[None]) -> str:
    error = None if future.cancelled() else future.exception()
    return "" if error is None else f"while compiling: {type(error).__name__}: {str(error)[:300]}"


@cache
def _spec(templates: Path, kernel: str) -> KernelSpec:
    return load_folder(templates, {kernel})[kernel]


def _compiled(templates: Path, kernel: str, case: Case, seed: int) -> None:
    """Call the peers that compile once, in a process of the pool."""
    import torch  # noqa: PLC0415 - in the processes of the pool alone

    from families import contests  # noqa: PLC0415 - the same
    from tensors import Sets  # noqa: PLC0415 - the same

    contest = contests()[kernel]
    given = Sets(_spec(templates, kernel), case, seed, contest).one()
    for peer in contest.peers:
        if peer.compiles and peer.at(case):
            peer.entered()(**given)
    torch.cuda.synchronize()
    if case.compiled:
        torch._dynamo.reset()
    del given
    torch.cuda.empty_cache()
