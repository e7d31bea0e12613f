"""One worker with a device, and others beside it that only compile: real sessions, and a device that is a formula.

Its compilers sleep, so that what the others take off the device's own processors is seen on any machine.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

import distributed

import arithmetic_devices
from pretuned.config import Place, settings
from pretuned.fleet import worker
from pretuned.fleet.compiling import CompilerEvidence
from pretuned.fleet.dask import DaskCrew
from pretuned.fleet.tuning import FleetTerms, FleetWork, tune_with
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.strategies import named
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.workbench import Demands
from pretuned.version import __version__
from specs import SCALE, SCALE_TEMPLATE, edited, write


@dataclass(frozen=True)
class Look:
    """Says that the worker at one address has a device, and that others compile."""

    device: str

    def __call__(self, backend, name):
        if name == self.device:
            return worker.survey(backend, name)
        return CompilerEvidence(worker=name, compiler=arithmetic_devices.COMPILER, version=__version__)


def compiling(folder, compile_s, slots, policy):
    """Yield lines: one device with the compilers of two processors, and workers beside it that only compile.

    A compiler sleeps for so many seconds. A worker that compiles has `slots` threads.
    """
    _install_backend(folder)
    (folder / "slow").mkdir()
    more = ("block = [128, 256]", f"block = {list(range(32, 32 * 33, 32))}")
    one = ('dtypes = ["float32", "float16"]', 'dtypes = ["float32"]')
    template = "constexpr int block = {{ block }};\n" + SCALE_TEMPLATE
    spec = load(write(folder / "slow", edited(SCALE, more, one), template=template))
    asked = [TuningRequest(spec=spec, problems=tuple(all_problems(spec)))]
    own = len(os.sched_getaffinity(0))
    yield f"96 sources, {compile_s} s each; {own} compilers beside the device, {slots} on each worker without one"
    yield f"{'others':>8}{'s':>9}{'waiting':>9}{'elsewhere':>11}  lock without others"
    expected = None
    for count in (0, 1, 2, 4):
        os.environ |= {
            "ARITHMETIC_COMPILE_S": str(compile_s),
            "ARITHMETIC_LOCKS": f"{os.getpid()}-{count}",
            "PRETUNED_CACHE_DIR": str(folder / f"cache-{count}"),
        }
        seconds, found = _compiled(asked, count, slots, policy)
        lock = lockfile.dumps(Lock().updated(found.devices, found.rows, found.skipped, found.selections))
        expected = expected or lock
        waited_s, elsewhere = found.spending.seconds["waiting for compilers"], found.spending.elsewhere.total()
        same = "same bytes" if lock == expected else "DIFFERS"
        yield f"{count:8}{seconds:9.2f}{waited_s:9.2f}{elsewhere:5} of {found.spending.compiled:<3}  {same}"


def _compiled(asked, count, slots, policy):
    """Tune with one worker that has a device, and `count` that compile."""
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="CRITICAL"
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(1)
        (able,) = client.nthreads()
        cluster.worker_spec |= {f"compiles-{n}": _with_threads(cluster.new_spec, slots) for n in range(count)}
        cluster.sync(cluster._correct_state)
        client.wait_for_workers(1 + count)
        crew = DaskCrew(client, "arithmetic", look=Look(able))
        (evidence,) = crew.evidence(30)
        crew.lend([evidence.compiler], lambda _event: None)
        device = find_device(Place(backend="arithmetic"), {})
        compilers = {device.name: evidence.compiler}
        terms = FleetTerms(cache_folder=None, demands=Demands(strategy=named("exhaustive")))  # the same work each time
        began = time.perf_counter()
        work = FleetWork(device=device, requests=asked)
        found = tune_with([work], crew, terms, compilers=compilers, policy=policy)
        seconds = time.perf_counter() - began
        crew.withdraw()
        assert not found.left, found.trouble
        return seconds, found


def _with_threads(spec, threads):
    return {**spec, "options": {**spec["options"], "nthreads": threads}}


def _install_backend(folder):
    """Have processes find the backend whose devices are a formula, as an installed one."""
    installed = folder / "site-packages" / "arithmetic-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Name: arithmetic\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[pretuned.backends]\narithmetic = arithmetic_devices:BACKEND\n")
    sys.path.insert(0, str(installed.parent))
    settings._installed.cache_clear()
