"""Where each default stands in its own space: `python benchmarks/default_rank.py [FOLDER] [KERNEL...]`.

Screens every configuration at every problem, several times, and prints the rank of the default among the right ones. A
default in the slower half says that its author would not have hard-coded it.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path

from pretuned.compile.pool import compile_all
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import Runner
from pretuned.outcome import Timed
from pretuned.render import candidate
from pretuned.report.text import columns
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import all_problems

REPEATS = 3
HEAD = ("kernel", "problem", "rank", "of", "default us", "median us", "best us", "best")


def measured(gpu, spec):
    """Yield (problem, median time of every right configuration in microseconds) for each problem of a kernel."""
    problems = all_problems(spec)
    legal = {problem: list(space.configurations(spec, problem, gpu.facts)) for problem in problems}
    modules = {
        (problem.specialisation, c): candidate(spec, problem.specialisation, c).source
        for problem, configurations in legal.items()
        for c in configurations
    }
    binaries = compile_all(modules.values(), f"sm_{gpu.facts.compute_capability}")
    for problem, configurations in legal.items():
        entries = [CompiledCandidate.of(c, binaries[modules[problem.specialisation, c].key]) for c in configurations]
        gpu.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[0]))
        passes = [[screened.outcome for screened in gpu.screen(entries)] for _ in range(REPEATS)]
        taken = dict(zip(configurations, zip(*passes, strict=True), strict=True))
        yield (
            problem,
            {
                c: statistics.median(outcome.time_us for outcome in outcomes)
                for c, outcomes in taken.items()
                if all(isinstance(outcome, Timed) for outcome in outcomes)
            },
        )


def steadiest(standings, problems):
    """The configurations whose worst place is best, among those that are right at every problem."""
    everywhere = {c: max(shares) for c, shares in standings.items() if len(shares) == problems}
    return sorted(everywhere.items(), key=lambda entry: entry[1])[:3]


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "templates"
    rows, notes, slow = [HEAD], [], 0
    with Runner() as gpu:
        for name, spec in load_folder(folder).items():
            if name not in (sys.argv[2:] or [name]):
                continue
            default, standings, problems = space.default(spec), defaultdict(list), 0
            for problem, times in measured(gpu, spec):
                problems += 1
                order = sorted(times, key=times.get)
                for place, configuration in enumerate(order, 1):
                    standings[configuration].append(place / len(order))
                rank = order.index(default) + 1
                slow += 2 * rank > len(order) + 1
                numbers = (times[default], statistics.median(times.values()), times[order[0]])
                cells = (str(rank), str(len(order)), *(f"{number:.2f}" for number in numbers), str(order[0]))
                rows.append((spec.name, str(problem), *cells))
            for configuration, share in steadiest(standings, problems):
                notes.append(f"{name}: {configuration} is never behind the first {share:.0%}")
    print("\n".join(columns(rows, frozenset({2, 3, 4, 5, 6}))))
    print("\n".join(notes))
    print(f"{slow} defaults in the slower half")
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
