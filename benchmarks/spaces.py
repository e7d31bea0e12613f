"""Many sizes, and large spaces, of a memory-bound kernel: `python benchmarks/spaces.py [--out FOLDER]`.

Tunes `spaces/stream.toml` from nothing three times: about 300 configurations at 32 sizes; one size of a space of more
than 5,000; one size of one of more than 100,000. Prints wall time, modules compiled, and the most memory that the main
process and its workers took.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
import tomllib
from pathlib import Path

from pretuned.config import GPU, Place
from pretuned.report.effort import stages
from pretuned.spec.loader import load
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import all_problems
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune
from pretuned.tune.space.points import Points

SPEC = Path(__file__).parent / "spaces" / "stream.toml"
LARGE = {"block": list(range(32, 1025, 32)), "unroll": [1, 2, 3, 4, 5, 6, 8], "waves": [0, 1, 2, 4, 8]}
HUGE = LARGE | {"unroll": list(range(1, 17)), "waves": list(range(34))}
SIZE = 16777216


class Memory:
    """Watches the largest resident set of this process and of each of its children, in MiB."""

    def __init__(self):
        self.most: dict[int, tuple[str, float]] = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def watch(self):
        while not self.ended.wait(0.05):
            for pid in [os.getpid(), *children_of(os.getpid())]:
                mib = resident_mib(pid)
                if mib > self.most.get(pid, ("", 0.0))[1]:
                    self.most[pid] = (kind_of(pid), mib)

    def describe(self):
        main = self.most.pop(os.getpid())[1]
        by_kind: dict[str, list[float]] = {}
        for kind, mib in self.most.values():
            by_kind.setdefault(kind, []).append(mib)
        workers = "; ".join(f"{len(sizes)} {kind}: {max(sizes):.0f} MiB at most" for kind, sizes in by_kind.items())
        return f"main process {main:.0f} MiB; {workers}"


def children_of(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def resident_mib(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def kind_of(pid):
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return "ended"
    return next(
        (word.split(":")[0].removeprefix("pretuned.") for word in command if word.startswith("pretuned.")), "main"
    )


def tuned(spec, problems, target):
    """Tune from nothing; returns a line and the seconds by stage."""
    points = Points.of(spec, problems[0].specialisation, problems, target.facts)
    with tempfile.TemporaryDirectory() as folder, Memory() as memory:
        started = time.perf_counter()
        result = tune([TuningRequest(spec=spec, problems=tuple(problems))], target, cache_folder=Path(folder))
        wall_s = time.perf_counter() - started
    faster = sorted(row.default.time_us / row.winner.time_us for row in result.rows)
    yield (
        f"{len(points):,} configurations x {len(problems)} sizes: {wall_s:.2f} s, {result.spending.compiled} modules "
        f"compiled, {result.spending.launched} measurements, winners {faster[0]:.2f}x to {faster[-1]:.2f}x"
    )
    yield f"  {memory.describe()}"
    yield from (f"  {line}" for line in stages(result.spending))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--on", default="cuda")
    options = parser.parse_args()
    target = find_device(Place(backend="host") if options.on == "host" else GPU, {})
    spec, document = load(SPEC), tomllib.loads(SPEC.read_text(encoding="utf-8"))
    lines = [json.dumps({"device": target.name, "driver": target.driver, "processors": os.cpu_count()})]
    lines += tuned(spec, all_problems(spec), target)
    for space in (LARGE, HUGE):
        values = document | {"space": document["space"] | space}
        wider = KernelSpec(**values, name=spec.name, folder=spec.folder)
        lines += tuned(wider, [p for p in all_problems(spec) if dict(p.dims)["n"] == SIZE], target)
    print("\n".join(lines))
    if options.out:
        (options.out / "spaces.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
