"""The order in which configurations are executed, so that what there is no time for matters least.

First the default of every specialisation runs at a small problem, then configurations that have each value of each
parameter, spread over the specialisations. Then every other configuration runs once, at its most telling problem, and
only then any of them at further problems. The sizes of these follow the time that the first ones took.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.runtime.records import Value
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.tune.trials import Trial

CHUNK: Final = 16  # configurations at one problem, which one process executes in turn

Trials = Mapping[Pairs, Sequence[Trial]]
Placed = tuple[Pairs, Trial]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Configurations that are executed at one problem, and so share its reference; `layer` 0 goes first."""

    layer: int
    problem: Problem
    configurations: tuple[Configuration, ...]


def chunks(first: Trials, further: Callable[[], Trials]) -> Iterator[Chunk]:
    """Yield what is to be executed, in order; `further` gives the trials of all but the first two layers."""
    placed = [(specialisation, trial) for specialisation, found in first.items() for trial in found if trial.problems]
    heads = _heads(placed)
    cover = covering(placed, heads)
    yield from _chunked(0, [(s, trial.configuration, trial.problems[0]) for s, trial in heads])
    yield from _chunked(1, [(s, trial.configuration, trial.problems[0]) for s, trial in cover])
    begun = {(s, trial.configuration) for s, trial in (*heads, *cover)}
    rest = [(s, trial) for s, found in further().items() for trial in found if trial.problems]
    rest.sort(key=lambda one: (one[0], one[1].configuration) in begun)
    done = {(s, trial.configuration, trial.problems[0]) for s, trial in (*heads, *cover)}
    most = max((len(trial.problems) for _, trial in rest), default=0)
    for layer, index in enumerate([*range(1, most), 0], start=2):
        steps = [
            (s, trial.configuration, trial.problems[index if index < len(trial.problems) else 0])
            for s, trial in rest
            if index < len(trial.problems) or index == 1
        ]
        yield from _chunked(layer, [step for step in steps if step not in done])
        done.update(steps)


def covering(placed: Sequence[Placed], heads: Sequence[Placed]) -> list[Placed]:
    """Return the fewest others, about, that have each value of each parameter that `heads` lack.

    They are taken from one specialisation after another.
    """
    lacking = {value for _, trial in placed for value in _values(trial)}
    lacking -= {value for _, trial in heads for value in _values(trial)}
    by_place = [list(group) for _, group in itertools.groupby(placed, key=lambda one: one[0])]
    found: list[Placed] = []
    for group in itertools.cycle(by_place):
        if not lacking:
            return found
        best = max(group, key=lambda one: len(lacking & _values(one[1])))
        gained = lacking & _values(best[1])
        if not gained:  # none of what is lacking is legal in this specialisation
            best = max(placed, key=lambda one: len(lacking & _values(one[1])))
            gained = lacking & _values(best[1])
        found.append(best)
        lacking -= gained
    return found


def _values(trial: Trial) -> set[tuple[str, str, Value]]:
    name = trial.configuration.implementation
    return {(name, "", ""), *((name, parameter, value) for parameter, value in trial.configuration.values)}


def _heads(placed: Sequence[Placed]) -> list[Placed]:
    """Return the first trial of every specialisation and of every implementation, those that differ most first."""
    heads = [next(group) for _, group in itertools.groupby(placed, key=lambda one: one[0])]
    known = {trial.configuration.implementation for _, trial in heads}
    others = {one[1].configuration.implementation: one for one in reversed(placed)}
    ends = [heads[index] for index in sorted({0, len(heads) // 2, len(heads) - 1})] if heads else []
    further = [one for name, one in sorted(others.items()) if name not in known]
    return list(dict.fromkeys([*ends, *further, *heads]))


def _chunked(layer: int, steps: Sequence[tuple[Pairs, Configuration, Problem]]) -> Iterator[Chunk]:
    at: dict[Problem, list[Configuration]] = {}
    for _, configuration, problem in steps:
        at.setdefault(problem, []).append(configuration)
    for problem, found in at.items():
        for begin in range(0, len(found), CHUNK):
            yield Chunk(layer=layer, problem=problem, configurations=tuple(found[begin : begin + CHUNK]))
