"""What a table costs on a GPU that it was not tuned on: `python benchmarks/elsewhere.py [--out FOLDER]`.

Run on a GPU that the repository's lock has rows of. The bundled kernels are baked without those rows, so that a call
goes the way of an unknown GPU; `explain` says which rows it takes and why. Then, for each problem that was measured
here, what would run races what this GPU's own row has, and both are verified.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import math
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.build.place import place
from pretuned.compile.pool import compile_all
from pretuned.config import GPU
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, Raced
from pretuned.measure.runner import Runner
from pretuned.outcome import Timed
from pretuned.record import lock as lockfile
from pretuned.render import source_of
from pretuned.report.text import columns
from pretuned.spec.loader import load_folder
from pretuned.spec.space import Configuration, pairs
from pretuned.tune.request import find_device

ROOT = Path(__file__).parents[1]
ROUNDS = 31
SEED = 11


def baked_without(lock, specs, device, folder):
    """The bundled kernels as a package without the rows of `device`, imported; its binaries are not needed."""
    rows = [row for row in lock.rows if row.device != device and lock.devices[row.device].is_gpu]
    planned = plan(specs, rows, lock.devices, cubins=False)
    place({"__init__.py": b""}, folder / "baked")
    place(files(planned, {}), folder / "baked" / "tuned")
    sys.path.insert(0, str(folder))
    return importlib.import_module("baked.tuned")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    specs, lock, target = (
        load_folder(ROOT / "templates"),
        lockfile.read(ROOT / "pretuned.lock.json"),
        find_device(GPU, {}),
    )
    own = [row for row in lock.rows if row.device == target.name]
    with tempfile.TemporaryDirectory() as name:
        package = baked_without(lock, specs, target.name, Path(name))
        told = {}
        for row in own:
            problem = dict(row.problem.dims) | dict(row.specialisation)
            told[row] = package.explain(row.kernel, **problem)
    chosen = {
        row: Configuration(implementation=one.implementation, values=pairs(one.configuration))
        for row, one in told.items()
    }
    modules = {
        (row, configuration): source_of(specs[row.kernel], row.specialisation, configuration)
        for row in own
        for configuration in (row.default.configuration, row.winner.configuration, chosen[row])
    }
    binaries = compile_all(list(modules.values()), target.record.architecture)
    lines, losses, why = [], {}, Counter(one.why[0] for one in told.values())
    with Runner() as runner:
        for row in own:
            spec = specs[row.kernel]
            ways = list(dict.fromkeys([row.default.configuration, row.winner.configuration, chosen[row]]))
            entries = [CompiledCandidate.of(c, binaries[modules[row, c].key]) for c in ways]
            prepared = PrepareRequest(spec=spec, problem=row.problem, default=entries[0], seed=SEED, trust_default=True)
            runner.prepare(prepared)
            outcomes = [one.outcome for one in runner.screen(entries, verify=True)]
            assert all(isinstance(outcome, Timed) for outcome in outcomes), (row.kernel, row.problem, outcomes)
            raced = runner.race(entries, ROUNDS, estimates_us=[one.time_us for one in outcomes])
            assert isinstance(raced, Raced), raced
            times = {c: statistics.median(taken) for c, taken in zip(ways, raced.times_us, strict=True)}
            here, there, default = times[row.winner.configuration], times[chosen[row]], times[row.default.configuration]
            losses[row] = there / here
            same = "same" if chosen[row] == row.winner.configuration else ""
            lines.append(
                (
                    row.kernel,
                    str(row.problem),
                    f"{default:.2f}",
                    f"{here:.2f}",
                    f"{there:.2f}",
                    f"{there / here:.3f}",
                    same,
                )
            )
    loss = list(losses.values())
    geomean = math.exp(statistics.mean(map(math.log, loss)))
    head = {
        "device": target.name,
        "driver": target.driver,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "command": "python benchmarks/elsewhere.py --out FOLDER",
    }
    slower = sum(float(line[4]) > 1.01 * float(line[2]) for line in lines)
    report = [
        json.dumps(head),
        *(f"{count} of {len(own)} rows: {reason}" for reason, count in why.most_common()),
        f"all right; time over that of this GPU's own rows: geomean {geomean:.3f}, worst {max(loss):.3f}",
        f"over 1.05 in {sum(one > 1.05 for one in loss)} rows, slower than the default by over 1% in {slower}",
        *columns([("kernel", "problem", "default us", "own us", "elsewhere us", "ratio", ""), *lines]),
    ]
    print("\n".join(report[:6]))
    if options.out:
        (options.out / "elsewhere.txt").write_text("\n".join(report) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
