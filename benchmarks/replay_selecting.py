"""Replays the making of selections over recorded sizes: `python benchmarks/replay_selecting.py [--out FILE] [NAME...]`.

Where `replay_sizes.py` judges rules that know the same times, this lets a tuning find out which times it wants: which
candidates it surveys and races, and where. Prints for each recording what the rule loses at the recorded problems that
it was not made from, what the best of what ships would lose, and at how many the rule is slower than the default by
over 2%: the mean over the seeds. A NAME is that of a file of tests/data/sizes, without its suffix.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from pretuned.report.text import columns
from sizes import matrix
from sizes.judging import SLOWER, percent
from sizes.making import made

HEAD = ("recording", "inside: loses", "best that ships", "slower", "outside: loses", "best that ships", "slower")


def figures(recorded, seeds):
    """Return the mean over seeds of what is lost inside and outside, by the cells of HEAD."""
    found = []
    for seed in seeds:
        one = made(recorded, seed)
        for part in ("inside", "outside"):
            rule, shipped, default = np.array(one.lost(part)).T
            found.append((rule.mean(), shipped.mean(), (1 + rule > SLOWER * (1 + default)).mean()))
    return np.array(found).reshape(len(seeds), -1).mean(axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    table, everything = [HEAD], []
    paths = {path.name.removesuffix(".json.gz"): path for path in sorted(matrix.RECORDED.glob("*.json.gz"))}
    if unknown := set(options.name) - paths.keys():
        parser.error(f"no recording is named {', '.join(sorted(unknown))}; there are {', '.join(paths)}")
    for name in options.name or paths:
        everything.append(figures(matrix.read(paths[name]), seeds))
        table.append((name, *map(percent, everything[-1])))
        print(*columns([HEAD, table[-1]], frozenset(range(1, len(HEAD)))), sep="\n", flush=True)
    table.append(("mean", *map(percent, np.mean(everything, axis=0))))
    lines = list(columns(table, frozenset(range(1, len(HEAD)))))
    print(*lines, sep="\n")
    if options.out:
        made_by = " ".join(["python", *sys.argv]).replace(str(options.out), "FILE")
        options.out.write_text("\n".join([made_by, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
