"""What makes the comparison of two kernels differ from one time to the next: `python benchmarks/placement.py`.

Tunes the bundled kernels twice. Then, for rows whose winners are known to differ between tunings and a few calm ones,
the default and the leaders race again and again, each time with one thing changed:

    again    nothing: the same process, modules and buffers
    order    the order of the candidates within a round
    reload   the modules, unloaded and loaded again in another order behind dummies of random sizes
    pages    the buffers, freed and made again behind random padding, with the same gaps between them
    gaps     the same, with other gaps and other inputs
    process  the process

Of each, the table has the standard deviation, over the repeats, of the logarithm of a candidate's time over the
default's, in percent. Ends within `--seconds`; writes what it prints, and the ratios as JSON, to $OUT if that is set.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from dataclasses import replace
from pathlib import Path

from pretuned.child import Child
from pretuned.compile.pool import compile_all
from pretuned.config import GPU
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, RaceRequest
from pretuned.measure.rounds import Cut, RunAll
from pretuned.render import Source, source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import all_problems
from pretuned.tune import decision
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune

TEMPLATES = Path(__file__).parents[1] / "templates"
ROUNDS, REPEATS, PROCESSES, CANDIDATES, SEED = 11, 7, 7, 4, 1
DUMMIES = (40, 400, 4_000, 20_000)  # operations of each
MOST_ROWS = 18
CHANGES = ("again", "order", "reload", "pages", "gaps", "process")
KNOWN = """
    row_softmax cols=1024, rows=64, T=float16; row_softmax cols=1024, rows=2048, T=float16; axpby n=65536, T=float32
    transpose cols=256, rows=8192, T=float32; transpose cols=8192, rows=256, T=float32
    row_softmax cols=4096, rows=64, T=float32; row_softmax cols=128, rows=64, T=float32
    transpose cols=2048, rows=8192, T=float32; sgemm k=2048, m=1024, n=1024
"""
CALM = """
    axpby n=16777216, T=float32; transpose cols=2048, rows=2048, T=float16; row_softmax cols=8192, rows=2048, T=float32
    sgemm k=256, m=1024, n=1024
