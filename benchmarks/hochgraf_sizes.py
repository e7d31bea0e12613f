"""Hochgraf's GEMM at sizes that were not tuned, by every rule: `python benchmarks/hochgraf_sizes.py --out FOLDER`.

The spec in `hochgraf/` is tuned from nothing with the 27 inputs of {256, 1024, 4096}^3. Then the other 37 inputs of the
study and `--ragged` problems between the sizes are judged. In both, k is a multiple of 8, as rows of 16 bytes need: the
spec that is tuned says so too (`requires = ["k % 8 == 0"]` beside its own), so that what ships is chosen for problems
of the kind that is judged. Compared are what a real call of the generated package runs, and what other rules pick that
are made from the same 27 inputs, or also from `--drawn` further problems, at each of which they know every candidate's
time. All candidates are screened at each problem; picks, the best, and the default are raced.

`--on host --spec SPEC --sizes 16,64` tries the script out with a spec that the host device runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from pretuned.config import Place
from pretuned.record import lock as lockfile
from pretuned.report.effort import stages
from pretuned.report.text import columns
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import Problem
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune
from record_sizes import MULTIPLES, record
from sizes import drawing, matrix, packages, rules
from sizes.judging import HEAD, figures, judge, percent, row, worst
from sizes.measuring import Bench, compile_spaces, provenance

HERE = Path(__file__).parent
OURS = "selection (ours)"
TARGETS = (0.005, 0.02, 0.05)  # mean, 95th percentile, worst
SEED = 37


def requirements(spec):
    """The conditions of what is judged, of a spec that the problems of this benchmark are drawn for."""
    return [f"{dim} % {factor} == 0" for dim, factor in MULTIPLES.get(spec.name, {}).items()]


def others_of(spec, thinned, specialisation):
    """The inputs of the spec that are not among the thinned one's."""
    known = set(space.problems(thinned, specialisation))
    return [("unseen", problem) for problem in space.problems(spec, specialisation) if problem not in known]


def ragged(spec, specialisation, count, seed):
    strata = drawing.shares(count, {name: share for name, share in drawing.INSIDE.items() if name != "tuned"})
    return drawing.draw(spec, specialisation, strata, seed, multiples=MULTIPLES.get(spec.name))


def peers_of(known, whole):
    """The rules that know the tuned inputs alone, and those that also know the drawn problems."""
    made = {name: rule(known) for name, rule in rules.RULES.items() if name not in rules.OF_OURS}
    count = len(whole.drawn)
    return made | {f"{name}, {count} more known": rules.RULES[name](whole) for name in ("nearest", "Helion's tree")}


def tuned_package(spec, device, folder, out):
    """Tune from nothing, say what it took, and bake what was found."""
    started = time.perf_counter()
    request = TuningRequest(spec=spec, problems=tuple(space.all_problems(spec)))
    tuned = tune([request], device, cache_folder=folder / "cache")
    lines = [f"tuned in {time.perf_counter() - started:.1f} s: {len(request.problems)} inputs", *stages(tuned.spending)]
    lock = packages.lock_of(tuned)
    lockfile.write(out / "hochgraf.lock.json", lock)
    return packages.baked({spec.name: spec}, lock, folder / "baked", cubins=device.backend.ships), lines


def our_picks(package, spec, problems, device):
    """What real calls run, and what ships and could run; where there is no GPU, what `explain` says of both."""
    named = None if device.backend.ships else device.name
    said = {problem: packages.explained(package, spec.name, problem, named) for problem in problems}
    shipped = {problem: (one.pick, *one.others) for problem, one in said.items()}
    if named is not None:
        return {problem: one.pick for problem, one in said.items()}, shipped
    with packages.calls(package) as call:
        return {problem: call(spec, problem) for problem in dict.fromkeys(problems)}, shipped  # one is decided once


def peers_picks(made, recorded, problem):
    """The configuration that each of the peers' rules picks at a problem."""
    legal = np.array([space.legal(recorded.spec, problem, c, recorded.facts) for c in recorded.configurations])
    return {name: recorded.configurations[pick(problem, legal)] for name, pick in made.items()}


