"""How well a second tuning agrees with the first: `python benchmarks/repeat.py [--times 5] [--seed 0] [--out FOLDER]`.

Tunes the bundled kernels several times from nothing. Then every row's distinct winners and its default run in one
interleaved race, in each of several fresh processes with inputs and places of their own, which `--seed` draws. The
median over the processes says how far the winners of different tunings lie apart, and whether any is slower than its
default: over 1%, and in so many processes that the 95% interval of the median agrees.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import random
import statistics
import time
from pathlib import Path

from pretuned.compile.pool import compile_all
from pretuned.config import GPU
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, Raced
from pretuned.measure.runner import Runner
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import all_problems
from pretuned.tune.ranking import ratio_interval
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune

TEMPLATES = Path(__file__).parents[1] / "templates"
PROCESSES = 7  # an interval of 95% needs 6
ROUNDS = 21
SLOWER = 1.01
NEAR = 0.01


def tunings(specs, target, times):
    """Yield the rows of each tuning by kernel and problem, and its seconds by stage."""
    for _ in range(times):
        requests = [TuningRequest(spec=spec, problems=tuple(all_problems(spec))) for spec in specs.values()]
        result = tune(requests, target, cache_folder=None)
        yield {(row.kernel, row.problem): row for row in result.rows}, dict(result.spending.longest())


def choices(specs, tuned):
    """Return by row the default and the distinct winners."""
    return {
        (name, problem): list(
            dict.fromkeys([space.default(specs[name]), *(rows[name, problem].winner.configuration for rows in tuned)])
        )
        for name, problem in tuned[0]
    }


def entries(specs, chosen, architecture):
    """Return by row what to race, compiled."""
    sources = {
        (name, problem, configuration): source_of(specs[name], problem.specialisation, configuration)
        for (name, problem), listed in chosen.items()
        for configuration in listed
    }
    binaries = compile_all(sources.values(), architecture)
    return {
        row: [CompiledCandidate.of(c, binaries[sources[*row, c].key]) for c in listed] for row, listed in chosen.items()
    }


def judged(specs, asked, seed, ends_s):
    """Yield, for each fresh process, the median time of every entry by row, in the order of the entries."""
    draw = random.Random(seed)
    runners = [Runner() for _ in range(PROCESSES)]
    for number, runner in enumerate(runners):
        if number >= 2 and time.monotonic() > ends_s:
            return
        with runner:
            for following in runners[number : number + 2]:
                following.start()
            places, found = draw.randrange(1, 1 << 30), {}
            for (name, problem), listed in draw.sample(sorted(asked.items(), key=str), len(asked)):
                request = PrepareRequest(
                    spec=specs[name], problem=problem, default=listed[0], seed=places, reference="none"
                )
                assert runner.prepare(request) is None
                order = draw.sample(range(len(listed)), len(listed))
                estimates = [one.outcome.time_us for one in runner.screen([listed[i] for i in order], verify=False)]
                raced = runner.race([listed[i] for i in order], ROUNDS, estimates_us=estimates)
                assert isinstance(raced, Raced), raced
                times = dict(zip(order, raced.times_us, strict=True))
                found[name, problem] = [statistics.median(times[index]) for index in range(len(listed))]
        yield found


def summary(tuned, chosen, processes):
    """Yield the lines of the report."""
    same, spreads, slower, gains = 0, {}, [], []
    for row, listed in chosen.items():
        times = {c: [found[row][index] for found in processes] for index, c in enumerate(listed)}
        default = times[listed[0]]
        ratios = {c: statistics.median(a / b for a, b in zip(times[c], default, strict=True)) for c in listed}
        winners = [rows[row].winner.configuration for rows in tuned]
        same += len(set(winners)) == 1
        spreads[row] = max(ratios[c] for c in winners) / min(ratios[c] for c in winners) - 1
        gains += [math.log(ratios[c]) for c in winners]
        for number, c in enumerate(winners):
            low, high = ratio_interval(times[c], default)
            if ratios[c] > SLOWER and low > 1:
                each = " ".join(f"{a / b:.3f}" for a, b in zip(times[c], default, strict=True))
                slower.append(
                    f"tuning {number + 1}: {row[0]} at {row[1]}: {c}: {low:.3f} to {high:.3f} of the default: {each}"
                )
    yield f"{len(tuned)} tunings, {len(spreads)} rows: the same winner in all of them in {same} rows"
    yield f"times of a row's winners lie within 1% of each other in {sum(s <= NEAR for s in spreads.values())} rows"
    ordered = sorted(spreads.values())
    shares = ", ".join(f"{share:.0%}: {ordered[int(share * (len(ordered) - 1))]:.2%}" for share in (0.5, 0.9, 0.95, 1))
    yield f"spread of a row's winners, by share of the rows: {shares}"
    for row, spread in sorted(spreads.items(), key=lambda item: -item[1])[:10]:
        yield f"  {spread:.2%} apart: {row[0]} at {row[1]}: {chosen[row][0]} has 1"
        for index, c in enumerate(chosen[row][1:], 1):
            each = " ".join(f"{found[row][index] / found[row][0]:.3f}" for found in processes)
            by = [number + 1 for number, rows in enumerate(tuned) if rows[row].winner.configuration == c]
            said = " ".join(f"{one:.3f}" for number in by for one in tuned[number - 1][row].winner.ratio)
            yield f"    {c}: {each}; of tuning {by}: {said}"
    yield f"geometric mean of winner / default: {math.exp(statistics.mean(gains)):.4f}"
    count = len(tuned) * len(spreads)
    yield f"{len(slower)} of {count} winners slower than their default by more than 1% and outside the 95% interval"
    yield from (f"  {line}" for line in slower)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=520.0, help="after which no further process is begun")
    parser.add_argument("--out", type=Path, default=os.environ.get("OUT"))
    options = parser.parse_args()
    begun_s = time.monotonic()
    specs, target = load_folder(TEMPLATES), find_device(GPU, {})
    lines = [json.dumps({"device": target.name, "driver": target.driver, "seed": options.seed, "date": today()})]

    def say(line):
        print(line, flush=True)
        lines.append(line)

    tuned = []
    for rows, seconds in tunings(specs, target, options.times):
        tuned.append(rows)
        stages = ", ".join(f"{name} {spent:.2f}" for name, spent in seconds.items())
        say(f"tuning {len(tuned)}: {sum(seconds.values()):.1f} s: {stages}")
    chosen = choices(specs, tuned)
    asked = entries(specs, chosen, target.record.architecture)
    processes = list(judged(specs, asked, options.seed, begun_s + options.seconds))
    say(f"judged in {len(processes)} fresh processes; {time.monotonic() - begun_s:.0f} s in all")
    for line in summary(tuned, chosen, processes):
        say(line)
    if options.out:
        (Path(options.out) / "repeat.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def today():
    return dt.datetime.now(dt.UTC).date().isoformat()


if __name__ == "__main__":
    main()
