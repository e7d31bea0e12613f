"""Replays rules over recorded sizes, without a GPU: `python benchmarks/replay_sizes.py [--out FOLDER] [KERNEL...]`.

Every rule is made from the tuned sizes and `--drawn` further problems, and judged at all other recorded ones, for
several seeds: mean, 95th percentile and worst of what its picks lose against the best of all candidates, and at how
many problems they are slower than the default by over 2%. hgemm is also tuned with 256, 1024 and 4096 alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
import time
from pathlib import Path

import numpy as np

from pretuned.report.text import columns
from sizes import matrix, rules
from sizes.judging import figures, percent

SLOWER = 1.02
GIVEN_UP = 4096  # what stands for the loss of a pick that has no time, in percent


def replayed(recorded, rule, tuned, drawn, tested):
    """Return (loss, default's loss) at each place of `tested` of a rule that is made from `tuned` and `drawn`."""
    pick = rule(rules.Known(matrix=recorded, tuned=tuned, drawn=drawn))
    found = []
    for at in tested:
        times = recorded.times[at]
        legal, best = ~np.isnan(times), np.nanmin(times)
        found.append((times[pick(recorded.problems[at], legal)] / best - 1, times[0] / best - 1))
    return found


def splits(recorded, drawn, seeds):
    """Yield (places that rules may know besides the tuned sizes, places inside to judge at) for each seed."""
    inside = recorded.places("inside")
    for seed in seeds:
        order = random.Random(seed).sample(inside, len(inside))
        yield order[:drawn], order[drawn:]


def thinned(recorded):
    """hgemm as if 512 were not among its sizes: the 27 problems without it are tuned, the other 37 are judged at."""
    spec = matrix.spec_of(recorded.kernel, recorded.text, (256, 1024, 4096))
    groups = tuple(
        "unseen" if group == "tuned" and 512 in dict(problem.dims).values() else group
        for group, problem in zip(recorded.groups, recorded.problems, strict=True)
    )
    return dataclasses.replace(recorded, kernel=f"{recorded.kernel} {{256, 1024, 4096}}^3", spec=spec, groups=groups)


def lines(recorded, options):
    """Yield a line for each rule and part of a recording."""
    for name, rule in rules.RULES.items():
        if options.rule and not any(one in name for one in options.rule):
            continue
        parts, started = {"inside": [], "unseen": [], "outside": []}, time.perf_counter()
        for drawn, tested in splits(recorded, options.drawn, range(options.seeds)):
            places = {"inside": tested, "unseen": recorded.places("unseen"), "outside": recorded.places("outside")}
            order = [at for of in places.values() for at in of]
            found = dict(zip(order, replayed(recorded, rule, recorded.places("tuned"), drawn, order), strict=True))
            for part, of in places.items():
                parts[part] += [found[at] for at in of]
        for part, found in parts.items():
            if found:
                losses = [loss for loss, _ in found]
                slower = sum((1 + loss) > SLOWER * (1 + default) for loss, default in found) / len(found)
                took = f"{(time.perf_counter() - started) / options.seeds:.2f}"
                yield (
                    str(recorded),
                    part,
                    name,
                    str(len(found)),
                    *map(percent, figures(losses)),
                    percent(slower),
                    took,
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", nargs="*")
    parser.add_argument("--data", type=Path, default=matrix.RECORDED)
    parser.add_argument("--drawn", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rule", action="append", help="only rules with this in their name")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    head = ("kernel", "part", "rule", "problems", "mean", "p95", "worst", "slower than the default by >2%", "s")
    table = [head]
    for recorded in matrix.recorded(options.data):
        if options.kernel and recorded.kernel not in options.kernel:
            continue
        for one in [recorded, *([thinned(recorded)] if recorded.kernel == "hgemm" else [])]:
            fresh = list(lines(one, options))
            table += fresh
            print(*columns([head, *fresh], frozenset(range(3, 9))), "", sep="\n", flush=True)
    if options.out:
        made = [
            " ".join(["python", *sys.argv]).replace(str(options.out), "FOLDER"),
            f"{options.drawn} drawn problems besides the tuned ones, {options.seeds} seeds",
        ]
        text = "\n".join([*made, *columns(table, frozenset(range(3, 9)))]) + "\n"
        (options.out / "replay_sizes.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
