"""What a call costs the host: `python benchmarks/call [--out FOLDER]`.

Routes for 1, 3 and 8 arrays of CuPy and PyTorch take turns in one process; calls with `using()` in force and with
PRETUNED_USAGE have a process each. Then fresh processes: importing the package, and the first call, beside NVRTC and
Triton.
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
from pathlib import Path

from kernels import COUNTS, bake

from pretuned.config import GPU
from pretuned.tune.request import find_device

HERE = Path(__file__).parent
IMPORTS = 20
FRESH = 5


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


def table(found):
    routes = list(dict.fromkeys(name for count in COUNTS for name in found[str(count)]))
    yield f"{'us a call: median (a tenth below, a tenth above)':48}" + "".join(f"{f'{c} arrays':>24}" for c in COUNTS)
    for name in routes:
        cells = [found[str(count)].get(name) for count in COUNTS]
        texts = ["" if cell is None else f"{cell[0]:.2f} ({cell[1]:.2f}, {cell[2]:.2f})" for cell in cells]
        yield f"  {name:46}" + "".join(f"{text:>24}" for text in texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    target = find_device(GPU, {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bake(target, folder)
        plain, using = run("routes.py", folder, "plain"), run("routes.py", folder, "using")
        usage = run("routes.py", folder, "usage", PRETUNED_USAGE=str(folder / "usage"))
        for mode, found in (("using() in force", using), ("PRETUNED_USAGE set", usage)):
            for count in map(str, COUNTS):
                plain[count] |= {f"{name}, {mode}": cell for name, cell in found[count].items() if "checked" in name}
        lines = [
            json.dumps(
                {
                    "device": target.name,
                    "driver": target.driver,
                    "python": sys.version.split()[0],
                    "date": dt.datetime.now(dt.UTC).date().isoformat(),
                    "command": "python benchmarks/call --out FOLDER",
                }
            ),
            *table(plain),
            "",
            f"importing the package: {import_ms(folder):.2f} ms (median of {IMPORTS})",
            f"first call in a fresh process, ms (median of {FRESH})",
        ]
        for route in ("ours", "prepared", "nvrtc", "triton"):
            found = [run("cold.py", folder, route) for _ in range(FRESH)]
            steps = {step: statistics.median(one["steps"][step] for one in found) for step in found[0]["steps"]}
            nvrtc = "; NVRTC loaded" if any(one["nvrtc"] for one in found) else ""
            lines.append(f"  {route:8}" + ", ".join(f"{step} {ms:.2f}" for step, ms in steps.items()) + nvrtc)
    print("\n".join(lines))
    if options.out:
        (options.out / "call.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
