"""What a call costs the host: `python benchmarks/call [--parts PART ...] [--out FOLDER]`.

The parts: `calls`, routes for 1, 3 and 8 arrays of CuPy and PyTorch beside bare launches; `host`, whole calls beside
those of libraries; `modes`, calls with `using()` in force and with PRETUNED_USAGE; `cold`, fresh processes that import
the package and make a first call, beside NVRTC and Triton. Routes take turns in one process. Where several GPUs are
visible, the first two parts run with one of them visible, and with all. Without `cold` it takes about a minute and a
half for each number of GPUs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kernels import COUNTS, bake
from pretuned.config import GPU
from pretuned.tune.request import find_device

HERE = Path(__file__).parent
IMPORTS = 20
FRESH = 5
PARTS = ("calls", "host", "modes", "cold")


def run(script, *arguments, **variables):
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables, check=False)
    if done.returncode:
        sys.exit(f"{script} {arguments}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def import_ms(folder):
    """The median of the time that importing the package takes, by -X importtime."""
    taken = []
    for _ in range(IMPORTS):
        command = [sys.executable, "-X", "importtime", "-c", "import baked.tuned"]
        told = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True).stderr
        taken.append(int(re.search(r"\|\s+(\d+) \|\s+baked\.tuned$", told, re.MULTILINE)[1]) / 1e3)
    return statistics.median(taken)


def cell(found):
    return "" if found is None else "{:.2f} ({:.2f}, {:.2f})".format(*found)


def table(found):
    routes = list(dict.fromkeys(name for count in COUNTS for name in found[str(count)]))
    yield f"{'us a call: median (a tenth below, a tenth above)':48}" + "".join(f"{f'{c} arrays':>24}" for c in COUNTS)
    for name in routes:
        yield f"  {name:46}" + "".join(f"{cell(found[str(count)].get(name)):>24}" for count in COUNTS)


def host_tables(found):
    for title, routes in found.items():
        yield f"{title}, us a call"
        yield from (f"  {name:54}{cell(taken):>22}" for name, taken in routes.items())


def warm(folder, parts):
    """Yield the tables of the parts that run in warm processes, for one visible GPU and for all."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    every = named.split(",") if named else [str(index) for index in range(gpu_count())]
    for visible in [every[:1], every] if len(every) > 1 else [every]:
        variables = {"CUDA_VISIBLE_DEVICES": ",".join(visible)}
        if {"calls", "host"} & {*parts}:
            yield from ("", f"{len(visible)} GPU{'s' if len(visible) > 1 else ''} visible")
        if "calls" in parts:
            yield from table(run("routes.py", folder, "plain", **variables))
        if "host" in parts:
            yield from host_tables(run("host.py", folder, **variables))
    if "modes" in parts:
        using = run("routes.py", folder, "using")
        usage = run("routes.py", folder, "usage", PRETUNED_USAGE=str(folder / "usage"))
        for mode, found in (("using() in force", using), ("PRETUNED_USAGE set", usage)):
            yield from ("", mode, *table({count: checked(of) for count, of in found.items()}))


def checked(routes):
    return {name: taken for name, taken in routes.items() if "checked" in name}


def gpu_count():
    import cupy  # noqa: PLC0415 - only the count, and no context

    return cupy.cuda.runtime.getDeviceCount()


def cold(folder):
    """Yield what fresh processes take."""
    yield f"importing the package: {import_ms(folder):.2f} ms (median of {IMPORTS})"
    yield f"first call in a fresh process, ms (median of {FRESH})"
    for route in ("ours", "prepared", "nvrtc", "triton"):
        found = [run("cold.py", folder, route) for _ in range(FRESH)]
        steps = {step: statistics.median(one["steps"][step] for one in found) for step in found[0]["steps"]}
        nvrtc = "; NVRTC loaded" if any(one["nvrtc"] for one in found) else ""
        yield f"  {route:8}" + ", ".join(f"{step} {ms:.2f}" for step, ms in steps.items()) + nvrtc


def provenance(target, parts):
    """What the figures were taken with."""
    libraries = {}
    for name in ("cupy-cuda13x", "cupy-cuda12x", "torch", "triton"):
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "device": target.name,
        "driver": target.driver,
        "python": sys.version.split()[0],
        "processors": os.cpu_count(),
        **libraries,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "command": f"python benchmarks/call --parts {' '.join(parts)} --out FOLDER",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    target = find_device(GPU, {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bake(target, folder)
        lines = [json.dumps(provenance(target, options.parts)), *warm(folder, options.parts)]
        if "cold" in options.parts:
            lines += ["", *cold(folder)]
    print("\n".join(lines))
    if options.out:
        (options.out / "call.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
