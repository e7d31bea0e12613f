"""Share of the optimum against seconds of tuning: `python benchmarks/pareto.py [--seeds 3] [--write]`.

Hochgraf's GEMM, 106 configurations at 64 inputs, over times that were recorded on an H100. Seconds are counted instead
of spent, of launches, verification, references and 16 compile workers (`pricing`). Within each budget a tuning settles
rows, without a selection. At the other inputs counts what a package runs there: the nearest row's choice that may run,
else the default. The share is the optimum's time over that of what runs, as a geometric mean over all inputs.

Beside tunings by three strategies stands what Hochgraf's study simulates: so many configurations drawn at random, each
verified and screened at every input, the fastest of which wins.

`--write` writes the table and what the documentation plots into benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.outcome import Timed
from pretuned.record.cache import Cache
from pretuned.render import source_of
from pretuned.report.text import columns
from pretuned.spec.space import combinations, default_at, legal
from pretuned.strategies import NamedStrategy
from pretuned.strategies.exhaustive import Exhaustive
from pretuned.strategies.hybrid import Hybrid
from pretuned.strategies.random_sample import RandomSample
from pretuned.tune.request import EffortProfile, TuningDevice
from pretuned.tune.spending import Spending
from pretuned.tune.workbench import Demands
from pricing import spaces
from pricing.device import COMPILER, H100, PricedBinaries, PricedRunner, VirtualTime
from tuning_price import tuned

RESULTS = Path(__file__).with_name("results")
BUDGETS_S = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, math.inf)
COUNTS = (2, 4, 8, 16, 32, 64, 106)  # configurations of a study by random draws
ROWS_ALONE = EffortProfile(surveyed_problems=0, tried_problems=0, certified_problems=0)
EVERYWHERE = "random draws, everywhere"
STRATEGIES = {
    "exhaustive": lambda _seed: Exhaustive,
    "hybrid": lambda seed: lambda size, first: Hybrid(size, first, seed=seed),
    "random": lambda seed: lambda size, first: RandomSample(size, first, seed=seed),
}
FIRST_SEED = 100
FACTS = TuningDevice(record=H100, driver="580").facts
HEAD = ("way", "asked for", "seconds", "share", "worst seed", "worst input", "inputs reached")


def share_of(space, chosen):
    """The share of the optimum at each input, by the configuration that a package would run there."""
    return [space.best_us(problem) / space.time_us(ran(space, problem, chosen), problem) for problem in space.problems]


def ran(space, problem, chosen):
    """The configuration that was chosen at a problem; else that of the nearest which may run here, else the default."""
    near = sorted(chosen, key=lambda other: math.dist(spaces.logs(problem), spaces.logs(other)))
    found = (chosen[other] for other in near if legal(space.spec, problem, chosen[other], FACTS))
    return next(found, default_at(space.spec, problem))


def by_tuning(strategy, budget_s, seed):
    """Seconds, shares and rows of a tuning within a budget."""
    space = spaces.hochgraf()
    demands = Demands(strategy=NamedStrategy(name=strategy, make=STRATEGIES[strategy](seed)))
    run = tuned(space, seed, ROWS_ALONE, budget_s=None if math.isinf(budget_s) else budget_s, demands=demands)
    chosen = {row.problem: row.winner.configuration for row in run.rows}
    return run.seconds, share_of(space, chosen), len(chosen)


def by_draws(count, seed):
    """The same for `count` configurations that are screened at every input; the default is one of them."""
    space, time = spaces.hochgraf(), VirtualTime()
    listed = [one for name, found in space.spec.all_implementations.items() for one in combinations(name, found)]
    default = default_at(space.spec, space.problems[0])
    others = [one for one in listed if one != default and legal(space.spec, space.problems[0], one, FACTS)]
    drawn = [default, *random.Random(seed).sample(others, min(count, len(others) + 1) - 1)]
    runner, chosen = PricedRunner(space, time, seed), {}
    with time.everywhere(), Cache(None) as cache:
        binaries = PricedBinaries(cache, Spending(), time, space.seconds_to_compile)
        sources = {one: source_of(space.spec, (), one) for one in drawn}
        binaries.compile([(source, "sm_90") for source in sources.values()])
        entries = {one: CompiledCandidate.of(one, binaries.get(sources[one], "sm_90")) for one in drawn}
        for problem in space.problems:
            runner.prepare(PrepareRequest(spec=space.spec, problem=problem, default=entries[default]))
            able = [one for one in drawn if legal(space.spec, problem, one, FACTS)]
            found = [one.outcome for one in runner.screen([entries[one] for one in able])]
            times = {one: got.time_us for one, got in zip(able, found, strict=True) if isinstance(got, Timed)}
            chosen[problem] = min(times, key=lambda one: times[one])
    return time.now_s, share_of(space, chosen), len(chosen)


def point(way, asked, runs):
    """What several seeds gave, as data."""
    shares = [math.exp(statistics.fmean(map(math.log, found))) for _, found, _ in runs]
    return {
        "way": way,
        "asked": asked,
        "seconds": round(statistics.fmean(seconds for seconds, _, _ in runs), 2),
        "share": round(statistics.fmean(shares), 4),
        "worst_seed": round(min(shares), 4),
        "worst_input": round(min(min(found) for _, found, _ in runs), 4),
        "inputs": round(statistics.fmean(count for _, _, count in runs), 1),
    }


def points(seeds):
    """Every point of every way."""
    with ProcessPoolExecutor(2) as pool:
        jobs = [
            (way, "all" if math.isinf(budget_s) else f"{budget_s:g} s", pool.submit, by_tuning, way, budget_s)
            for way in STRATEGIES
            for budget_s in BUDGETS_S
        ]
        asked = [(way, text, [submit(run, *given, seed) for seed in seeds]) for way, text, submit, run, *given in jobs]
        asked += [
            (EVERYWHERE, f"{count} drawn", [pool.submit(by_draws, count, seed) for seed in seeds]) for count in COUNTS
        ]
        return [point(way, text, [one.result() for one in futures]) for way, text, futures in asked]


def table(found):
    """The points as aligned lines."""
    keys = ("way", "asked", "seconds", "share", "worst_seed", "worst_input", "inputs")
    written = {
        "seconds": "{:.1f}",
        "share": "{:.4f}",
        "worst_seed": "{:.4f}",
        "worst_input": "{:.4f}",
        "inputs": "{:g}",
    }
    rows = [tuple(written.get(key, "{}").format(one[key]) for key in keys) for one in found]
    return "\n".join(columns([HEAD, *rows], frozenset(range(2, 7))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first seed")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = points(range(options.first, options.first + options.seeds))
    print(table(found))
    if options.write:
        made = f"$ python benchmarks/pareto.py {' '.join(sys.argv[1:])}".rstrip()
        said = f"virtual seconds, NVRTC {COMPILER}, {options.seeds} seeds from {options.first} on"
        (RESULTS / "pareto_hochgraf.txt").write_text(f"{made}\n{said}\n{table(found)}\n", encoding="utf-8")
        data = {"command": made.removeprefix("$ "), "points": found}
        (RESULTS / "pareto_hochgraf.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
