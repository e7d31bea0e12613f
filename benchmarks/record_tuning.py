"""Records what a tuning measured: `python benchmarks/record_tuning.py --cache FOLDER --out FOLDER KERNEL...`

Needs no GPU. The tuning runs again, with a device that measures nothing: all that it asks for has to be in the cache of
the tuning whose rows `--lock` has, with the same sources. Of each kernel and specialisation all times are written that
its selection was made from (`tuned`, `inside` or `outside` the sizes), and those of its certificate, in the form of
`record_sizes.py`: what was raced, and what was screened on the scale of the races. `replay_sizes.py` replays rules over
them. A tuning that a budget ended cannot be recorded: what it would ask for next was never measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from unittest.mock import patch

from pretuned.compile.result import Binary
from pretuned.record import lock as locks
from pretuned.record.cache import Cache
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.tune import selecting
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.observation import Observations
from pretuned.tune.request import TuningDevice, TuningRequest
from pretuned.tune.results import KnownResults
from pretuned.tune.spending import Spending
from pretuned.tune.tuner import Tuner
from pretuned.tune.workbench import Workbench
from sizes import matrix

ROOT = Path(__file__).parents[1]


class MissingError(Exception):
    """The cache lacks what the tuning asks for."""


class NothingMeasured:
    """A runner whose device is away: problems may be prepared, and whatever is measured is missing."""

    notes, remarks = (), ()

    def start(self):
        pass

    def prepare(self, _request):
        return None

    def __getattr__(self, name):
        def asked(*_given, **_named):
            raise MissingError(name)

        return asked


def observed(spec, specialisation, device, cache_folder):
    """Tune from the cache alone; return configurations, their resources, and the times by problem, in their order."""
    made = []

    class Listed(Observations):
        def __init__(self, task):
            super().__init__(task)
            made.append(self)

    problems = tuple(one for one in space.all_problems(spec) if one.specialisation == specialisation)
    with (
        Cache(cache_folder) as cache,
        BinaryStore(cache, Spending(), toolchain=device.backend.toolchain) as binaries,
        patch.object(selecting, "Observations", Listed),
        patch.object(KnownResults, "selection", lambda *_: None),  # which would be returned without being made
    ):
        parts = {"runner": NothingMeasured(), "device": device, "binaries": binaries, "cache": cache}
        workbench = Workbench(**parts, spending=Spending(), listen=lambda _event: None)
        for _ in Tuner(workbench).tune([TuningRequest(spec=spec, problems=problems)]):
            pass
        (found,) = made
        listed = sorted({c for times in found.times.values() for c in times})
        first = space.default(spec)
        listed = [first, *(c for c in listed if c != first)]
        binaries_of = [found.task.sources.binary(c) for c in listed]
        resources = [dict(one.resources) if isinstance(one, Binary) else {} for one in binaries_of]
        return listed, resources, found.times


def groups(spec, specialisation, times):
    """Return of each problem whether it is tuned, inside the spec's sizes or outside of them."""
    tuned = set(space.problems(spec, specialisation))
    spans = {name: [int(dict(one.dims)[name]) for one in tuned] for name in spec.free_dims}
    within = {name: (min(sizes), max(sizes)) for name, sizes in spans.items()}
    for problem in times:
        dims = dict(problem.dims)
        inside = all(least <= int(dims[name]) <= most for name, (least, most) in within.items())
        yield "tuned" if problem in tuned else "inside" if inside else "outside"


def record(spec, specialisation, device, options):
    """Write the recording of a specialisation; return a line about it."""
    listed, resources, times = observed(spec, specialisation, device, options.cache)
    command = f"python benchmarks/record_tuning.py --cache FOLDER --out FOLDER {spec.name}"
    origin = {"device": device.name, "driver": device.driver, "date": options.date, "command": command}
    head = matrix.head_of(spec, specialisation, listed, resources, device.facts, origin)
    lines = [
        {
            "group": group,
            "dims": [size for _, size in sorted(problem.dims)],
            "screened": [None] * len(listed),
            "raced": {listed.index(c): matrix.rounded(time_us) for c, time_us in known.items()},
        }
        for group, (problem, known) in zip(groups(spec, specialisation, times), times.items(), strict=True)
    ]
    name = "_".join([spec.name, *(str(value) for _, value in specialisation)])
    path = options.out / f"{name}.json.gz"
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in [head, *lines]) + "\n"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return f"{name}: {len(listed)} configurations at {len(lines)} problems, {path.stat().st_size:,} bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+", metavar="KERNEL")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lock", type=Path, default=ROOT / "pretuned.lock.json")
    parser.add_argument("--device", default="NVIDIA H200")
    parser.add_argument("--folder", type=Path, default=ROOT / "templates")
    options = parser.parse_args()
    lock = locks.read(options.lock)
    rows = [row for row in lock.rows if row.device == options.device]
    device = TuningDevice(record=lock.devices[options.device], driver=rows[-1].driver)
    options.date = max(row.date for row in rows)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, spec in load_folder(options.folder, set(options.kernels)).items():
        for specialisation in space.specialisations(spec):
            try:
                print(record(spec, specialisation, device, options), flush=True)
            except MissingError as error:
                print(f"{name} {dict(specialisation)}: the cache lacks what the tuning asks for ({error})", flush=True)


if __name__ == "__main__":
    main()
