"""Workers that tune together, with devices that only sleep: `python benchmarks/fleet.py [--out FOLDER]`. Needs no GPU.

A row takes a simulated device a fixed time, and its result follows from its key, so that locks are compared byte for
byte. What is real: the coordinator, units and answers, Dask's scheduler and its worker processes (`LocalCluster`), and
the processes of this machine's crew. For each run: how long it took, whether its lock is that of one worker, and how
often rows were measured. `--only compiling` runs the part of `fleet_compiling` alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from signal import SIGKILL

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import distributed  # noqa: E402 - after the path above

import arithmetic_devices  # noqa: E402 - as above
from fleet_compiling import compiling  # noqa: E402 - as above
from pretuned import backends  # noqa: E402 - as above
from pretuned.config import Place  # noqa: E402 - as above
from pretuned.fleet.dask import DaskCrew  # noqa: E402 - as above
from pretuned.fleet.harvest import FleetPolicy  # noqa: E402 - as above
from pretuned.fleet.machine import MachineCrew  # noqa: E402 - as above
from pretuned.fleet.tuning import FleetTerms, FleetWork, tune_with  # noqa: E402 - as above
from pretuned.fleet.units import split  # noqa: E402 - as above
from pretuned.record import lock as lockfile  # noqa: E402 - as above
from pretuned.record.lock import Lock  # noqa: E402 - as above
from pretuned.tune.request import find_device  # noqa: E402 - as above
from pretuned.tune.workbench import Demands  # noqa: E402 - as above
from simulated_fleet import DEVICE, NVRTC, LyingAt, SimulatedWorker, look, requests  # noqa: E402 - as above

KILLS = 20
POLICY = FleetPolicy(confirms=False, attempts=6)
UNITS_ROWS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A tuning: its seconds, the lock's text, and the lines of the log by row."""

    seconds: float
    lock: str
    measured: Counter[str]
    by: Counter[str]
    notes: tuple[str, ...]
    confirmed: int

    @property
    def repeated(self) -> set[str]:
        """The units of which a row was measured more than once: kernel and specialisation."""
        again = [row.split(" ") for row, count in self.measured.items() if count > 1]
        return {(kernel, *sorted(value for value in values if not value.startswith("n="))) for kernel, *values in again}


def tuned(asked, crew, log, *, device=DEVICE, policy=POLICY):
    began = time.perf_counter()
    terms = FleetTerms(cache_folder=None)
    compilers = {DEVICE.name: NVRTC}  # as the workers of a cluster are asked for it
    found = tune_with([FleetWork(device=device, requests=asked)], crew, terms, compilers=compilers, policy=policy)
    seconds = time.perf_counter() - began
    lines = [line.split(" | ") for line in log.read_text().splitlines()] if log.exists() else []
    assert not found.left, found.trouble
    return Run(
        seconds=seconds,
        lock=lockfile.dumps(Lock().updated(found.devices, found.rows)),
        measured=Counter(row for row, _ in lines),
        by=Counter(worker for _, worker in lines),
        notes=found.notes,
        confirmed=len(found.confirmed),
    )


