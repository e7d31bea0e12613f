"""What the coordinator costs: `python benchmarks/coordinator.py [--units N ...] [--out FOLDER]`. Needs no GPU.

Simulated workers answer at once, with answers that were made before. So what is timed is the coordinator alone: giving
units out, judging answers (digests, rows, specs), keeping their cache rows, and writing the lock as it grows. Its
memory is that of the process above what units and answers take themselves, which a real fleet has on the wire.
"""

from __future__ import annotations

import argparse
import json
import pickle
import platform
import resource
import sys
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from pretuned.api.merging import LockMerger  # noqa: E402 - after the path above
from pretuned.fleet.harvest import FleetPolicy  # noqa: E402 - as above
from pretuned.fleet.tuning import FleetTerms, FleetWork, tune_with  # noqa: E402 - as above
from pretuned.fleet.units import split  # noqa: E402 - as above
from pretuned.record import lock as lockfile  # noqa: E402 - as above
from pretuned.tune.session import ORDINARY  # noqa: E402 - as above
from simulated_fleet import DEVICE, SimulatedWorker, requests  # noqa: E402 - as above

MODES = 50  # of a kernel, with two types each


class Answering:
    """A crew of `count` workers whose answers are there at once: pickled, as they come over a wire."""

    streams = True

    def __init__(self, count, answers):
        self.count, self.answers, self.given = count, answers, 0
        self.submit_s = 0.0

    def workers(self, device):
        return self.count

    def room(self, device):
        return self.count

    def submit(self, unit, listen):
        began = time.perf_counter()
        self.given += 1
        found = Future()
        found.set_running_or_notify_cancel()
        found.set_result(pickle.loads(self.answers[unit.kernel, unit.request.problems]))
        self.submit_s += time.perf_counter() - began
        return found

    def recall(self, answer):
        """Nothing here is late."""

    def dismiss(self, worker):
        raise AssertionError(worker)


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(folder, units, workers):
    """Return a line of the table."""
    asked = requests(folder, max(1, units // (2 * MODES)), modes=min(MODES, units // 2))
    made = split(asked, DEVICE, ORDINARY, files=True)
    names = [f"w{n}" for n in range(workers)]
    answers = {
        (unit.kernel, unit.request.problems): pickle.dumps(SimulatedWorker()(unit, names[n % workers]))
        for n, unit in enumerate(made)
    }
    before, crew = peak_mb(), Answering(workers, answers)
    lock = folder / "pretuned.lock.json"
    terms = FleetTerms(cache_folder=folder / "cache", merge=LockMerger(lock, None).take)
    began, cpu = time.perf_counter(), time.process_time()
    found = tune_with([FleetWork(device=DEVICE, requests=asked)], crew, terms, policy=FleetPolicy(confirms=False))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert (len(found.rows), found.left) == (2 * len(made), 0)
    written = len(lockfile.read(lock).rows)
    own = seconds - crew.submit_s
    return (
        f"{len(made):8,}{workers:9}{own:9.1f}{1000 * own / len(made):10.2f}{1000 * cpu / len(made):10.2f}"
        f"{peak_mb() - before:9.0f}{sum(map(len, answers.values())) / 2**20:12.0f}{written:14,}"
    )


def main():
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--units", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    lines = [
        "units of 2 rows; MB: the peak above what was there before; in lock: rows that were written before the end",
        f"{'units':>8}{'workers':>9}{'s':>9}{'ms/unit':>10}{'CPU ms':>10}{'MB':>9}{'answers MB':>12}{'in lock':>14}",
    ]
    print("\n".join(lines))
    for units in options.units:
        with tempfile.TemporaryDirectory() as name:
            lines.append(measured(Path(name), units, options.workers))
            print(lines[-1], flush=True)
    made = {"python": platform.python_version(), "command": "python benchmarks/coordinator.py --out FOLDER"}
    if options.out:
        (options.out / "coordinator.txt").write_text("\n".join([json.dumps(made), *lines]) + "\n")


if __name__ == "__main__":
    main()
