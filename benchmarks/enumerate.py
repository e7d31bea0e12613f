"""How long it takes to enumerate constrained spaces: `python benchmarks/enumerate.py [--limit-s 10] [SPACE...]`.

`Points` beside itertools with a test of each combination (what `spec.space.configurations` does) and, where it is
installed, python-constraint2. Each runs in a process of its own, whose time starts after the imports and whose peak of
resident memory is the process's, imports included. What has no result after `--limit-s` is ended: itertools takes a
minute and more for ten million combinations. Counts have to agree.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import platform
import resource
import sys
import time
from importlib import metadata

import numpy as np

from pretuned.report.text import columns
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem
from pretuned.tune.space.points import Points

HEAD = ("space", "raw", "constraints", "by", "legal", "seconds", "peak MB")
LIMIT = 100_000_000  # combinations beyond which none goes through them one by one

DEDISPERSION = {
    "block_x": [1, 2, 4, 8, *range(16, 513, 16)],
    "block_y": [1, 2, 4, 8, *range(16, 129, 16)],
    "tile_x": list(range(1, 17)),
    "tile_y": list(range(1, 17)),
    "stride_x": [0, 1],
    "stride_y": [0, 1],
    "unroll": [0, 1, 2, 4, 8, 16],
    "blocks_per_sm": [0, 1, 2, 3],
}
DEDISPERSION_WHERE = [
    "32 <= block_x * block_y <= 1024",
    "tile_x > 1 or stride_x == 0",
    "tile_y > 1 or stride_y == 0",
    "tile_x * tile_y <= 64 and unroll * tile_x * tile_y <= 256",
    "block_x * tile_x * block_y * tile_y * 4 <= 65536",
    "blocks_per_sm == 0 or blocks_per_sm * block_x * block_y <= 2048",
]
GEMM = {
    "MWG": [16, 32, 64, 128, 256],
    "NWG": [16, 32, 64, 128, 256],
    "KWG": [8, 16, 32, 64],
    "KWI": [1, 2, 4, 8],
    "MDIMC": [8, 16, 32, 64],
    "NDIMC": [8, 16, 32],
    "MDIMA": [8, 16, 32],
    "NDIMB": [8, 16, 32],
    "VWM": [1, 2, 4, 8],
    "VWN": [1, 2, 4, 8],
    "SA": [0, 1],
    "SB": [0, 1],
    "STRM": [0, 1],
    "STRN": [0, 1],
}
GEMM_WHERE = [
    "KWG % KWI == 0",
    "MWG % (MDIMC * VWM) == 0 and NWG % (NDIMC * VWN) == 0",
    "MWG % (MDIMA * VWM) == 0 and NWG % (NDIMB * VWN) == 0",
    "MDIMC * NDIMC >= MDIMA and KWG % (MDIMC * NDIMC // MDIMA) == 0",
    "MDIMC * NDIMC >= NDIMB and KWG % (MDIMC * NDIMC // NDIMB) == 0",
]
SHORTER = {name: listed[: 3 if len(listed) > 4 else 2] for name, listed in GEMM.items()}
FREE = {f"p{place}": [1, 2, 3, 5, 8] for place in range(10)}
SUM = " + ".join(f"p{place} * p{(place + 3) % 10}" for place in range(10))
LARGER = GEMM | {name: [4, *GEMM[name], 128] for name in ("MDIMC", "NDIMC", "MDIMA", "NDIMB")}
LARGER |= {"PAD": list(range(16)), "STAGES": [1, 2, 3, 4]}

TIGHT = [
    "PAD == 0 or PAD == VWM and SA == 1",
    "STAGES * (MWG + NWG) * KWG * 4 <= 32768",
    "SA + SB == 2 or STAGES == 1",
    "STRM == STRN and MDIMA == MDIMC and NDIMB == NDIMC",
    "128 <= MDIMC * NDIMC <= 512 and MWG // MDIMC * (NWG // NDIMC) <= 64",
]
SIZES = [(n, m) for n in (80, 96, 112, 176, 272, 304, 640, 1000) for m in (48, 64, 80, 96, 112, 144, 160, 208)]

SPACES = {  # parameters, constraints, problems (n, m) for the guards
    "dedispersion": (DEDISPERSION, DEDISPERSION_WHERE, SIZES[:1]),
    "gemm": (GEMM, GEMM_WHERE, SIZES[:1]),
    "gemm, shorter lists": (SHORTER, GEMM_WHERE, SIZES[:1]),
    "one constraint over all": (FREE, [f"({SUM}) % 97 == 0"], SIZES[:1]),
    "gemm, guards, 64 problems": (GEMM, [*GEMM_WHERE, "n % MWG == 0", "m % NWG == 0"], SIZES),
    "gemm, longer lists": (LARGER, [*GEMM_WHERE, *TIGHT], SIZES[:1]),
}


def kernel(name):
    """The spec and the problems of a space."""
    parameters, where, sizes = SPACES[name]
    spec = KernelSpec(
        name="kernel",
        arguments=[{"name": "y", "role": "out", "dtype": "float32", "shape": ["n", "m"]}],
        dims={"n": {"sizes": [1]}, "m": {"sizes": [1]}},
        space=parameters,
        default={key: listed[0] for key, listed in parameters.items()},
        launches=[{"function": "f", "grid": [1], "block": [1]}],
        constraints={"where": where},
    )
    return spec, [Problem(specialisation=(), dims=(("m", m), ("n", n))) for n, m in sizes]


def by_points(spec, problems):
    return len(Points.of(spec, (), problems))


def by_itertools(spec, problems):
    return sum(1 for _ in space.configurations(spec, problems[0]))


def by_constraint(spec, _):
    import constraint  # noqa: PLC0415 - it may not be installed

    implementation = spec.all_implementations["main"]
    problem = constraint.Problem()
    for name, listed in implementation.space.items():
        problem.addVariable(name, list(listed))
    for expression in implementation.constraints.where:
        problem.addConstraint(expression.python)
    order = sorted(implementation.space)
    solutions = problem.getSolutionsOrderedList(order)
    return len(solutions) + (tuple(implementation.default[name] for name in order) not in solutions)


TOOLS = {"Points": by_points, "itertools": by_itertools, "python-constraint2": by_constraint}


def measured(tool, name):
    """Return (points with the default, seconds, peak MB); runs in a fresh process."""
    spec, problems = kernel(name)
    start = time.perf_counter()
    count = TOOLS[tool](spec, problems)
    return count, time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def row(tool, name, limit_s):
    """Return the last three cells of a line, and the count: None where the limit came first."""
    with multiprocessing.get_context("spawn").Pool(1) as fresh:  # ended at the end of the block
        fresh.apply(version, ("numpy",))  # it has imported this module
        try:
            count, seconds, peak = fresh.apply_async(measured, (tool, name)).get(limit_s)
        except multiprocessing.TimeoutError:
            return ("", f"> {limit_s:g}", ""), None
    return (f"{count:,}", f"{seconds:.2f}", f"{peak:.0f}"), count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", metavar="SPACE", help=f"of {', '.join(SPACES)}")
    parser.add_argument("--limit-s", type=float, default=10.0, help="seconds for each (default: 10)")
    options = parser.parse_args()
    if unknown := set(options.spaces) - set(SPACES):
        parser.error(f"there is no space {', '.join(sorted(unknown))}; there are {', '.join(SPACES)}")
    tools = [tool for tool in TOOLS if tool != "python-constraint2" or version(tool)]
    rows, counts = [HEAD], {}
    for name in options.spaces or SPACES:
        parameters, where, sizes = SPACES[name]
        raw = math.prod(map(len, parameters.values()))
        for tool in tools:
            if (tool == "itertools" and raw > LIMIT) or (tool != "Points" and len(sizes) > 1):
                continue
            cells, count = row(tool, name, options.limit_s)
            counts.setdefault(name, set()).update([] if count is None else [count])
            rows.append((name, f"{raw:,}", str(len(where)), tool, *cells))
    print("python benchmarks/enumerate.py", *sys.argv[1:])
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}", end=", ")
    print(f"python-constraint2 {version('python-constraint2') or 'not installed, and skipped'}\n")
    print("\n".join(columns(rows, frozenset({1, 2, 4, 5, 6}))))
    differing = [name for name, found in counts.items() if len(found) > 1]
    print("\nthe counts agree" if not differing else f"\nthe counts differ: {', '.join(differing)}")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