def table(judged, groups):
    """Yield a line for each group of problems and rule."""
    lines = [("problems at", "rule", *HEAD)]
    for (title, strata), name in itertools.product(groups.items(), judged[0].picks):
        if found := [one for one in judged if one.stratum in strata]:
            lines.append((title, name, *row(found, name)))
    yield from columns(lines, frozenset(range(2, len(HEAD) + 2)))


def met(judged):
    """One line: what ours loses over all problems, against the targets, and whether any result was wrong."""
    got = figures([one.loss(OURS) for one in judged])
    wrong = sum(one.picks[OURS] in one.wrong for one in judged)
    reached = all(a <= b for a, b in zip(got, TARGETS, strict=True)) and not wrong
    return (
        f"ours at {len(judged)} problems: mean, p95, worst {', '.join(map(percent, got))}; targets "
        f"{', '.join(map(percent, TARGETS))}; wrong results {wrong}: {'met' if reached else 'NOT met'}"
    )


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--spec", type=Path, default=HERE / "hochgraf" / "hgemm.toml")
    parser.add_argument("--sizes", default="256,1024,4096")
    parser.add_argument("--ragged", type=int, default=300)
    parser.add_argument("--drawn", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=400.0, help="after the tuning")
    parser.add_argument("--on", default="cuda")
    return parser.parse_args()


def main():
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    device, spec = find_device(Place.parse(options.on), {}), load(options.spec)
    sizes = [int(size) for size in options.sizes.split(",")]
    text, requires = options.spec.read_text(encoding="utf-8"), requirements(spec)
    thinned = matrix.spec_of(spec.name, text, sizes, options.spec.parent, requires=requires)
    specialisation = next(iter(space.specialisations(spec)))
    tuned = [("tuned", problem) for problem in space.problems(thinned, specialisation)]
    drawn = [("inside", problem) for _, problem in ragged(thinned, specialisation, options.drawn, SEED)]
    fresh = others_of(spec, thinned, specialisation) + ragged(thinned, specialisation, options.ragged, SEED + 1)
    problems: list[Problem] = [problem for _, problem in tuned + drawn + fresh]
    made = provenance(device)
    with tempfile.TemporaryDirectory() as name:
        package, lines = tuned_package(thinned, device, Path(name), options.out)
        lines.insert(0, f"tuned and judged where {' and '.join(requires) or 'the spec admits a call'}")
        print(*lines, sep="\n", flush=True)
        end = time.perf_counter() + options.seconds
        ours, shipped = our_picks(package, spec, [problem for _, problem in fresh], device)
    (compiled,) = compile_spaces([(thinned, specialisation, problems)], device)
    path = options.out / "hochgraf_sizes.json.gz"
    judged = []
    with device.backend.runner(device.place.index) as runner, (options.out / "hochgraf_sizes.jsonl").open("w") as log:
        bench = Bench(runner=runner, device=device, compiled=compiled)
        print(f"{record(bench, tuned + drawn, made, path, end)} problems measured for the other rules", flush=True)
        recorded = matrix.read(path, thinned)
        known = rules.Known(matrix=recorded, tuned=recorded.places("tuned"))
        others = peers_of(known, rules.Known(matrix=recorded, tuned=known.tuned, drawn=recorded.places("inside")))
        for at, (stratum, problem) in enumerate(fresh):
            if time.perf_counter() > end:
                break
            picks = {OURS: ours[problem], **peers_picks(others, recorded, problem)}
            if (found := judge(bench, stratum, problem, picks, shipped[problem])) is not None:
                judged.append(found)
                log.write(json.dumps(found.as_json()) + "\n")
                log.flush()
            if at % 50 == 49:
                print(f"{at + 1} of {len(fresh)} problems judged", flush=True)
    groups = {"unseen inputs": {"unseen"}, "ragged": set(drawing.INSIDE), "all": {"unseen", *drawing.INSIDE}}
    lines = [json.dumps(made), *lines, "", *table(judged, groups), "", "the worst of ours", *worst(judged, OURS)]
    lines += ["", met(judged)]
    print(*lines[-40:], sep="\n")
    (options.out / "hochgraf_sizes.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
