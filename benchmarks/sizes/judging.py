"""What a pick loses at a problem against the best of all candidates, and against the default, raced there."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np

from pretuned.measure.requests import Raced
from pretuned.report.text import columns
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.tune.request import TuningDevice
from sizes.measuring import Bench, Compiled, measure

BEST, ROUNDS, FINAL = 8, 7, 15  # candidates of a first race, its rounds, those of the second
SHIPPED = "the best of what ships"
SLOWER = 1.02  # over the default's time
STUDENT = {5: 2.571, 7: 2.365, 11: 2.201, 15: 2.131, 31: 2.040}  # of 95% intervals; for other numbers of rounds 2.6
HEAD = ("problems", "mean", "p95", "worst", ">5%", "slower than the default by >2%", "surely", "the default's mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A problem at which picks were judged: interleaved rounds by configuration, and what was wrong with which."""

    kernel: str
    stratum: str
    problem: Problem
    picks: Mapping[str, Configuration]
    default: Configuration
    times_us: Mapping[Configuration, Sequence[float]]
    wrong: Mapping[Configuration, str] = field(default_factory=dict)

    def us(self, configuration: Configuration) -> float:
        """The median; infinite for what failed."""
        times = self.times_us.get(configuration, ())
        return math.inf if configuration in self.wrong or not times else statistics.median(times)

    @property
    def best(self) -> Configuration:
        return min(self.times_us, key=self.us)

    def loss(self, pick: str) -> float:
        """The share of the best's time that a pick takes longer."""
        return self.us(self.picks[pick]) / self.us(self.best) - 1

    def default_loss(self) -> float:
        return self.us(self.default) / self.us(self.best) - 1

    def slower(self, pick: str) -> bool:
        return self.us(self.picks[pick]) > SLOWER * self.us(self.default)

    def surely_slower(self, pick: str) -> bool:
        """Whether the 95% interval of the rounds' ratios lies above that wholly."""
        chosen, default = self.times_us.get(self.picks[pick], ()), self.times_us.get(self.default, ())
        ratios = [math.log(a / b) for a, b in zip(chosen, default, strict=False)]
        if len(ratios) < 2:
            return self.slower(pick)
        margin = STUDENT.get(len(ratios), 2.6) * statistics.stdev(ratios) / math.sqrt(len(ratios))
        return self.slower(pick) and statistics.mean(ratios) - margin > math.log(SLOWER)

    def as_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "stratum": self.stratum,
            "problem": str(self.problem),
            "picks": {name: str(pick) for name, pick in self.picks.items()},
            "default": str(self.default),
            "best": str(self.best),
            "us": {str(c): round(self.us(c), 4) for c in self.times_us if math.isfinite(self.us(c))},
            "wrong": {str(c): why for c, why in self.wrong.items()},
        }


def judge(
    bench: Bench,
    stratum: str,
    problem: Problem,
    picks: Mapping[str, Configuration],
    shipped: Sequence[Configuration] = (),
) -> Judged | None:
    """Screen all candidates, race the BEST of them, the picks and the default, and the three leaders of these again.

    The second race decides: in the first, whoever was lucky is the best. With `shipped` the best of these is one of the
    picks, SHIPPED. None where the problem does not fit.
    """
    found = measure(bench, problem, also=shipped, judged=list(picks.values()), best=BEST, rounds=ROUNDS)
    if found is None:
        return None
    if able := [c for c in shipped if c in found.raced]:
        picks = {**picks, SHIPPED: min(able, key=found.raced.__getitem__)}
    entries, default = bench.compiled.entries, space.default_at(bench.compiled.spec, problem)
    leaders = sorted(found.raced, key=found.raced.__getitem__)[:3]
    again = [c for c in dict.fromkeys((*leaders, *picks.values(), default)) if c in found.raced]
    raced = bench.runner.race([entries[c] for c in again], FINAL, estimates_us=[found.raced[c] for c in again])
    times = dict(zip(again, raced.times_us, strict=True)) if isinstance(raced, Raced) else found.rounds
    return Judged(
        kernel=bench.compiled.spec.name,
        stratum=stratum,
        problem=problem,
        picks=dict(picks),
        default=default,
        times_us=times,
        wrong={c: str(why) for c, why in found.wrong.items()},
    )


