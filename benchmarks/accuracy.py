"""Accuracy of the bundled kernels on a GPU: `python benchmarks/accuracy.py --out FOLDER [--kernels NAME ...]`.

Every kernel that has a spec in `--templates` is called at random problems, in turn for each of its specialisations:
real calls of the installed package, or of one baked from a lock, with rows and selections as they are. Sizes are
log-uniform, from 0 on, and bounded so that the reference, in float64 on the host, takes about a millisecond. Half of
the calls have arrays that begin anywhere. Inputs are what the spec draws, scaled by a power of two for each array. What
is printed is the largest error of a call in units of the spec's tolerance: over 1 is wrong. Of gradients of norms the
tolerance is also that of the terms whose difference they are: terms as large as the spec draws do not cancel, scaled
ones may. Where a spec draws whole numbers, whose sums are exact, other inputs follow, and their errors are measured by
what the spec allows of the reference plus the same of the reference of their magnitudes. Then special values are
planted among the inputs, of small problems and of large ones, and the results held to what the reference makes of them.

FOLDER/accuracy.txt has the tables, FOLDER/accuracy.json every figure.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "kernels")]

from kernels_under_test import packages_of  # noqa: E402 - behind the path
from pretuned.config import GPU  # noqa: E402
from pretuned.measure import data  # noqa: E402
from pretuned.measure.launch import arrays  # noqa: E402
from pretuned.report.text import columns  # noqa: E402
from pretuned.runtime.types import DTYPES  # noqa: E402
from pretuned.spec.loader import load_folder  # noqa: E402
from pretuned.spec.space import describe, dtype_of  # noqa: E402
from pretuned.tune.request import find_device  # noqa: E402
from sizes.measuring import provenance  # noqa: E402
from values.calls import results  # noqa: E402
from values.inputs import SPECIALS, least, planted, random_views, reals, scaled  # noqa: E402
from values.judging import worst_share  # noqa: E402
from values.problems import drawn  # noqa: E402
from values.terms import terms  # noqa: E402

NORMAL = 2.0**-126  # what a kernel that flushes float32's subnormals may lose
FEW, DRAWN = 400, 80  # elements of a small problem for special values, and problems to choose from
LARGE = 8  # a problem is large that has this part of `--elements`
REALS = "reals"  # what inputs are where they are no whole numbers, though the spec's are
SHARE, REAL = 0.65, 0.8  # of a kernel's seconds, when random problems and those of `reals` end


@dataclass
class Case:
    """What became of one call: its error in units of the tolerance, and where; infinite where it failed."""

    kernel: str
    special: str  # the value that is planted; of random ones "empty" or "one element" where that is what arrays are
    specialisation: str
    problem: str
    share: float
    where: str = ""


@dataclass
class Accuracy:
    """All that was measured of the kernels."""

    head: dict[str, str]
    cases: list[Case] = field(default_factory=list)


def judged(package, spec, problem, stored, wanted, shifts, slack=0.0):
    """Return the error of a call, and where it is."""
    try:
        if isinstance(package, Exception):
            raise package  # noqa: TRY301 - as an error of the call
        return worst_share(spec, problem, stored, results(package, spec, problem, stored, shifts), wanted, slack)
    except Exception as error:  # noqa: BLE001 - a finding of this kernel; the others go on
        return math.inf, f"{type(error).__name__}: {error}"


def overflows(spec, problem, wanted):
    """Return whether some result is beyond the largest number of its type, and finite in float64."""
    types = {one.name: DTYPES[dtype_of(spec, one.dtype, problem.specialisation)] for one in spec.outputs}
    return any(
        types[name].floating and bool((np.isfinite(ref) & (np.abs(ref) > types[name].largest)).any())
        for name, ref in wanted.items()
    )


def underflow(spec, problem):
    """Return what results may be off by where they, or what they are made of, are too small for their type."""
    outputs = [DTYPES[dtype_of(spec, one.dtype, problem.specialisation)] for one in spec.outputs]
    return 2 * max([NORMAL, *(least(one) for one in outputs if one.kind == "float")])


def random_cases(package, spec, options, until):
    """Yield a case for each of so many random problems, as long as there is time."""
    for place, problem in enumerate(drawn(spec, options.problems, options.seed, options.elements)):
        if time.perf_counter() > until:
            break
        rng = random.Random(f"{options.seed}:{spec.name}:{place}:values")
        try:
            stored = scaled(spec, problem, options.seed, rng)
            wanted = data.reference(spec, problem, stored)
            if overflows(spec, problem, wanted):  # as of inputs that belong together
                stored = data.inputs(spec, problem, options.seed)
                wanted = data.reference(spec, problem, stored)
        except data.FunctionError as error:
            share, where = math.inf, str(error)
        else:
            views = random_views(spec, problem, rng)
            slack = terms(spec, problem, stored, wanted) or underflow(spec, problem)
            share, where = judged(package, spec, problem, stored, wanted, views, slack)
        yield Case(spec.name, extent(spec, problem), describe(problem.specialisation), str(problem), share, where)


def real_cases(package, spec, options, until):
    """Yield a case for each of some random problems with inputs that are no whole numbers, where the spec's are."""
    if all(one.fill != "integers" for one in spec.inputs):
        return
    for problem in drawn(spec, options.problems // 4, options.seed + 2, options.elements):
        both = reals(spec, problem, options.seed)
        if time.perf_counter() > until:
            break
        if both is None:
            continue
        stored, magnitudes = both
        wanted, slack = (data.reference(spec, problem, one) for one in (stored, magnitudes))
        share, where = judged(package, spec, problem, stored, wanted, {}, slack)
        yield Case(spec.name, REALS, describe(problem.specialisation), str(problem), share, where)


def extent(spec, problem):
    """Return in words that a call's arrays are as small as they can be, or nothing."""
    sizes = [buffer.size for buffer in arrays(spec, problem)]
    return "empty" if min(sizes) == 0 else "one element" if max(sizes) == 1 else ""


def special_problems(spec, options):
    """Return the first small problems of the spec, and then large ones: in turn for its specialisations."""
    small = [one for one in drawn(spec, DRAWN, options.seed + 1, FEW) if extent(spec, one) != "empty"]
    sizes = {
        one: sum(buffer.size for buffer in arrays(spec, one))
        for one in drawn(spec, DRAWN, options.seed + 3, options.elements)
    }
    large = [one for one, size in sizes.items() if LARGE * size >= options.elements]
    found = []
    for problems in (small, large):
        of = {}
        for problem in problems:
            of.setdefault(problem.specialisation, []).append(problem)
        found += [one for turn in zip(*(several[:4] for several in of.values()), strict=False) for one in turn]
    return found


def special_cases(package, spec, options, until):
    """Yield a case for each place where a special value is planted, at small problems and at large ones."""
    rng = random.Random(f"{options.seed}:{spec.name}:special")
    for chosen in special_problems(spec, options):
        for special in SPECIALS:
            if time.perf_counter() > until:
                return
            slack = underflow(spec, chosen)
            for stored in planted(spec, chosen, options.seed, special, rng):
                wanted = data.reference(spec, chosen, stored)
                share, where = judged(package, spec, chosen, stored, wanted, {}, slack)
                yield Case(spec.name, special, describe(chosen.specialisation), str(chosen), share, where)


def random_table(cases):
    """Return a line for each kernel and specialisation."""
    groups = {}
    for case in cases:
        if case.special not in SPECIALS:
            of = f"{case.specialisation}; no whole numbers" if case.special == REALS else case.specialisation
            groups.setdefault((case.kernel, of), []).append(case)
    rows = [("kernel", "specialisation", "problems", "median", "p99", "worst", "worst at")]
    for (kernel, specialisation), group in sorted(groups.items()):
        shares = sorted(case.share for case in group)
        worst = max(group, key=lambda case: case.share)
        high = shares[min(len(shares) - 1, math.ceil(0.99 * len(shares)) - 1)]
        figures = [f"{one:.3f}" for one in (statistics.median(shares), high, worst.share)]
        rows.append((kernel, specialisation, str(len(group)), *figures, worst.problem if worst.share else "-"))
    return rows


def special_table(cases):
    """Return a line for each kernel: how many calls with each special value are right, and of how many."""
    names = [*SPECIALS, "empty", "one element"]
    rows = [("kernel", *names)]
    for kernel in sorted({case.kernel for case in cases}):
        groups = [[case for case in cases if (case.kernel, case.special) == (kernel, name)] for name in names]
        told = (f"{sum(case.share <= 1 for case in group)} of {len(group)}" if group else "-" for group in groups)
        rows.append((kernel, *told))
    return rows


def wrong(cases):
    """Return what is wrong, a line for the first of each kernel and kind."""
    firsts = {}
    for case in cases:
        if case.share > 1:
            firsts.setdefault((case.kernel, case.special), case)
    return [
        f"{case.kernel} at {case.problem}, {case.special or 'random values'}: {case.share:.3g}, {case.where}"
        for case in firsts.values()
    ]


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kernels", nargs="+", metavar="NAME", help="without it all that have a spec")
    parser.add_argument("--problems", type=int, default=1000, help="of each kernel")
    parser.add_argument("--elements", type=int, default=50_000, help="of all arrays of a call together, at most")
    parser.add_argument("--seconds", type=float, default=100.0, help="for the calls, shared by the kernels")
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--lock", type=Path, help="bake from this lock instead of what is installed")
    parser.add_argument("--templates", type=Path, default=ROOT / "templates")
    return parser.parse_args()


def main():
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    device = find_device(GPU, {})
    specs = load_folder(options.templates, set(options.kernels) if options.kernels else None)
    packages = packages_of(specs, options, device)
    found = Accuracy(head=provenance(device) | {"seed": str(options.seed)})
    ends = time.perf_counter() + options.seconds
    for place, (name, spec) in enumerate(specs.items()):
        began = time.perf_counter()
        share = (ends - began) / (len(specs) - place)
        found.cases += random_cases(packages[name], spec, options, began + SHARE * share)
        found.cases += real_cases(packages[name], spec, options, began + REAL * share)
        found.cases += special_cases(packages[name], spec, options, began + share)
        print(f"{name}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    text = "\n".join(
        [
            *(f"{key}: {value}" for key, value in found.head.items()),
            "\nlargest error of a call, in units of the tolerance",
            *columns(random_table(found.cases)),
            "\ncalls with special values that are right",
            *columns(special_table(found.cases)),
            "",
            *(wrong(found.cases) or ["nothing is wrong"]),
        ]
    )
    print(text)
    (options.out / "accuracy.txt").write_text(text + "\n")
    cases = [{name: getattr(case, name) for name in Case.__dataclass_fields__} for case in found.cases]
    (options.out / "accuracy.json").write_text(json.dumps({"head": found.head, "cases": cases}, indent=0))


if __name__ == "__main__":
    main()
