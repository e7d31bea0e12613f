"""The bundled kernels beside their peers: `python benchmarks/kernels --out FOLDER [--kernels NAME ...] [--lock FILE]`.

What runs as ours is a real call of the baked package, by rows and selection of `--lock` or, without it, of what is
installed. Peers are PyTorch, torch.compile, CuPy, Triton, cuBLAS by torch.mm, and Liger where it is installed. All get
the same arrays, and all results are held to the spec's tolerance in float64. `timing.py` says how device time is taken,
`contest.py` at which sizes. FOLDER/kernels.txt has the tables, FOLDER/kernels.json every figure, for the plots of the
documentation. A peer that fails is printed with its error, and the others go on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import torch  # noqa: E402 - behind the path

import tables  # noqa: E402
from contest import cases  # noqa: E402
from entrants import Measurer  # noqa: E402
from families import contests  # noqa: E402
from kernels_under_test import packages_of  # noqa: E402
from pretuned.config import GPU  # noqa: E402
from pretuned.spec.loader import load_folder  # noqa: E402
from pretuned.tune.request import find_device  # noqa: E402
from sizes.measuring import provenance  # noqa: E402
from warming import Warming  # noqa: E402

LIBRARIES = ("torch", "triton", "cupy-cuda13x", "cupy-cuda12x", "liger-kernel")


def versions():
    """Return the versions of the peers that are installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kernels", nargs="+", metavar="NAME", help="without it all that are bundled and known here")
    parser.add_argument("--peers", nargs="+", metavar="NAME", help="without it all")
    parser.add_argument("--lock", type=Path, help="bake from this lock instead of what is installed")
    parser.add_argument("--templates", type=Path, default=ROOT / "templates")
    parser.add_argument("--seconds", type=float, default=150.0, help="for the measurements, shared by the kernels")
    parser.add_argument(
        "--compiled", type=int, default=2, help="problems of each kind that torch.compile takes part in"
    )
    parser.add_argument("--warming", type=float, default=60.0, help="seconds for compiling peers before, at most")
    parser.add_argument("--seed", type=int, default=20261122)
    return parser.parse_args()


def main():
    options = read_options()
    began = time.perf_counter()
    options.out.mkdir(parents=True, exist_ok=True)
    device = find_device(GPU, {})
    head = provenance(device) | versions() | {"seed": options.seed}
    entered = contests(options.peers)
    wanted = options.kernels or sorted(entered)
    known = [name for name in wanted if name in entered and has(options.templates, name)]
    specs = {name: load_folder(options.templates, {name})[name] for name in known}
    for name in sorted({*wanted} - {*known}):
        print(f"{name}: no peers are known here, or no spec in {options.templates}", file=sys.stderr)
    planned = {name: list(cases(entered[name], spec, options.seed, options.compiled)) for name, spec in specs.items()}
    warming = Warming(planned, entered, options.templates, options.seed, options.warming)
    packages = packages_of(specs, options, device)
    print(f"baked or imported after {time.perf_counter() - began:.1f} s", flush=True)
    measurer, found = Measurer(options.seed), []
    for name, spec in specs.items():
        measurer.rehearse(entered[name], spec, packages[name], planned[name])
    measurer.seconds.clear()
    warming.end()
    ends = time.perf_counter() + options.seconds
    left = sum(map(len, planned.values()))
    for name, spec in specs.items():
        now = time.perf_counter()
        until = now + (ends - now) * len(planned[name]) / left  # each kernel's share by its problems
        left -= len(planned[name])
        of_kernel, left_out = measurer.kernel(entered[name], spec, packages[name], planned[name], until)
        took = time.perf_counter() - now
        print(
            *tables.problems(name, of_kernel), f"{took:.1f} s; {left_out} problems left out", "", sep="\n", flush=True
        )
        print(*(f"{who} {seconds:.1f} s" for who, seconds in measurer.seconds.most_common()), sep=", ", flush=True)
        found += of_kernel
        write(options.out, head | {"seconds": round(time.perf_counter() - began, 1)}, found)
    print(*tables.summary(found), "", *tables.shares(found), "", *tables.targets(found), sep="\n")


def has(templates, name):
    return (templates / f"{name}.toml").is_file()


def write(folder, head, found):
    """Write all figures so far, so that a run that is cut off leaves them."""
    lines = ",\n".join(json.dumps(one) for one in found)
    text = f'{{"provenance": {json.dumps(head)},\n"measurements": [\n{lines}\n]}}\n'
    (folder / "kernels.json").write_text(text, encoding="utf-8")
    names = dict.fromkeys(one["kernel"] for one in found)
    blocks = [[json.dumps(head)]] + [tables.problems(name, [o for o in found if o["kernel"] == name]) for name in names]
    blocks += [tables.summary(found), tables.shares(found), tables.targets(found)]
    (folder / "kernels.txt").write_text("\n\n".join("\n".join(block) for block in blocks) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    main()
