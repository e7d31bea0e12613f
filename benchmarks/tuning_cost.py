"""What tuning costs, and that a second one does nothing: `python benchmarks/tuning_cost.py --out FOLDER`.

The bundled kernels, and Hochgraf's GEMM with 27 inputs, are each tuned and certified from nothing: an empty cache, cold
compilers. The same tuning again, with that cache, should measure nothing. Then what was found goes into the lock of a
small project, and `pretuned tune` runs there: it should say that there is nothing to tune, and leave the lock as it is.

`--on host --folder FOLDER` tries the script out with specs that the host device runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pretuned.backends import lock_path
from pretuned.config import Place
from pretuned.record import lock as lockfile
from pretuned.report.effort import by_kernel, stages
from pretuned.report.text import columns
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune
from sizes import packages
from sizes.judging import percent
from sizes.measuring import provenance

ROOT = Path(__file__).parents[1]
TARGETS_S = {"bundled": 60.0, "hochgraf": 40.0}
TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\ncubins = false\n'
HGEMM = ("hgemm.toml", "hgemm.cu.jinja", "reference.py")


def bundled(folder):
    shutil.copytree(ROOT / "templates", folder, ignore=shutil.ignore_patterns("__pycache__"))


def hochgraf(folder):
    """The spec with 27 inputs; its text is the recorded one's but for the sizes."""
    folder.mkdir(parents=True)
    for name in HGEMM:
        shutil.copy(ROOT / "benchmarks" / "hochgraf" / name, folder)
    text = (folder / "hgemm.toml").read_text(encoding="utf-8")
    (folder / "hgemm.toml").write_text(text.replace("256, 512, 1024, 4096", "256, 1024, 4096"), encoding="utf-8")


def certified(selection):
    """One line about a selection and its certificate."""
    name = f"{selection.kernel} {space.describe(selection.specialisation)}"
    head = f"  {name}: {len(selection.choices)} configurations, fitted to {selection.problems} problems"
    if (certificate := selection.certificate) is None:
        return f"{head}, not certified"
    parts = [("inside", certificate.inside), ("outside", certificate.outside)]
    return "; ".join(
        [
            head,
            *(
                f"{part} {of.problems} problems, mean {percent(of.mean)}, p95 {percent(of.p95)}, worst "
                f"{percent(of.worst)}, slower than the default {percent(of.slower)}"
                for part, of in parts
                if of is not None
            ),
        ]
    )


def first(name, specs, device, cache):
    """Tune from nothing, then from the cache; return what was found, and the lines of the report."""
    requests = [TuningRequest(spec=spec, problems=tuple(space.all_problems(spec))) for spec in specs.values()]
    started = time.perf_counter()
    found = tune(requests, device, cache_folder=cache)
    wall_s, spending = time.perf_counter() - started, found.spending
    rows = sum(len(request.problems) for request in requests)
    lines = [
        (
            f"{name}: {wall_s:.1f} s (target {TARGETS_S.get(name, 0):.0f} s): {len(found.rows)} of {rows} rows, "
            f"{len(found.selections)} selections, {spending.launched} measurements, "
            f"{spending.compiled} sources compiled"
        ),
        *(f"  {line}" for line in stages(spending)),
        *(f"  {line}" for line in columns(by_kernel(spending), frozenset(range(1, 40)))),
        *map(certified, found.selections),
    ]
    started = time.perf_counter()
    cached = tune(requests, device, cache_folder=cache)
    same = (cached.rows, cached.selections) == (found.rows, found.selections)
    lines.append(
        f"  the same tuning, from the cache: {time.perf_counter() - started:.2f} s, {cached.spending.launched} "
        f"measurements, {cached.spending.compiled} sources compiled; {'the same' if same else 'ANOTHER'} result"
    )
    return found, lines


def again(found, device, project, cache):
    """Run `pretuned tune` in the project whose lock has what was found; say what it did and how long it took."""
    (project / "pyproject.toml").write_text(TABLE, encoding="utf-8")
    path = lock_path(project / "pretuned.lock.json", device.place.backend)
    lockfile.write(path, packages.lock_of(found))
    before = path.read_bytes()
    environment = os.environ | {"PRETUNED_CACHE_DIR": str(cache), "PRETUNED_TUNE_ON": str(device.place)}
    started = time.perf_counter()
    command = [sys.executable, "-m", "pretuned", "tune"]
    ended = subprocess.run(command, cwd=project, env=environment, check=False, capture_output=True, text=True)
    wall_s = time.perf_counter() - started
    same = "the lock is as it was" if path.read_bytes() == before else "THE LOCK CHANGED"
    printed = [f"    {line}" for line in (ended.stdout + ended.stderr).splitlines()]
    return [f"  pretuned tune again: {wall_s:.2f} s, status {ended.returncode}; {same}; it printed", *printed]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=sorted(TARGETS_S), help="one of the two alone")
    parser.add_argument("--on", default="cuda")
    parser.add_argument("--folder", type=Path, help="of other specs, in place of both")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    device = find_device(Place.parse(options.on), {})
    suites = {"bundled": bundled, "hochgraf": hochgraf}
    if options.only:
        suites = {options.only: suites[options.only]}
    if options.folder:
        suites = {"other": lambda folder: shutil.copytree(options.folder, folder)}
    lines = [json.dumps(provenance(device))]
    for name, fill in suites.items():
        with tempfile.TemporaryDirectory() as text:
            project = Path(text) / "project"
            project.mkdir()
            fill(project / "kernels")
            found, fresh = first(name, load_folder(project / "kernels"), device, Path(text) / "cache")
            fresh += again(found, device, project, Path(text) / "cache")
        print(*fresh, sep="\n", flush=True)
        lines += ["", *fresh]
        (options.out / "tuning_cost.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