"""


def named(text):
    return [tuple(part.split(maxsplit=1)) for part in text.replace("\n", ";").split(";") if part.strip()]


def recorded(specs, target):
    """Tune, and return by row what was screened and raced, and who won."""
    found, original, chosen = {}, decision.race, decision.finalists
    screened = {}

    def race(task, problem, estimates_us, rounds, rule):
        samples, failures = original(task, problem, estimates_us, rounds, rule)
        if isinstance(rule, Cut):
            found[task.spec.name, problem] = {"race": samples, "screened": dict(screened)}
        return samples, failures

    def finalists(times_us, *more):
        screened.clear()
        screened.update(times_us)
        return chosen(times_us, *more)

    decision.race, decision.finalists = race, finalists
    requests = [TuningRequest(spec=spec, problems=tuple(all_problems(spec))) for spec in specs.values()]
    result = tune(requests, target, cache_folder=None)
    decision.race, decision.finalists = original, chosen
    for row in result.rows:
        found.setdefault((row.kernel, row.problem), {"race": {}, "screened": {}})["winner"] = row.winner.configuration
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in result.spending.longest())
    return found, f"tuning: {sum(result.spending.seconds.values()):.1f} s: {stages}"


def median_ratio(samples, one, base):
    return statistics.median(a / b for a, b in zip(samples[one], samples[base], strict=False))


def where_lost(tunings, key):
    """Yield how each winner of a row fared in the tunings that it did not win."""
    winners = list(dict.fromkeys(tuning[key]["winner"] for tuning in tunings))
    for winner in winners if len(winners) > 1 else ():
        for number, tuning in enumerate(tunings):
            row = tuning[key]
            screened = sorted(row["screened"], key=row["screened"].get)
            place = screened.index(winner) if winner in screened else None
            told = f"screened {'never' if place is None else place + 1} of {len(screened)}"
            if place is not None:
                told += f", {row['screened'][winner] / row['screened'][screened[0]]:.3f} of the best"
            race = row["race"]
            if winner in race:
                leader = min(race, key=lambda c: statistics.median(race[c]))
                told += f"; race {median_ratio(race, winner, leader):.4f} of the leader in {len(race[winner])} rounds"
            yield f"    tuning {number + 1} {'WON' if row['winner'] == winner else 'lost'}: {winner}: {told}"


def candidates(tunings, key, default):
    """Return the default, the winners, and the best of the races."""
    found = [default, *(tuning[key]["winner"] for tuning in tunings)]
    for tuning in tunings:
        race = tuning[key]["race"]
        found += sorted(race, key=lambda c: statistics.median(race[c]))[:2]
    return list(dict.fromkeys(found))[: CANDIDATES + 1]


def dummy(operations):
    lines = "".join(f"x = x * {index % 97 + 1}.5f + {index % 89}.25f;\n" for index in range(operations))
    text = f'extern "C" __global__ void dummy{operations}(float *y) {{ float x = *y;\n{lines}*y = x; }}\n'
    return Source(text=text, options=(), functions=(f"dummy{operations}",))


def summary(ratios):
    return statistics.stdev(map(math.log, ratios)) if len(ratios) > 1 else math.nan


class Report:
    def __init__(self):
        self.lines = []

    def __call__(self, line):
        print(line, flush=True)
        self.lines.append(line)


class Experiment:
    """The rows that are raced, what races them, and what was seen of each change."""

    def __init__(self, specs, tunings, rows, target):
        self.rows = rows
        self.chosen = {key: candidates(tunings, key, space.default(specs[key[0]])) for key in rows}
        self.ratios = {(key, change): [] for key in rows for change in CHANGES}
        self.defaults = {(key, change): [] for key in rows for change in CHANGES}
        self.raw = []
        self.begun = time.monotonic()
        sources = {
            (key, c): source_of(specs[key[0]], key[1].specialisation, c) for key in rows for c in self.chosen[key]
        }
        dummies = [dummy(count) for count in DUMMIES]
        binaries = compile_all([*sources.values(), *dummies], target.record.architecture)
        self.dummies = [binaries[source.key].image for source in dummies]
        self.asked = {}
        for key in rows:
            entries = tuple(CompiledCandidate.of(c, binaries[sources[key, c].key]) for c in self.chosen[key])
            estimates = tuple(tunings[0][key]["screened"].get(c, 10.0) for c in self.chosen[key])
            self.asked[key] = (
                PrepareRequest(spec=specs[key[0]], problem=key[1], default=entries[0], seed=SEED, reference="none"),
                RaceRequest(entries=entries, estimates_us=estimates, rounds=ROUNDS, rule=RunAll()),
            )

    def run(self, worker, key, change, seed, say):
        """Race a row with one change, and return whether the worker still lives."""
        prepare, raced = self.asked[key]
        if change == "gaps":
            prepare = replace(prepare, seed=seed)
        answer = worker.ask((change, prepare, raced, self.dummies, seed), timeout_s=60)
        if not isinstance(answer, dict):
            say(f"{key[0]} at {key[1]}: {change}: {answer}")
            return False
        times = answer["times_us"]
        pairs = [[a / b for a, b in zip(one, times[0], strict=True)] for one in times[1:]]
        self.ratios[key, change].append([statistics.median(one) for one in pairs])
        self.defaults[key, change].append(statistics.median(times[0]))
        self.raw.append(
            {
                "row": f"{key[0]} {key[1]}",
                "change": change,
                "at_s": round(time.monotonic() - self.begun, 3),
                "clock_mhz": answer["clock_mhz"],
                "canary_us": answer["canary_us"],
                "medians_us": [statistics.median(one) for one in times],
                "ratios": self.ratios[key, change][-1],
            }
        )
        return True

    def spreads(self, say):
        """Report the standard deviations by row and candidate, and over all."""
        say("standard deviation of log(time / default's time), percent: " + " ".join(f"{one:>8}" for one in CHANGES))
        pooled = {change: [] for change in CHANGES}
        for key in self.rows:
            spreads = [summary(self.defaults[key, change]) for change in CHANGES]
            at = f"{statistics.median(self.defaults[key, 'process'] or [math.nan]):.2f} us"
            say(f"{key[0]} at {key[1]}: default {at:<10}".ljust(63) + " ".join(f"{100 * s:8.2f}" for s in spreads))
            for index, configuration in enumerate(self.chosen[key][1:]):
                columns = [[one[index] for one in self.ratios[key, change]] for change in CHANGES]
                for change, column in zip(CHANGES, columns, strict=True):
                    pooled[change].append(summary(column))
                values = " ".join(f"{100 * summary(column):8.2f}" for column in columns)
                say(f"  {str(configuration)[:48]:<50}{statistics.median(columns[-1] or [math.nan]):10.4f} {values}")
        for name, function in (("median", statistics.median), ("largest", max)):
            values = [[one for one in pooled[change] if not math.isnan(one)] or [math.nan] for change in CHANGES]
            say(f"{name:<63}" + " ".join(f"{100 * function(one):8.2f}" for one in values))

    def clocks(self, say):
        """Report the clocks that races of each change met."""
        for change in CHANGES:
            clocks = [one["clock_mhz"] for one in self.raw if one["change"] == change] or [0]
            canaries = [value for one in self.raw if one["change"] == change for value in one["canary_us"] if value]
            say(
                f"{change:<8}: {len(clocks)} races; SM clock {min(clocks)} to {max(clocks)} MHz; "
                f"canary {min(canaries or [0]):.2f} to {max(canaries or [0]):.2f} us"
            )


def worker():
    child = Child("placement_worker:serve")
    child.send("open")
    return child


def race_all(experiment, ends_s, say):
    """Race in one process after the other until three quarters of the time are over, then with every other change."""
    waiting = [worker() for _ in range(2)]
    for _ in range(PROCESSES):
        child = waiting.pop(0)
        child.answer(90)
        waiting.append(worker())
        for key in experiment.rows:
            if not experiment.run(child, key, "process", 0, say):
                break
        child.kill()
        if time.monotonic() > ends_s - 0.25 * (ends_s - experiment.begun):
            break
    say(f"processes done after {time.monotonic() - experiment.begun:.0f} s")
    child = waiting.pop(0)
    child.answer(90)
    for key in experiment.rows:
        for change in CHANGES[:-1]:
            for seed in range(REPEATS):
                if time.monotonic() < ends_s:
                    experiment.run(child, key, change, seed, say)
    for one in (child, *waiting):
        one.kill()


def rows_of(tunings, say):
    """Return the rows that are raced: known ones, some of those with different winners, and calm ones."""
    first, *others = tunings
    by_name = {(name, str(problem)): (name, problem) for name, problem in first}
    differ = [key for key in first if any(other[key]["winner"] != first[key]["winner"] for other in others)]
    say(f"{len(differ)} of {len(first)} rows have different winners")
    for key in differ:
        say(f"  {key[0]} at {key[1]}")
        for line in where_lost(tunings, key):
            say(line)
    known, calm = ([by_name[name] for name in named(text)] for text in (KNOWN, CALM))
    return list(dict.fromkeys([*known[:3], *differ[:4], *known[3:], *calm, *differ]))[:MOST_ROWS]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=225.0)
    parser.add_argument("--tunings", type=int, default=2)
    options = parser.parse_args()
    begun, say = time.monotonic(), Report()
    specs = {name: spec for name, spec in load_folder(TEMPLATES).items() if name != "reduce_sum"}
    target = find_device(GPU, {})
    tunings = []
    for _ in range(options.tunings):
        found, line = recorded(specs, target)
        tunings.append(found)
        say(line)
    experiment = Experiment(specs, tunings, rows_of(tunings, say), target)
    race_all(experiment, begun + options.seconds, say)
    say("")
    experiment.spreads(say)
    experiment.clocks(say)
    say(f"in all {time.monotonic() - begun:.0f} s")
    if folder := os.environ.get("OUT"):
        Path(folder, "placement.txt").write_text("\n".join(say.lines) + "\n", encoding="utf-8")
        Path(folder, "placement.json").write_text("\n".join(map(json.dumps, experiment.raw)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
