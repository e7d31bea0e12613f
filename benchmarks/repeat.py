"""How well a second tuning agrees with the first: `python benchmarks/repeat.py [--times 5] [--out FOLDER]`.

Tunes the bundled kernels several times from nothing. Then, in a fresh process, every row's distinct winners and its
default run in one interleaved race: that says how far the winners of different tunings lie apart, and whether any is
slower than its default.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
from pathlib import Path

from pretuned.compile.pool import compile_all
from pretuned.config import GPU
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, Raced
from pretuned.measure.runner import Runner
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import all_problems
from pretuned.tune.race import ratio_interval
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune

TEMPLATES = Path(__file__).parents[1] / "templates"
ROUNDS = 31
SEED = 7
SLOWER = 1.01


def tunings(specs, target, times):
    """The winners of each tuning: by kernel and problem."""
    for turn in range(times):
        requests = [TuningRequest(spec=spec, problems=tuple(all_problems(spec))) for spec in specs.values()]
        result = tune(requests, target, cache_folder=None)
        print(f"tuning {turn + 1}: {sum(result.effort.seconds.values()):.1f} s", flush=True)
        yield {(row.kernel, row.problem): row.winner.configuration for row in result.rows}


def entry(spec, problem, configuration, architecture, known={}):  # noqa: B006 - kept over all calls
    module = source_of(spec, problem.specialisation, configuration)
    if module.key not in known:
        known[module.key] = compile_all([module], architecture, workers=1)[module.key]
    return CompiledCandidate.of(configuration, known[module.key])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    specs, target = load_folder(TEMPLATES), find_device(GPU, {})
    found = list(tunings(specs, target, options.times))
    same, spreads, slower = 0, {}, []
    with Runner() as runner:
        for name, problem in found[0]:
            spec = specs[name]
            winners = list(dict.fromkeys(winner[name, problem] for winner in found))
            same += len(winners) == 1
            chosen = list(dict.fromkeys([space.default(spec), *winners]))
            entries = [entry(spec, problem, c, target.record.architecture) for c in chosen]
            runner.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[0], seed=SEED, reference="none"))
            estimates = [one.outcome.time_us for one in runner.screen(entries, verify=False)]
            raced = runner.race(entries, ROUNDS, estimates_us=estimates)
            assert isinstance(raced, Raced), raced
            times = dict(zip(chosen, raced.times_us, strict=True))
            medians = {c: statistics.median(samples) for c, samples in times.items()}
            spreads[name, problem] = max(medians[c] for c in winners) / min(medians[c] for c in winners) - 1
            for c in winners:
                low, high = ratio_interval(times[c], times[chosen[0]])
                if medians[c] > SLOWER * medians[chosen[0]] and low > 1:
                    slower.append(f"{name} at {problem}: {c}: {low:.3f} to {high:.3f} of the default's time")
    worst = sorted(spreads.items(), key=lambda item: -item[1])
    lines = [
        json.dumps(
            {"device": target.name, "driver": target.driver, "date": dt.datetime.now(dt.UTC).date().isoformat()}
        ),
        f"{len(found)} tunings, {len(spreads)} rows: the same winner in all of them in {same} rows",
        f"times of a row's winners lie within 1% of each other in {sum(s <= 0.01 for s in spreads.values())} rows",
        *(f"  {spread:.2%} apart: {name} at {problem}" for (name, problem), spread in worst[:8]),
        f"{len(slower)} winners slower than their default by more than 1% and outside the 95% interval",
        *(f"  {line}" for line in slower),
    ]
    print("\n".join(lines))
    if options.out:
        (options.out / "repeat.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
