"""What the table's pick loses at sizes that nobody tuned: `python benchmarks/between_sizes.py --out FOLDER`.

The bundled kernels are baked from `--lock`, or tuned first with `--tune`. Then problems are drawn by `--seed`, in the
strata of `sizes/drawing.py`: 24 inside the tuned sizes and 6 beyond, of each specialisation. A real call is made at
each, and what it ran is the pick. All candidates are screened at that problem; the best of them, the pick, whose result
is verified, and the default are raced. `--seeds 5` does it for five seeds, then reports on all of them together, and
prints the lock's certificates beside theirs.

`--on host --rows-of DEVICE` tries the script out where there is no GPU: times mean nothing, and `explain` gives picks.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections import Counter
from pathlib import Path

from pretuned.config import Place
from pretuned.record import lock as lockfile
from pretuned.report.effort import stages
from pretuned.report.text import columns
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune
from sizes import drawing, packages
from sizes.judging import SHIPPED, figures, grouped, judge_all, percent, row, worst
from sizes.measuring import compile_spaces, provenance

ROOT = Path(__file__).parents[1]
OURS = "pick"
TWICE = ("2% beyond", "far beyond")
TARGETS = {"inside": (0.01, 0.04, 0.12), "up to twice outside": (0.02, math.inf, 0.15)}  # mean, p95, worst


def lock_for(options, specs, device, folder):
    """The lock to judge: a file's, or what tuning finds from nothing, which is kept beside the report."""
    if not options.tune:
        return lockfile.read(options.lock)
    started = time.perf_counter()
    requests = [TuningRequest(spec=spec, problems=tuple(space.all_problems(spec))) for spec in specs.values()]
    tuned = tune(requests, device, cache_folder=folder / "cache")
    print(f"tuned in {time.perf_counter() - started:.1f} s", *stages(tuned.spending), sep="\n  ", flush=True)
    lock = packages.lock_of(tuned)
    lockfile.write(options.out / "pretuned.lock.json", lock)
    return lock


def picked(package, wanted, rows_of):
    """The pick at each problem, what ships and could run there, and how many real calls ran what `explain` says."""
    problems = [(spec, problem) for spec, _, drawn in wanted for _, problem in drawn]
    said = {(s.name, problem): packages.explained(package, s.name, problem, rows_of) for s, problem in problems}
    picks, shipped = (
        {key: one.pick for key, one in said.items()},
        {key: (one.pick, *one.others) for key, one in said.items()},
    )
    if rows_of:
        return picks, shipped, "no real calls: picks by explain"
    with packages.calls(package) as call:
        ran = {(spec.name, problem): call(spec, problem) for spec, problem in problems}
    agreed = Counter("as explain said" if ran[key] == picks[key] else "otherwise" for key in ran)
    return ran, shipped, "real calls: " + ", ".join(f"{count} {how}" for how, count in agreed.most_common())


def in_each(judged):
    """The judged problems by what the targets are about."""
    return {
        "inside": [one for one in judged if one.stratum not in drawing.OUTSIDE],
        "up to twice outside": [one for one in judged if one.stratum in TWICE],
        "further outside": [one for one in judged if one.stratum == "far outside"],
    }


def report(judged):
    """Yield the tables, and whether targets are met."""
    parts = in_each(judged)
    for part, found in parts.items():
        if not found:
            continue
        yield from ("", f"{part}: what the pick loses against the best of all candidates at that problem")
        yield from grouped(found, OURS, "kernel", lambda one: one.kernel, whole=True)
        yield from ("", *grouped(found, SHIPPED, SHIPPED, lambda one: one.kernel, whole=True))
        yield from ("", *grouped(found, OURS, "stratum", lambda one: one.stratum))
        name = lambda one: f"{one.kernel} {space.describe(one.problem.specialisation)}"  # noqa: E731 - used once
        yield from ("", *grouped(found, OURS, "specialisation", name), "", *worst(found, OURS))
    yield ""
    for part, (mean, p95, most) in TARGETS.items():
        if not (found := parts[part]):
            continue
        got = figures([one.loss(OURS) for one in found])
        slower, surely = sum(one.slower(OURS) for one in found), sum(one.surely_slower(OURS) for one in found)
        met = all(a <= b for a, b in zip(got, (mean, p95, most), strict=True)) and not slower
        wanted = ", ".join(percent(one) for one in (mean, p95, most) if one < math.inf)
        yield (
            f"{part}: mean, p95, worst {', '.join(map(percent, got))}; targets {wanted}; slower than the default by "
            f"over 2% at {slower} of {len(found)}, surely {surely}: {'met' if met else 'NOT met'}"
        )
    if wrong := [one for one in judged if one.picks[OURS] in one.wrong]:
        yield f"WRONG RESULTS at {len(wrong)}: {wrong[0].problem}: {wrong[0].wrong[wrong[0].picks[OURS]]}"


