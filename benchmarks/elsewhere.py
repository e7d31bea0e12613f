"""What a table costs on a GPU that it was not tuned on: `python benchmarks/elsewhere.py --out FOLDER`.

Run on a GPU that the lock knows, beside another. The bundled kernels are baked twice: with all of the lock, and without
what was measured on this GPU, so that a call goes the way of an unknown GPU. Real calls say what either runs, at tuned
sizes and at problems between and beyond them that `--seed` draws. Both picks, whose results are verified, race the best
of all candidates at that problem, and the default.

`--on host --rows-of DEVICE` tries the script out where there is no GPU: times mean nothing, and `explain` gives picks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

from pretuned.config import Place
from pretuned.record import lock as lockfile
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.tune.request import find_device
from sizes import drawing, packages
from sizes.judging import grouped, judge_all, percent, worst
from sizes.measuring import compile_spaces, provenance

ROOT = Path(__file__).parents[1]
OWN, ELSEWHERE = "own", "elsewhere"
OUTSIDE = {"2% beyond": 1, "far beyond": 2}


def drawn_of(specs, options):
    """Return (spec, specialisation, problems with their strata) of every specialisation, tuned sizes among them."""
    strata = drawing.shares(options.per) | {"tuned": options.tuned} | drawing.shares(max(3, options.per // 4), OUTSIDE)
    return [
        (spec, specialisation, drawing.draw(spec, specialisation, strata, options.seed))
        for spec in specs.values()
        for specialisation in space.specialisations(spec)
    ]


def picked(package, drawn, named):
    """The pick at each problem, by real calls unless a device is `named`, and why, in the words of `explain`."""
    picks, why = {}, Counter()
    problems = [(spec, problem) for spec, _, of in drawn for _, problem in of]
    for spec, problem in problems:
        said = packages.explained(package, spec.name, problem, named)
        picks[spec.name, problem] = said.pick
        why[said.why[0]] += 1
    if named is None:
        with packages.calls(package) as call:
            picks = {(spec.name, problem): call(spec, problem) for spec, problem in problems}
    return picks, [f"{count} of {len(problems)} problems: {reason}" for reason, count in why.most_common()]


def report(judged):
    """Yield the tables of both picks, and how far one lies behind the other."""
    parts = {
        "tuned sizes": [one for one in judged if one.stratum == "tuned"],
        "between the sizes": [one for one in judged if one.stratum not in {"tuned", *OUTSIDE}],
        "up to twice outside": [one for one in judged if one.stratum in OUTSIDE],
    }
    for title, found in parts.items():
        for pick in (OWN, ELSEWHERE) if found else ():
            yield f"\n{title}: {pick}"
            yield from grouped(found, pick, "kernel", lambda one: one.kernel, whole=True)
    over = [one.us(one.picks[ELSEWHERE]) / one.us(one.picks[OWN]) - 1 for one in judged]
    yield ""
    yield (
        f"elsewhere's time over that of this GPU's own: mean {percent(sum(over) / len(over))}, worst "
        f"{percent(max(over))}; over 5% at {sum(one > 0.05 for one in over)} of {len(over)} problems"
    )
    yield from ("", "the worst of elsewhere", *worst(judged, ELSEWHERE))


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lock", type=Path, default=ROOT / "pretuned.lock.json")
    parser.add_argument("--templates", type=Path, default=ROOT / "templates")
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--per", type=int, default=12, help="problems between the sizes, of each specialisation")
    parser.add_argument("--tuned", type=int, default=4, help="of the tuned sizes")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--on", default="cuda")
    parser.add_argument("--rows-of", help="ask explain as for this device, in place of real calls")
    return parser.parse_args()


def main():
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    device, specs = find_device(Place.parse(options.on), {}), load_folder(options.templates)
    here, lock, drawn = options.rows_of or device.name, lockfile.read(options.lock), drawn_of(specs, options)
    others = packages.without(lock, here)
    lines = [json.dumps(provenance(device)), f"rows and selections of {', '.join(others.devices)} on {here}"]
    picks = {}
    with tempfile.TemporaryDirectory() as name:
        for pick, of in ((OWN, lock), (ELSEWHERE, others)):
            package = packages.baked(specs, of, Path(name) / pick, cubins=not options.rows_of)
            named = options.rows_of and (here if pick == OWN else next(iter(of.devices)))
            picks[pick], why = picked(package, drawn, named)
            lines += [f"{pick}: {one}" for one in why]
    wanted = [(spec, specialisation, [problem for _, problem in of]) for spec, specialisation, of in drawn]
    compiled = list(compile_spaces(wanted, device))
    end = time.perf_counter() + options.seconds
    with (options.out / "elsewhere.jsonl").open("w", encoding="utf-8") as log:
        judged = judge_all(drawn, compiled, picks, device, log, end=end)
    lines += report(judged)
    print(*lines, sep="\n")
    (options.out / "elsewhere.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
