"""Two GPUs at equal units, by processes and by Dask's workers: `python benchmarks/fleet_gpus.py [--out FOLDER]`.

A project whose units are equal (`fleet_copies`) is tuned from nothing, so what keeps two GPUs from taking half as long
is the fleet's. Every run has a cache of its own, and each GPU as many processors as in every other run. The parts, of
which `--only` names some:

machine   one GPU of this machine, and two
dask      one worker of Dask's with a GPU, and two
killed    one of two such workers is killed in the middle; all rows have to come
compile   one worker with two processors and kernels that compile slowly, then a worker without a GPU beside it

It needs a machine with two GPUs, and Dask. A run that takes longer than `--limit` seconds is ended and reported.
`--on host` tries the script out where there is no GPU: there is one device, and times mean nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import distributed

from fleet_copies import write_project
from pretuned.backends import lock_path
from pretuned.config import Place
from pretuned.record import lock as lockfile
from pretuned.tune.request import find_device
from sizes.measuring import provenance

HERE = Path(__file__).parent
PARTS = ("machine", "dask", "killed", "compile")
FEW = 2  # processors of a worker whose compilers are to be the bottleneck
COME_S = 60.0  # for workers to join
KILLED_AT = 0.3  # of the rows are in the lock when a worker is killed


def environment(folder, **more):
    """The environment of a process with a cache and temporary files of its own, and what is installed here."""
    for name in ("cache", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    paths = [path for path in sys.path if path and Path(path) != HERE]  # whose modules have names of their own
    own = {"PRETUNED_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(folder / "tmp"), "PYTHONWARNINGS": "ignore"}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **own, **more}


def started(command, processors, **options):
    """Start a process of a group of its own on some processors."""
    begun = subprocess.Popen(command, start_new_session=True, text=True, **options)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(begun.pid, processors)
    return begun


def end(process):
    """End a process and its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a tuning took and found: `rows` has what the lock has of each problem, times aside."""

    seconds: float
    rows: dict[str, str]
    notes: tuple[str, ...]
    compiled: int
    trouble: str

    @property
    def line(self):
        return f"{self.seconds:8.1f} s  {len(self.rows):4} rows" + (f"  {self.trouble}" if self.trouble else "")


def tuned(project, options, processors, *arguments, during=lambda _lock: None):
    """Run `pretuned tune` in a project. `during` is called with the lock's path in a thread meanwhile."""
    command = [sys.executable, "-m", "pretuned", "tune", "--project", str(project), "--json", *arguments]
    lock = lock_path(project / "pretuned.lock.json", options.on)
    watch = threading.Thread(target=during, args=(lock,), daemon=True)
    began = time.perf_counter()
    with (project / "said").open("w+") as said:
        begun = started(command, processors, stdout=subprocess.PIPE, stderr=said, env=environment(project))
        watch.start()
        try:
            printed, _ = begun.communicate(timeout=options.limit)
            trouble = "" if begun.returncode == 0 else f"exit status {begun.returncode}"
        except subprocess.TimeoutExpired:
            printed, trouble = "", f"ended after {options.limit:g} s"
        finally:
            end(begun)
        seconds = time.perf_counter() - began
        said.seek(0)
        last = [line for line in said.read().splitlines() if line.strip()][-3:]
    found = json.loads(printed) if printed.strip() else {}
    return Run(
        seconds=seconds,
        rows=rows_of(lock),
        notes=tuple(found.get("workers", ())),
        compiled=found.get("compiled", 0),
        trouble=f"{trouble}: {' | '.join(last)[-300:]}" if trouble else "",
    )


def rows_of(lock):
    """Return the problems that a lock has rows of, each with the configuration that won."""
    return {f"{row.kernel} {row.problem}": row.winner.candidate for row in lockfile.read(lock).rows}


def half(index):
    """Return one half of the processors, as each of two GPUs of a machine has it."""
    every = sorted(os.sched_getaffinity(0))
    return every[index::2] or every


class Cluster:
    """A scheduler of Dask's in this process, and workers in processes of their own, one thread each."""

    def __init__(self, folder, options):
        self._folder, self._options = folder, options
        self._workers = []
        self.cluster = distributed.LocalCluster(n_workers=0, dashboard_address=None, silence_logs="CRITICAL")

    @property
    def address(self):
        return self.cluster.scheduler_address

    def add(self, name, gpu, processors, threads=1):
        """Start a worker that sees one GPU, or with "" none."""
        folder = self._folder / name
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--no-nanny", "--no-dashboard"]
        command += ["--nthreads", str(threads), "--name", name, "--local-directory", str(folder)]
        told = {"CUDA_VISIBLE_DEVICES": gpu, "PRETUNED_TUNE_ON": self._options.on}
        folder.mkdir(parents=True)
        with (folder / "said").open("w") as said:
            worker = started(command, processors, stdout=said, stderr=said, env=environment(folder, **told))
        self._workers.append(worker)
        return worker

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self._workers:
            end(worker)
        self.cluster.close()

    def wait(self):
        with distributed.Client(self.cluster, set_as_default=False) as client:
            client.wait_for_workers(len(self._workers), timeout=COME_S)
        return self


def of_machine(folder, options):
    """Yield lines: one GPU and two of this machine."""
    runs = {}
    for count, devices in ((1, "cuda:0" if options.on == "cuda" else "all"), (2, "all")):
        project = write_project(folder / f"machine-{count}", options.units, devices=devices, effort=options.effort)
        processors = half(0) if count == 1 else sorted(os.sched_getaffinity(0))
        on = () if options.on == "cuda" else ("--on", options.on)
        runs[count] = tuned(project, options, processors, *on)
        yield f"  {'one GPU' if count == 1 else 'two GPUs':<12}{runs[count].line}"
        yield from (f"    {note}" for note in runs[count].notes)
    yield from compared(runs[1], runs[2])