def certificates(lock, device, judged):
    """Yield each selection's certificate, with a line below for each seed's fresh problems."""
    head = ("specialisation", "", "problems", "mean", "p95", "worst", "slower by >2%")
    lines = []
    for selection in lock.selections:
        if selection.device != device or selection.certificate is None:
            continue
        for part, losses in (
            ("inside", selection.certificate.inside),
            ("up to twice outside", selection.certificate.outside),
        ):
            if losses is None:
                continue
            figure = map(percent, (losses.mean, losses.p95, losses.worst, losses.slower))
            name = f"{selection.kernel} {space.describe(selection.specialisation)}"
            lines.append((name, f"{part}: certificate", str(losses.problems), *figure))
            for seed, found in judged.items():
                of = [
                    one
                    for one in in_each(found)[part]
                    if (one.kernel, one.problem.specialisation) == (selection.kernel, selection.specialisation)
                ]
                if of:
                    cells = row(of, OURS)
                    share = percent(sum(one.slower(OURS) for one in of) / len(of))
                    lines.append(("", f"{part}: seed {seed}", cells[0], *cells[1:4], share))
    if lines:
        yield from ("", "the lock's certificates, and fresh problems")
        yield from columns([head, *lines], frozenset({2, 3, 4, 5, 6}))


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lock", type=Path, default=ROOT / "pretuned.lock.json")
    parser.add_argument("--templates", type=Path, default=ROOT / "templates")
    parser.add_argument("--tune", action="store_true", help="tune from nothing, in place of a lock")
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--seeds", type=int, default=1, help="so many, from --seed on")
    parser.add_argument("--per", type=int, default=24, help="problems inside, of each specialisation; a quarter beyond")
    parser.add_argument("--seconds", type=float, default=110.0, help="a seed's, besides tuning and compiling")
    parser.add_argument("--only", default="", help="kernels, with commas between them")
    parser.add_argument("--on", default="cuda")
    parser.add_argument("--rows-of", help="ask explain for this device, in place of real calls")
    return parser.parse_args()


def drawn_by(specs, seed, per):
    """Return (spec, specialisation, problems with their strata) of every specialisation."""
    strata = drawing.shares(per) | drawing.shares(max(3, per // 4), drawing.OUTSIDE)
    return [
        (spec, specialisation, drawing.draw(spec, specialisation, strata, seed))
        for spec in specs.values()
        for specialisation in space.specialisations(spec)
    ]


def main():
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    device = find_device(Place.parse(options.on), {})
    every = load_folder(options.templates)
    specs = {name: spec for name, spec in every.items() if not options.only or name in options.only.split(",")}
    seeds = range(options.seed, options.seed + options.seeds)
    drawn = {seed: drawn_by(specs, seed, options.per) for seed in seeds}
    wanted = [
        (spec, specialisation, [problem for seed in seeds for _, problem in drawn[seed][at][2]])
        for at, (spec, specialisation, _) in enumerate(drawn[options.seed])
    ]
    head = provenance(device)
    judged, texts, path = {}, [json.dumps(head)], options.out / "between_sizes.txt"
    with tempfile.TemporaryDirectory() as name, path.with_suffix(".jsonl").open("w", encoding="utf-8") as log:
        lock = lock_for(options, specs, device, Path(name))
        package = packages.baked(specs, lock, Path(name) / "baked", cubins=not options.rows_of)
        compiled = list(compile_spaces(wanted, device))
        print("baked and compiled", flush=True)
        for seed in seeds:
            picks, shipped, how = picked(package, drawn[seed], options.rows_of)
            log.write(json.dumps({**head, "seed": seed}) + "\n")
            end = time.perf_counter() + options.seconds
            judged[seed] = judge_all(drawn[seed], compiled, {OURS: picks}, device, log, end=end, shipped=shipped)
            lines = [f"seed {seed}; {how}", *report(judged[seed]), ""]
            print(*lines, sep="\n", flush=True)
            texts += lines
            path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    if len(seeds) > 1:
        lines = [f"{len(seeds)} seeds together", *report([one for found in judged.values() for one in found]), ""]
        print(*lines, sep="\n")
        texts += lines
    lines = list(certificates(lock, options.rows_of or device.name, judged))
    print(*lines, sep="\n")
    path.write_text("\n".join([*texts, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
