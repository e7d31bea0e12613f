"""Kernels compiled a second against workers: `python benchmarks/compile.py [--count 120] [--out FOLDER]`.

Every compilation gets a source that no compiler has seen. Workers are started before the clock is; how long that takes
stands beside.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import uuid
from pathlib import Path

from pretuned.compile.nvrtc import installed_nvrtc
from pretuned.compile.pool import CompilePool
from pretuned.render import Source, source_of
from pretuned.spec import space
from pretuned.spec.loader import load

SPEC = Path(__file__).parents[1] / "templates" / "sgemm.toml"
WORKERS = (1, 2, 4, 8, 16, 32)


def fresh(count):
    """Modules of the bundled sgemm, each with a name of its own in it."""
    spec = load(SPEC)
    specialisation = next(space.specialisations(spec))
    problem = next(space.problems(spec, specialisation))
    texts = [source_of(spec, specialisation, c) for c in space.configurations(spec, problem)]
    for index in range(count):
        module = texts[index % len(texts)]
        name = f"__device__ int only_{uuid.uuid4().hex};\n"
        yield Source(text=module.text + name, options=module.options, functions=module.functions)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    provenance = {"NVRTC": installed_nvrtc(), "processors": os.cpu_count(), "modules": options.count, "spec": "sgemm"}
    lines = [json.dumps(provenance)]
    lines.append("workers   start s   compiling s   modules/s   times one")
    one = 0.0
    for workers in [count for count in WORKERS if count <= 2 * (os.cpu_count() or 1)]:
        started = time.perf_counter()
        with CompilePool(workers) as pool:
            list(pool.compile((module, "sm_90") for module in fresh(4 * workers)))
            warm = time.perf_counter()
            jobs = [(module, "sm_90") for module in fresh(options.count)]
            begun = time.perf_counter()
            results = list(pool.compile(jobs))
            took = time.perf_counter() - begun
        rate = len(results) / took
        one = one or rate
        lines.append(f"{workers:7d} {warm - started:9.2f} {took:13.2f} {rate:11.1f} {rate / one:11.1f}")
        print(lines[-1], flush=True)
    print("\n".join(lines))
    if options.out:
        (options.out / "compile.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
