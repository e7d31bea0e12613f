"""Which parameter of a space matters how much: the share of the variance of log time that each explains alone.

The measure is the first-order (main) effect of a functional analysis of variance, as Hutter, Hoos and Leyton-Brown use
it for parameters of algorithms ("An Efficient Approach for Assessing Hyperparameter Importance", ICML 2014): the
variance of the mean log time at each value of a parameter, by the variance of log time. They take the means from a
model; here they are those of the configurations that were measured. What differs between problems is taken out first:
each problem's own mean counts as 0. Constraints tie parameters together, so that shares overlap and need not add up to
1; what is missing from 1 where they do not overlap lies in combinations.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pretuned.record.rows import Row
from pretuned.runtime.records import Value
from pretuned.spec.space import Configuration, Pairs, describe

CACHE: Final = "user cache"
LOCK: Final = "the lock's ranked choices"
ABSENT: Final = "-"  # in an edited lock, where configurations of one implementation may differ in parameters
FEWEST: Final = 8  # configurations by problems, below which shares say nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSpace:
    """Times of configurations: the kernel, device and specialisation, and (problem, configuration, microseconds).

    `source` says where they come from.
    """

    kernel: str
    device: str
    specialisation: Pairs
    times: tuple[tuple[Pairs, Configuration, float], ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterEffect:
    """A parameter of an implementation: how many values were measured, and the share of variance that it explains.

    `best` is the value whose mean time is the lowest.
    """

    name: str
    values: int
    share: float
    best: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceFigure:
    """The parameters of one implementation on a device, from the one that explains most on.

    `measured` counts configurations by problems; `spread` is the standard deviation of log time, as a factor.
    """

    kernel: str
    device: str
    specialisation: str
    implementation: str
    measured: int
    problems: int
    spread: float
    source: str
    effects: tuple[ParameterEffect, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "kernel": self.kernel,
            "device": self.device,
            "specialisation": self.specialisation,
            "implementation": self.implementation,
            "measured": self.measured,
            "problems": self.problems,
            "spread": round(self.spread, 4),
            "source": self.source,
            "parameters": {
                one.name: {"values": one.values, "share": round(one.share, 4), "best": one.best} for one in self.effects
            },
        }


def spaces_of(rows: Iterable[Row], known: Sequence[MeasuredSpace]) -> Iterator[SpaceFigure]:
    """Yield a figure for each kernel, device, specialisation and implementation of which enough was measured.

    What `known` has no times of is judged by the rows' own choices.
    """
    found = {(one.kernel, one.device, one.specialisation): one for one in known if one.times}
    listed: defaultdict[tuple[str, str, Pairs], list[Row]] = defaultdict(list)
    for row in rows:
        listed[row.kernel, row.device, row.specialisation].append(row)
    for key, own in listed.items():
        space = found.get(key) or MeasuredSpace(
            kernel=key[0],
            device=key[1],
            specialisation=key[2],
            times=tuple((row.problem.dims, one.configuration, one.time_us) for row in own for one in row.choices),
            source=LOCK,
        )
        yield from _figures(space)


def _figures(space: MeasuredSpace) -> Iterator[SpaceFigure]:
    for implementation in sorted({one.implementation for _, one, _ in space.times}):
        times = [(at, dict(one.values), us) for at, one, us in space.times if one.implementation == implementation]
        centred = list(_centred(times))
        variance = _variance([log for _, log in centred])
        if len(centred) < FEWEST or not variance:
            continue
        effects = sorted(_effects(centred, variance), key=lambda one: (-one.share, one.name))
        if effects:
            yield SpaceFigure(
                kernel=space.kernel,
                device=space.device,
                specialisation=describe(space.specialisation),
                implementation=implementation,
                measured=len(centred),
                problems=len({at for at, _, _ in times}),
                spread=math.exp(math.sqrt(variance)),
                source=space.source,
                effects=tuple(effects),
            )


def _centred(times: Sequence[tuple[Pairs, Mapping[str, Value], float]]) -> Iterator[tuple[Mapping[str, Value], float]]:
    """Yield log times less the mean of their problem; a problem with one time says nothing."""
    groups: defaultdict[Pairs, list[tuple[Mapping[str, Value], float]]] = defaultdict(list)
    for at, values, time_us in times:
        if 0 < time_us < math.inf:
            groups[at].append((values, math.log(time_us)))
    for found in groups.values():
        if len(found) > 1:
            mean = math.fsum(log for _, log in found) / len(found)
            yield from ((values, log - mean) for values, log in found)


def _effects(centred: Sequence[tuple[Mapping[str, Value], float]], variance: float) -> Iterator[ParameterEffect]:
    names = sorted({name for values, _ in centred for name in values})
    for name in names:
        groups: defaultdict[Value, list[float]] = defaultdict(list)
        for values, log in centred:
            groups[values.get(name, ABSENT)].append(log)
        if len(groups) > 1:
            means = {value: math.fsum(logs) / len(logs) for value, logs in groups.items()}
            explained = math.fsum(len(groups[value]) * mean**2 for value, mean in means.items()) / len(centred)
            best = min(means, key=lambda value: (means[value], str(value)))
            yield ParameterEffect(
                name=name,
                values=len(groups),
                share=min(1.0, explained / variance),
                best=describe(((name, best),)).partition("=")[2],
            )


def _variance(logs: Sequence[float]) -> float:
    """Return the variance of numbers whose mean is 0."""
    return math.fsum(log * log for log in logs) / len(logs) if logs else 0.0
