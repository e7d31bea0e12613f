"""Replays rules over recorded sizes, without a GPU: `python benchmarks/replay_sizes.py [--out FOLDER] [KERNEL...]`.

Every rule is made from the tuned sizes and `--drawn` further problems, and judged at all other recorded ones, for
several seeds: mean, 95th percentile and worst of what its picks lose against the best of all candidates, and at how
many problems they are slower than the default by over 2%. hgemm is also tuned with 256, 1024 and 4096 alone.

`--gains 0.0005,0.002` shows in place of that how many configurations ship, and what our picks lose, where a further one
has to save so much of the mean loss.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
from pathlib import Path

import numpy as np

from pretuned.report.text import columns
from pretuned.tune.selection import portfolio, predicted_us
from sizes import matrix, rules
from sizes.judging import figures, percent

SLOWER = 1.02
JUDGED = ("inside", "outside")


def replayed(known, rule, tested):
    """Return (loss, default's loss) of a rule's picks at each place of `tested`."""
    recorded, pick, found = known.matrix, rule(known), []
    for at in tested:
        times = recorded.times[at]
        legal, best = ~np.isnan(times), np.nanmin(times)
        problem = recorded.problems[at]
        found.append((times[pick(problem, legal)] / best - 1, times[recorded.default_at(problem)] / best - 1))
    return found


def splits(recorded, drawn, seeds):
    """Yield what rules may know, and the places to judge them at by part, for each seed."""
    inside = recorded.places("inside")
    for seed in seeds:
        order = random.Random(seed).sample(inside, len(inside))
        known = rules.Known(matrix=recorded, tuned=recorded.places("tuned"), drawn=order[:drawn])
        yield known, {"inside": order[drawn:], **{part: recorded.places(part) for part in ("unseen", "outside")}}


def thinned(recorded):
    """hgemm as if 512 were not among its sizes: the 27 problems without it are tuned, the other 37 are judged at."""
    spec = matrix.spec_of(recorded.kernel, recorded.text, (256, 1024, 4096))
    groups = tuple(
        "unseen" if group == "tuned" and 512 in dict(problem.dims).values() else group
        for group, problem in zip(recorded.groups, recorded.problems, strict=True)
    )
    return dataclasses.replace(recorded, kernel=f"{recorded.kernel} {{256, 1024, 4096}}^3", spec=spec, groups=groups)


def outcomes(recorded, drawn, seeds, wanted=()):
    """Return (loss, default's loss) at every problem of all seeds, by part and rule; of `wanted`, parts of names."""
    chosen = {name: rule for name, rule in rules.RULES.items() if not wanted or any(one in name for one in wanted)}
    found = {}
    for known, parts in splits(recorded, drawn, seeds):
        for name, rule in chosen.items():
            order = [at for of in parts.values() for at in of]
            judged = dict(zip(order, replayed(known, rule, order), strict=True))
            for part, of in parts.items():
                found.setdefault((part, name), []).extend(judged[at] for at in of)
    return {key: of for key, of in found.items() if of}


def with_gain(recordings, gain, options):
    """Return how many configurations ship where each has to gain so much, and the mean loss by part, as texts.

    The mean is over recordings and seeds, of the mean over problems: no recording counts more for having more problems.
    """
    portfolio.GAIN = gain  # which the predictor reads whenever it chooses
    ships, lost = [], {part: [] for part in ("tuned", *JUDGED)}
    for recorded in recordings:
        for known, parts in splits(recorded, options.drawn, range(options.first, options.first + options.seeds)):
            ships.append(len(known.selection.choices))
            for part, found in lost.items():
                if of := known.tuned if part == "tuned" else parts[part]:
                    found.append(np.mean([loss for loss, _ in replayed(known, rules.ours, of)]))
    return (
        f"{gain:.2%}",
        f"{np.mean(ships):.1f}",
        *(percent(np.mean(found)) if found else "-" for found in lost.values()),
    )


def lines(kernel, found):
    """Yield a line for each part and rule of what was found at `kernel`."""
    for (part, name), of in sorted(found.items(), key=lambda item: item[0][0]):
        slower = sum((1 + loss) > SLOWER * (1 + default) for loss, default in of) / len(of)
        numbers = map(percent, (*figures([loss for loss, _ in of]), slower))
        yield (kernel, part, name, str(len(of)), *numbers)


def worst(recorded, options):
    """Yield where our selection loses most with the first seed: what it picks, the best, and what costs say of both."""
    known, parts = next(splits(recorded, options.drawn, [options.first]))
    costs = {choice.configuration: choice.cost for choice in known.selection.choices}
    pick, found = rules.ours(known), []
    for at in [at for of in parts.values() for at in of]:
        times, problem = recorded.times[at], recorded.problems[at]
        chosen, best = pick(problem, ~np.isnan(times)), int(np.nanargmin(times))
        loss = times[chosen] / times[best] - 1
        cells = [f"{recorded.kernel} {problem}", recorded.groups[at], percent(loss)]
        for one in (chosen, best):
            name = recorded.configurations[one]
            said = f"predicted {predicted_us(costs[name], problem):.2f}" if name in costs else "not shipped"
            cells.append(f"{name}: {times[one]:.2f} us, {said}")
        found.append((loss, cells))
    found.sort(key=lambda entry: -entry[0])
    yield from columns([("problem", "", "loss", "pick", "best"), *(cells for _, cells in found[: options.worst])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", nargs="*")
    parser.add_argument("--data", type=Path, default=matrix.RECORDED)
    parser.add_argument("--drawn", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--gains", type=lambda text: [float(one) for one in text.split(",")])
    parser.add_argument("--rule", action="append", help="only rules with this in their name")
    parser.add_argument("--worst", type=int, default=0, help="print so many of the problems where ours loses most")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    every = matrix.recorded(options.data)
    recordings = [one for one in every if not options.kernel or one.kernel in options.kernel]
    if options.gains:
        rows = [with_gain(recordings, gain, options) for gain in options.gains]
        table = columns([("gain", "configurations", "tuned", *JUDGED), *rows], frozenset(range(5)))
        print(*table, sep="\n")
        write(options, "replay_gains.txt", table)
        return
    head = ("kernel", "part", "rule", "problems", "mean", "p95", "worst", "slower than the default by >2%")
    table, everything = [head], {}
    for recorded in recordings:
        for one in [recorded, *([thinned(recorded)] if recorded.kernel == "hgemm" else [])]:
            seeds = range(options.first, options.first + options.seeds)
            found = outcomes(one, options.drawn, seeds, options.rule or ())
            for key, of in found.items():
                everything.setdefault(key, []).extend(of)
            fresh = list(lines(str(one), found))
            table += fresh
            print(*columns([head, *fresh], frozenset(range(3, 8))), "", sep="\n", flush=True)
            if options.worst:
                print(*worst(one, options), "", sep="\n", flush=True)
    fresh = list(lines("all", everything))
    table += fresh
    print(*columns([head, *fresh], frozenset(range(3, 8))), sep="\n")
    write(options, "replay_sizes.txt", columns(table, frozenset(range(3, 8))))


def write(options, name, table):
    """Keep a table below what made it."""
    if options.out is None:
        return
    made = [
        " ".join(["python", *sys.argv]).replace(str(options.out), "FOLDER"),
        f"{options.drawn} drawn problems besides the tuned ones, {options.seeds} seeds from {options.first}",
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / name).write_text("\n".join([*made, *table]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
