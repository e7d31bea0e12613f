"""What a call costs the host that no other was like: `python benchmarks/lookup.py [--out FOLDER]`. Needs no GPU.

A kernel of two dims ships 8 configurations, with a selection and 342 measured problems on each of 3 devices. Its calls
go to a driver and to arrays that do nothing (those of the tests), so what is timed is the dispatcher alone: a problem
that is new, with the parts of that; more shapes in turn than are remembered; a problem that was seen. Then fresh
processes import a package of 30 such kernels.
"""

from __future__ import annotations

import argparse
import compileall
import ctypes
import importlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import fake_cuda  # noqa: E402 - found by the line above
import sample  # noqa: E402 - as above
from fake_cupy import FakeCupy  # noqa: E402 - as above
from pretuned.bake.package import files  # noqa: E402 - as above
from pretuned.bake.plan import plan  # noqa: E402 - as above
from pretuned.record.selections import Certificate, Losses, PredictedChoice, Selection  # noqa: E402 - as above
from pretuned.spec import space  # noqa: E402 - as above
from pretuned.spec.loader import load  # noqa: E402 - as above
from pretuned.spec.space import Configuration, pairs  # noqa: E402 - as above

SIZES = [64 * 3**step // 2**step for step in range(18)], [32 * 4**step // 3**step for step in range(19)]
BLOCKS, VECS = (64, 128, 256, 512), (1, 4)
SHAPES = 2000  # in turn: more than are remembered
ROUNDS = 7
IMPORTS = 15
SPEC = """\
format = 1
summary = "y = alpha * x."
arguments = [
  {{ name = "y", role = "out", dtype = "T", shape = ["rows", "cols"] }},
  {{ name = "x", role = "in", dtype = "T", shape = ["rows", "cols"] }},
  {{ name = "alpha", dtype = "float32", value = 2.0 }},
  {{ name = "rows", dtype = "int32" }},
  {{ name = "cols", dtype = "int32" }},
]

[dims]
rows = {{ sizes = {rows} }}
cols = {{ sizes = {cols} }}

[specialisations]
T = {{ dtypes = ["float32"] }}

[space]
block = {blocks}
vec   = {vecs}

[constraints]
where = ["cols % vec == 0"]

[default]
block = 128
vec   = 1

[[launches]]
function = "affine"
grid     = ["rows", "ceil_div(cols, block * vec)"]
block    = ["block"]
"""


class Idle(fake_cuda.FakeCuda):
    """A driver that launches nothing and keeps no record."""

    def cuLaunchKernelEx(self, *_launch):  # noqa: N802 - the driver's name
        return 0

    def launch_kernel(self, *_launch):
        """Launch nothing."""


def spec(folder, name):
    rows, cols = SIZES
    text = SPEC.format(rows=rows, cols=cols, blocks=list(BLOCKS), vecs=list(VECS))
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    (folder / f"{name}.cu.jinja").write_text(
        'extern "C" __global__ void affine(float*, const float*, float, int, int) {} // {{ block }} {{ vec }}\n'
    )
    return load(folder / f"{name}.toml")


def choices():
    """The configurations that ship, the default last."""
    found = [Configuration(implementation="main", values=pairs({"block": b, "vec": v})) for b in BLOCKS for v in VECS]
    default = next(one for one in found if dict(one.values) == {"block": 128, "vec": 1})
    return [*(one for one in found if one != default), default]


def selection(name, device):
    """A selection with terms as real ones have them: blocks, the busiest SM's share, bytes, a tail."""
    predicted = []
    for place, one in enumerate(choices()):
        tile = dict(one.values)["block"] * dict(one.values)["vec"]
        blocks = f"rows * ceil_div(cols, {tile})"
        cost = (
            ("1", 1_800_000_000 + place),
            (f"ceil_div({blocks}, {device.sm_count})", 4_000_000 + 777 * place),
            (f"cols % {tile} != 0", 90_000_000),
            ("rows * cols", 2_500 - place),
            (blocks, 31_000),
        )
        predicted.append(PredictedChoice(configuration=one, candidate="", cubin="", cost=tuple(sorted(cost))))
    losses = Losses(problems=32, mean=0.006, p95=0.021, worst=0.04, slower=0.0, worst_at=(("cols", 100), ("rows", 7)))
    return Selection(
        kernel=name,
        device=device.name,
        specialisation=(("T", "float32"),),
        choices=tuple(predicted),
        margins=(20, 100),
        reach=tuple((dim, (min(sizes), max(sizes))) for dim, sizes in zip(("cols", "rows"), SIZES[::-1], strict=True)),
        problems=100,
        space="",
        verification="",
        compiler="13.0.88",
        driver="580.65.06",
        date="2026-11-20",
        certificate=Certificate(seed=1, inside=losses, outside=losses),
    )


def bake(folder, kernels, *, rows, selections):
    """Bake so many kernels, with so many rows each on each device, as the package `baked.tuned`."""
    specs = {name: spec(folder, name) for name in (f"scale{index}" for index in range(kernels))}
    devices = [sample.H100, sample.H200, sample.A100]
    measured = [
        sample.row(name, device, {"T": "float32"}, dict(problem.dims), *timed(place))
        for name, one in specs.items()
        for device in devices
        for place, problem in enumerate(list(space.problems(one, (("T", "float32"),)))[:rows])
    ]
    extra = {"selections": [selection(name, device) for name in specs for device in devices]} if selections else {}
    planned = plan(specs, measured, {device.name: device for device in devices}, **extra)
    sample.write({"__init__.py": b""}, folder / "baked")
    sample.write(files(planned, sample.binaries(planned)), folder / "baked" / "tuned")
    compileall.compile_dir(folder / "baked", quiet=1)
    return len(measured)


def timed(place):
    """Three choices of a row, the default last."""
    ranked = choices()
    named = [ranked[place % (len(ranked) - 1)], ranked[(place + 3) % (len(ranked) - 1)], ranked[-1]]
    return [sample.choice(float(time_us), **dict(one.values)) for time_us, one in zip((3, 4, 5), named, strict=True)]


def median_us(function, arguments, before=lambda: None):
    """Return the median of the time that a function takes: of each argument's call the fastest of several rounds."""
    best = [float("inf")] * len(arguments)
    for _ in range(ROUNDS):
        before()
        for place, one in enumerate(arguments):
            begin = time.perf_counter_ns()
            function(*one)
            best[place] = min(best[place], (time.perf_counter_ns() - begin) / 1e3)
    return statistics.median(best)


def each_us(run, arrays):
    """Return the time a call, of all arrays in turn: the least of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for x, y in arrays:
            run(x, 2.0, y=y)
        best = min(best, (time.perf_counter_ns() - begin) / 1e3 / len(arrays))
    return best


def calls(folder):
    """Yield what calls cost."""
    cuda = Idle()
    cuda.devices[:] = cuda.devices[:1]
    ctypes.CDLL = lambda _name: cuda
    cupy = FakeCupy(cuda)
    sys.modules |= {"cupy": cupy, "cupy.cuda": cupy.cuda, "cupy.cuda.nvrtc": cupy.cuda.nvrtc}
    sys.path.insert(0, str(folder))
    tuned = importlib.import_module("baked.tuned")
    shapes = [(1000 + step % 97, 4 * step + 100) for step in range(2 * SHAPES)]
    arrays = [tuple(cupy.ndarray(shape, "float32") for _ in "xy") for shape in shapes]
    begin = time.perf_counter_ns()
    tuned.scale0(arrays[0][0], 2.0, y=arrays[0][1])
    yield "the first call of the process, ms", (time.perf_counter_ns() - begin) / 1e6
    caller = importlib.import_module("baked.tuned._runtime.calls").callers["scale0"]
    parts = importlib.import_module("baked.tuned._runtime.calls")
    recorded = {"problem": [], "decide": [], "make": []}
    for name, found in recorded.items():
        setattr(parts, name, recording(getattr(parts, name), found))
    for x, y in arrays[1:SHAPES]:
        tuned.scale0(x, 2.0, y=y)
    for name, found in recorded.items():
        setattr(parts, name, found.pop())
    for name, words in (("problem", "checks"), ("decide", "decision"), ("make", "launch plan")):
        yield f"a new problem: {words}", median_us(getattr(parts, name), recorded[name])
    call = (lambda x, y: tuned.scale0(x, 2.0, y=y)), arrays[1 : SHAPES // 4]
    yield "a new problem: the whole call", median_us(*call, caller.forget)
    caller.forget()
    yield f"{SHAPES} shapes in turn", each_us(tuned.scale0, arrays[SHAPES:])
    caller.forget()
    yield "500 shapes in turn", each_us(tuned.scale0, arrays[:500])
    yield "a problem that was seen", each_us(tuned.scale0, arrays[:1] * 5000)


def recording(function, found):
    """Return a function that notes its arguments in `found`, whose last entry is the function itself."""
    found.append(function)

    def record(*arguments):
        found.insert(-1, arguments)
        return function(*arguments)

    return record


def import_ms(folder):
    """The least time that importing the package takes, by -X importtime."""
    taken = []
    for _ in range(IMPORTS):
        command = [sys.executable, "-X", "importtime", "-c", "import baked.tuned"]
        told = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True).stderr
        taken.append(int(re.search(r"\|\s+(\d+) \|\s+baked\.tuned$", told, re.MULTILINE)[1]) / 1e3)
    return min(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    head = {"python": sys.version.split()[0], "command": "python benchmarks/lookup.py --out FOLDER"}
    lines = [json.dumps(head)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = bake(folder, 1, rows=342, selections=True)
        lines.append(f"us, host alone: 8 configurations, 3 devices, {rows} rows")
        lines += [f"  {words:42}{value:8.2f}" for words, value in calls(folder)]
    lines.append("importing a package of 30 kernels on 3 devices, ms")
    for words, rows, selections in (
        ("30 rows a device, selections", 30, True),
        ("30 rows a device", 30, False),
        ("no rows", 0, False),
    ):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            bake(folder, 30, rows=rows, selections=selections)
            lines.append(f"  {words:42}{import_ms(folder):8.2f}")
    print("\n".join(lines))
    if options.out:
        (options.out / "lookup.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
