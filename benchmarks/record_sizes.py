"""Records what every configuration takes at many sizes: `python benchmarks/record_sizes.py --out FOLDER`.

Of each bundled kernel and specialisation, and of `hochgraf/hgemm.toml`, at its tuned sizes, at `--inside` problems
between them and `--outside` ones up to twice beyond, drawn by `--seed`. All configurations are screened, and the best
and the default raced. One file a specialisation, which `sizes/matrix.py` reads and `replay_sizes.py` replays rules
over; tests/data/sizes holds a recording. Where `--seconds` do not suffice, every kernel gets fewer problems.

`--on host` tries the script out on the host device, whose times mean nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from pathlib import Path

from pretuned.config import Place
from pretuned.spec import space
from pretuned.spec.loader import load, load_folder
from pretuned.tune.request import find_device
from sizes import drawing, matrix
from sizes.measuring import Bench, compile_spaces, measure, provenance

HERE = Path(__file__).parent
WITHIN = {"2% beyond": 1, "far beyond": 4}
AGAIN = 2.5
MULTIPLES = {"hgemm": {"k": 8}}


def drawn(spec, specialisation, options):
    """The problems in the order of measuring, in which any first part of them is a fair sample: (group, problem)."""
    rest = {"multiples": MULTIPLES.get(spec.name)}
    strata = drawing.shares(options.inside, {k: v for k, v in drawing.INSIDE.items() if k != "tuned"})
    inside = drawing.draw(spec, specialisation, strata, options.seed, **rest)
    outside = drawing.draw(spec, specialisation, drawing.shares(options.outside, WITHIN), options.seed + 1, **rest)
    groups = [("inside", problem) for _, problem in inside] + [("outside", problem) for _, problem in outside]
    random.Random(options.seed).shuffle(groups)
    tuned = [("tuned", problem) for problem in space.problems(spec, specialisation)]
    known = {problem for _, problem in tuned}
    return tuned[: options.tuned] + [(group, problem) for group, problem in groups if problem not in known]


def stem(spec, specialisation):
    """Return the name of the file for a specialisation, without its suffix."""
    return "_".join([spec.name, *(str(value) for _, value in specialisation)])


def record(bench, problems, made, path, end):
    """Measure until `end` and write what was measured; returns how many problems that were."""
    compiled, facts = bench.compiled, bench.device.facts
    configurations = list(compiled.entries)
    resources = [dict(compiled.binaries[c].resources) if c in compiled.binaries else {} for c in configurations]
    head = matrix.head_of(compiled.spec, compiled.specialisation, configurations, resources, facts, made)
    lines = [head]
    for group, problem in problems:
        if time.perf_counter() > end:
            break
        found = measure(bench, problem, again=AGAIN)
        if found is None:
            print(f"  {problem} was not measured", flush=True)
            continue
        screened = [found.screened.get(c) for c in configurations]
        lines.append(
            {
                "group": group,
                "dims": [size for _, size in sorted(problem.dims)],
                "screened": [None if time_us is None else matrix.rounded(time_us) for time_us in screened],
                "raced": {configurations.index(c): matrix.rounded(time_us) for c, time_us in found.raced.items()},
            }
        )
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return len(lines) - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--on", default="cuda")
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--inside", type=int, default=300)
    parser.add_argument("--outside", type=int, default=60)
    parser.add_argument("--tuned", type=int, default=1000, help="at most so many of the tuned sizes")
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--only", default="", help="kernels, or files to write without `.json.gz`, with commas between")
    parser.add_argument("--folder", type=Path, help="of other specs, in place of the bundled ones and of hgemm")
    options = parser.parse_args()
    end = time.perf_counter() + options.seconds
    options.out.mkdir(parents=True, exist_ok=True)
    device = find_device(Place.parse(options.on), {})
    specs = load_folder(options.folder or HERE.parent / "templates")
    if options.folder is None:
        specs |= {"hgemm": load(HERE / "hochgraf" / "hgemm.toml")}
    only = options.only.split(",") if options.only else specs
    wanted = [
        (spec, specialisation, drawn(spec, specialisation, options))
        for name, spec in specs.items()
        for specialisation in space.specialisations(spec)
        if name in only or stem(spec, specialisation) in only
    ]
    started = time.perf_counter()
    compiled = list(compile_spaces([(*which, [p for _, p in problems]) for *which, problems in wanted], device))
    print(f"compiled in {time.perf_counter() - started:.0f} s", flush=True)
    made = provenance(device)
    with device.backend.runner(device.place.index) as runner:
        work = [len(problems) * len(one.entries) for one, (*_, problems) in zip(compiled, wanted, strict=True)]
        for at, (one, (spec, specialisation, problems)) in enumerate(zip(compiled, wanted, strict=True)):
            started = time.perf_counter()
            share = (end - started) * work[at] / sum(work[at:])
            name = stem(spec, specialisation)
            path = options.out / f"{name}.json.gz"
            count = record(Bench(runner=runner, device=device, compiled=one), problems, made, path, started + share)
            print(
                f"{name}: {len(one.entries)} configurations at {count} of {len(problems)} problems in "
                f"{time.perf_counter() - started:.1f} s, {path.stat().st_size:,} bytes",
                flush=True,
            )


if __name__ == "__main__":
    main()