def of_dask(folder, options):
    """Yield lines: one worker of Dask's and two."""
    runs = {}
    for count in (1, 2):
        runs[count] = by_dask(folder / f"dask-{count}", options, count)
        yield f"  {'one worker' if count == 1 else 'two workers':<12}{runs[count].line}"
        yield from (f"    {note}" for note in runs[count].notes)
    yield from compared(runs[1], runs[2])


def compared(one, two):
    """Yield what two GPUs gain, and whether they found the same."""
    common = one.rows.keys() & two.rows.keys()
    winners = sum(one.rows[key] == two.rows[key] for key in common)
    same = "the same problems" if one.rows.keys() == two.rows.keys() else "OTHER PROBLEMS"
    yield f"  {'ratio':<12}{one.seconds / two.seconds:8.2f}    {same}, {winners} of {len(common)} with the same winner"


def by_dask(folder, options, count, during=lambda _workers, _lock: None):
    """Tune by so many workers with a GPU each; `during` gets them and the lock's path."""
    project = write_project(folder / "project", options.units, effort=options.effort)
    with Cluster(folder, options) as cluster:
        workers = [cluster.add(f"gpu-{index}", str(index), half(index)) for index in range(count)]
        cluster.wait()
        arguments = "--dask", cluster.address, "--on", options.on
        return tuned(project, options, half(0), *arguments, during=lambda lock: during(workers, lock))


def of_killed(folder, options):
    """Yield lines: one of two workers is killed once a part of the rows is there."""
    killed_s = []

    def kill(workers, lock):
        began, wanted = time.perf_counter(), KILLED_AT * 3 * options.units
        while len(rows_of(lock)) < wanted:
            time.sleep(0.1)
        time.sleep(0.5)  # it is in the middle of its next unit
        end(workers[1])
        killed_s.append(time.perf_counter() - began)

    run = by_dask(folder / "killed", options, 2, during=kill)
    when = f"killed after {killed_s[0]:.1f} s" if killed_s else "NOT KILLED: it was over before"
    yield f"  {'one killed':<12}{run.line}  of {3 * options.units}; {when}"
    yield from (f"    {note}" for note in run.notes)


def of_compile(folder, options):
    """Yield lines: kernels that compile slowly, without and with a worker that has no GPU."""
    if options.on != "cuda":
        yield "  every worker has the host device: there is none that could only compile"
        return
    every = sorted(os.sched_getaffinity(0))
    few, others = every[:FEW], every[FEW:] or every
    runs = []
    for name in ("alone", "helped"):
        project = write_project(
            folder / name / "project", options.slow_units, effort=options.effort, steps=options.steps
        )
        with Cluster(folder / name, options) as cluster:
            cluster.add("gpu-0", "0", few)
            if name == "helped":
                cluster.add("compiles", "", others, threads=len(others))
            cluster.wait()
            all_of_it = "--strategy", "exhaustive"  # a search tries less where sources cost more
            runs.append(tuned(project, options, few, "--dask", cluster.address, "--on", options.on, *all_of_it))
        yield f"  {name:<12}{runs[-1].line}  {runs[-1].compiled} sources compiled"
        yield from (f"    {note}" for note in runs[-1].notes)
    yield f"  processors: {len(few)} beside the GPU, {len(others)} without one"
    yield from compared(*runs)


TITLES = {
    "machine": "GPUs of this machine, a process each",
    "dask": "Dask's workers, one GPU and one thread each",
    "killed": "one of two workers of Dask's is killed (SIGKILL)",
    "compile": "sources that take long to compile, one GPU",
}
RUNS = {"machine": of_machine, "dask": of_dask, "killed": of_killed, "compile": of_compile}


def tables(folder, options):
    """Yield the lines of all parts that are asked for; what goes wrong in one does not end the others."""
    each = len(half(0))
    yield f"{options.units} equal units of 3 rows, each GPU with {each} processors, effort {options.effort}"
    for part in options.only or PARTS:
        yield ""
        yield TITLES[part]
        try:
            yield from RUNS[part](folder, options)
        except Exception as error:  # noqa: BLE001 - whatever Dask may raise
            yield f"  failed: {type(error).__name__}: {error}"


def main():
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part alone (may be repeated)")
    parser.add_argument("--on", default="cuda", choices=("cuda", "host"))
    parser.add_argument("--units", type=int, default=12)
    parser.add_argument("--slow-units", type=int, default=2, help="of the part `compile`")
    parser.add_argument("--steps", type=int, default=60, help="of the code that takes long to compile")
    parser.add_argument("--effort", default="default", choices=("fast", "default", "thorough"))
    parser.add_argument("--limit", type=float, default=60.0, metavar="S", help="seconds of a run")
    options = parser.parse_args()
    device = find_device(Place(backend=options.on), {})
    if device is None:
        raise SystemExit(f"there is no {options.on} device here; `--on host` tries the script out")
    lines = []
    with tempfile.TemporaryDirectory() as name:
        for line in tables(Path(name), options):
            print(line, flush=True)
            lines.append(line)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        head = json.dumps(provenance(device))
        (options.out / "fleet_gpus.txt").write_text("\n".join([head, "", *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