Drawn = tuple[KernelSpec, Pairs, Sequence[tuple[str, Problem]]]  # of one specialisation: (stratum, problem)


def judge_all(
    wanted: Sequence[Drawn],
    compiled: Sequence[Compiled],
    picks: Mapping[str, Mapping[tuple[str, Problem], Configuration]],
    device: TuningDevice,
    log: TextIO,
    *,
    end: float,
    shipped: Mapping[tuple[str, Problem], Sequence[Configuration]] | None = None,
) -> list[Judged]:
    """Judge at each specialisation's problems, within its share of the seconds until `end`, by `time.perf_counter`.

    `picks` are by name, then by kernel and problem. Each that is judged is a line of JSON in `log`.
    """
    found: list[Judged] = []
    with device.backend.runner(device.place.index) as runner:
        for at, (one, (spec, specialisation, drawn)) in enumerate(zip(compiled, wanted, strict=True)):
            started, before = time.perf_counter(), len(found)
            share = (end - started) / (len(wanted) - at)
            bench = Bench(runner=runner, device=device, compiled=one)
            for stratum, problem in drawn:
                if time.perf_counter() > started + share:
                    break
                here = {name: chosen[spec.name, problem] for name, chosen in picks.items()}
                judged = judge(bench, stratum, problem, here, (shipped or {}).get((spec.name, problem), ()))
                if judged is None:
                    print(f"  {spec.name} {problem} was not measured", flush=True)
                    continue
                found.append(judged)
                log.write(json.dumps(judged.as_json()) + "\n")
                log.flush()
            print(
                f"{spec.name} {space.describe(specialisation)}: {len(found) - before} of {len(drawn)} problems in "
                f"{time.perf_counter() - started:.1f} s",
                flush=True,
            )
    return found


def figures(losses: Sequence[float]) -> tuple[float, float, float]:
    """Return mean, 95th percentile and worst."""
    return float(np.mean(losses)), float(np.percentile(losses, 95)), max(losses)


def percent(share: float) -> str:
    return f"{share:.2%}"


def row(judged: Sequence[Judged], pick: str) -> tuple[str, ...]:
    """The cells of HEAD for a pick at some problems."""
    losses = [one.loss(pick) for one in judged]
    return (
        str(len(judged)),
        *map(percent, figures(losses)),
        f"{sum(loss > 0.05 for loss in losses) / len(losses):.0%}",
        str(sum(one.slower(pick) for one in judged)),
        str(sum(one.surely_slower(pick) for one in judged)),
        percent(statistics.mean(one.default_loss() for one in judged)),
    )


def grouped(
    judged: Sequence[Judged], pick: str, title: str, by: Callable[[Judged], str], *, whole: bool = False
) -> Iterator[str]:
    """Yield a table with a line for each group, in the order of their first problems; with `whole` one for all."""
    groups: dict[str, list[Judged]] = {}
    for one in judged:
        groups.setdefault(by(one), []).append(one)
    lines = [(title, *HEAD), *((name, *row(of, pick)) for name, of in groups.items())]
    lines += [("all", *row(judged, pick))] if whole else []
    yield from columns(lines, frozenset(range(1, len(HEAD) + 1)))


def worst(judged: Sequence[Judged], pick: str, count: int = 10) -> Iterator[str]:
    """Yield the problems at which a pick loses most."""
    head = ("problem", "stratum", "loss", "us", "best us", "default us", "pick", "best")
    lines = [head]
    for one in sorted(judged, key=lambda one: -one.loss(pick))[:count]:
        times = (f"{one.us(c):.2f}" for c in (one.picks[pick], one.best, one.default))
        names = (str(one.picks[pick]) + (" (default)" if one.picks[pick] == one.default else ""), str(one.best))
        lines.append((f"{one.kernel} {one.problem}", one.stratum, percent(one.loss(pick)), *times, *names))
    yield from columns(lines, frozenset({2, 3, 4, 5}))