class Cluster:
    """Dask's worker processes on this machine, one thread each."""

    def __init__(self, workers):
        self.cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="CRITICAL"
        )
        self.client = distributed.Client(self.cluster, set_as_default=False)
        self.client.wait_for_workers(workers)
        self.client.run(_warm)  # imports, which every later unit would find done

    def crew(self, work, honest=SimulatedWorker()):  # noqa: B008 - a constant
        found = DaskCrew(self.client, "simulated", work=work, look=partial(look, honest))
        found.evidence(10)
        return found

    def pids(self):
        return self.client.run(os.getpid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
        self.cluster.close()


def _warm():
    import simulated_fleet  # noqa: F401, PLC0415 - for its imports


def log_in(folder):
    return folder / f"log-{time.monotonic_ns()}"


def scaling(folder, asked, row_s):
    """Return runs by number of Dask's workers."""
    runs = {}
    for workers in (1, 2, 4, 8):
        with Cluster(workers) as cluster:
            log = log_in(folder)
            runs[workers] = tuned(asked, cluster.crew(SimulatedWorker(row_s=row_s, log=log)), log)
    return runs


def on_this_machine(folder, asked, row_s):
    """Return runs with one simulated device of this machine and with two, each in a process of its own."""
    os.environ |= {"ROW_S": str(row_s), "ARITHMETIC_DEVICES": "a,a"}
    backends.register("arithmetic", arithmetic_devices.BACKEND)
    runs = {}
    for count in (1, 2):
        devices = [find_device(Place(backend="arithmetic", index=index), {}) for index in range(count)]
        with MachineCrew(devices, target="simulated_fleet:serve") as crew:
            wanted = replace(devices[0], driver=devices[0].driver)
            runs[count] = tuned(asked, crew, log_in(folder), device=wanted)
    return runs


LENGTHS = {  # what takes longer than expected, by how many times, and how much that is of all 24 units
    "as expected": ("", 24.0),
    "two units 6 times as long, in the middle": ("scale005: 6", 34.0),
    "two units 6 times as long, expected last": ("scale011: 6", 34.0),
    "one unit 15 times as long, in the middle": ("scale005, T=float16: 15", 38.0),
    "one unit 15 times as long, expected last": ("scale011, T=float16: 15", 38.0),
}


def balance(folder, unit_s):
    """Yield lines: for each of `LENGTHS`, what two and four devices take, beside what no order could undercut."""
    asked = requests(folder, 12)
    kinds = os.environ["ARITHMETIC_DEVICES"]
    os.environ |= {"ROW_S": str(unit_s / UNITS_ROWS), "ARITHMETIC_DEVICES": "a,a,a,a"}
    yield f"{'24 units':<42}{'devices':>8}{'s':>7}{'least':>7}"
    for name, (slow, units) in LENGTHS.items():
        os.environ["SLOW"] = slow
        longest = float(slow.rpartition(" ")[2] or 1)
        for count in (2, 4):
            devices = [find_device(Place(backend="arithmetic", index=index), {}) for index in range(count)]
            with MachineCrew(devices, target="simulated_fleet:serve") as crew:
                _warmed(crew, asked, devices[0], count)
                seconds = tuned(asked, crew, log_in(folder), device=devices[0]).seconds
            yield f"{name:<42}{count:8}{seconds:7.2f}{unit_s * max(longest, units / count):7.2f}"
    os.environ |= {"SLOW": "", "ARITHMETIC_DEVICES": kinds}


def _warmed(crew, asked, device, count):
    """Have every device's process started."""
    (unit, *_) = split(asked[:1], device, Demands())
    for answer in [crew.submit(unit, lambda _event: None) for _ in range(count)]:
        answer.result()


def killed(folder, asked, row_s, workers, expected):
    """Return, for each seeded moment, the run in which a worker was killed then."""
    runs = []
    whole_s = sum(len(one.problems) for one in asked) * row_s / workers
    while len(runs) < KILLS:
        with Cluster(workers) as cluster, contextlib.suppress(TimeoutError):
            for seed in range(len(runs), KILLS):
                cluster.client.wait_for_workers(workers, timeout=10)  # Dask starts no other for one that had just begun
                drawn = random.Random(seed)
                log, moment_s = log_in(folder), drawn.uniform(0.02, 0.9) * whole_s
                timer = threading.Timer(moment_s, os.kill, (drawn.choice(sorted(cluster.pids().values())), SIGKILL))
                timer.start()
                run = tuned(asked, cluster.crew(SimulatedWorker(row_s=row_s, log=log)), log)
                timer.join()
                runs.append((seed, moment_s, run, run.lock == expected))
    return runs


def joined_late(folder, asked, row_s):
    """Return a run that two workers begin and two more join, and how many rows the late ones measured."""
    with Cluster(2) as cluster:
        first = set(cluster.pids())
        log = log_in(folder)
        timer = threading.Timer(1.0, cluster.cluster.scale, (4,))
        timer.start()
        run = tuned(asked, cluster.crew(SimulatedWorker(row_s=row_s, log=log)), log)
        timer.join()
    return run, sum(count for worker, count in run.by.items() if worker not in first)


LIES = {
    "other bytes than its digest": {"lie": "bytes"},
    "another driver": {"driver": "999.1"},
    "another driver in its rows": {"lie": "driver of a row"},
    "another device": {"device": replace(DEVICE.record, sm_count=114)},
    "another compiler": {"compiler": "12.9.1"},
    "another reference": {"lie": "reference"},
}


def lying(folder, asked, row_s):
    """Return, for each lie, the run in which one of four workers told it."""
    runs = {}
    with Cluster(4) as cluster:
        for name, changed in LIES.items():
            log = log_in(folder)
            honest = SimulatedWorker(row_s=row_s, log=log)
            work = LyingAt(liars=(min(cluster.pids()),), liar=replace(honest, **changed), honest=honest)
            runs[name] = tuned(asked, cluster.crew(work), log)
    return runs


def main():
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    parser.add_argument("--only", choices=["compiling"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        lines = list(tables(Path(name), options.only))
    made = {
        "python": platform.python_version(),
        "dask": distributed.__version__,
        "processors": os.cpu_count(),
        "command": "python benchmarks/fleet.py --out FOLDER",
    }
    if options.out:
        (options.out / "fleet.txt").write_text("\n".join([json.dumps(made), *lines]) + "\n")


def tables(folder, only):
    for line in compiling(folder, 1.0, 4, POLICY) if only else _tables(folder):
        print(line, flush=True)
        yield line


def _tables(folder):
    asked, row_s = requests(folder, 16, modes=2), 0.3
    runs = scaling(folder, asked, row_s)
    expected = runs[1].lock
    yield f"{len(asked) * 4} units of {UNITS_ROWS} rows, {row_s} s a row on a simulated device; Dask's LocalCluster"
    yield f"{'workers':>8}{'s':>9}{'times':>8}  lock of one worker"
    for workers, run in runs.items():
        yield f"{workers:8}{run.seconds:9.2f}{runs[1].seconds / run.seconds:8.2f}  {_same(run, expected)}"
    yield ""
    here = on_this_machine(folder, asked, row_s)
    yield f"{len(asked) * 4} units, {row_s} s a row; devices of this machine, one process each"
    yield f"{'devices':>8}{'s':>9}{'times':>8}"
    for count, run in here.items():
        yield f"{count:8}{run.seconds:9.2f}{here[1].seconds / run.seconds:8.2f}  {_same(run, here[1].lock)}"
    yield ""
    yield from balance(folder, 0.4)
    yield ""
    fewer, row_s = asked[:10], 0.1
    with Cluster(1) as cluster:
        expected = tuned(fewer, cluster.crew(SimulatedWorker()), folder / "none").lock
    yield from _of_kills(folder, fewer, row_s, expected)
    run, late = joined_late(folder, fewer, row_s)
    yield ""
    share = f"{late} of {run.measured.total()} rows by the late ones"
    yield f"two workers, and two more after 1 s: {run.seconds:.2f} s, {share}, {_same(run, expected)}"
    yield ""
    yield f"{'one worker of four has':<30}{'lock':<12}what was printed"
    for lie, run in lying(folder, fewer, 0.02).items():
        reason = next(note for note in run.notes if note.startswith("refused")).partition(": its ")[2]
        yield f"{lie:<30}{_same(run, expected):<12}refused: ... its {reason[:80]}"
    yield ""
    yield from compiling(folder, 1.0, 4, POLICY)


def _same(run, expected):
    return "same bytes" if run.lock == expected else "DIFFERS"


def _of_kills(folder, asked, row_s, expected):
    workers = 4
    runs = killed(folder, asked, row_s, workers, expected)
    units = f"{len(asked) * 4} units of {UNITS_ROWS} rows, {row_s} s a row"
    yield f"a worker of {workers} killed at {KILLS} moments: {units}"
    yield f"{'seed':>6}{'after s':>9}{'s':>7}{'rows':>6}{'measured':>10}{'twice':>7}{'units':>7}  lock"
    for seed, moment_s, run, same in runs:
        again = sum(count - 1 for count in run.measured.values())
        yield (
            f"{seed:6}{moment_s:9.2f}{run.seconds:7.2f}{len(run.measured):6}{run.measured.total():10}{again:7}"
            f"{len(run.repeated):7}  {'same bytes' if same else 'DIFFERS'}"
        )
    yield f"most units of which anything was measured twice: {max(len(run.repeated) for _, _, run, _ in runs)}"


if __name__ == "__main__":
    main()
