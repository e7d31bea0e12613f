"""Measuring the rows of a lock again, on the device at hand and within seconds: winners against their defaults.

Nothing is searched. The winner of each row meets its default in another duel, and is judged by the
default's results; a row that has only its default has that timed. A winner that seems slower than its default meets it
a second time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from pretuned.outcome import detail, kind
from pretuned.record.rows import Row
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Pairs
from pretuned.tune.drift import Drift, Verdict, judge
from pretuned.tune.duel import duel
from pretuned.tune.ranking import Samples, pooled
from pretuned.tune.soundness import TRUSTED_SEED
from pretuned.tune.task import TuningTask
from pretuned.tune.workbench import Workbench


def drifts(workbench: Workbench, rows: Sequence[Row], specs: Mapping[str, KernelSpec]) -> Iterator[Drift]:
    """Yield what became of each of `rows`."""
    workbench.binaries.start()
    workbench.runner.start()
    groups: dict[tuple[str, Pairs], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.kernel, row.specialisation), []).append(row)
    tasks = {
        (kernel, specialisation): TuningTask(workbench, specs[kernel], specialisation, [row.problem for row in group])
        for (kernel, specialisation), group in groups.items()
    }
    for key, task in tasks.items():
        task.sources.request([choice.configuration for row in groups[key] for choice in (row.winner, row.default)])
    workbench.take_device(lambda: None)
    done = itertools.count()
    for key, task in tasks.items():
        for row in groups[key]:
            task.report("measuring again", row.problem, next(done), len(rows))
            yield _drift(task, row)


def _drift(task: TuningTask, row: Row) -> Drift:
    refused = task.prepare(row.problem, TRUSTED_SEED, trust_default=True)
    if refused is not None:
        return Drift(row=row, verdict=Verdict.UNMEASURED, reason=refused.reason)
    found = _raced(task, row)
    if found.verdict is Verdict.SLOWER:  # one of hundreds of rows may seem so by chance, but not twice
        found = _raced(task, row)
    return found


def _raced(task: TuningTask, row: Row) -> Drift:
    default, winner = row.default, row.winner
    estimates_us = {choice.configuration: choice.time_us for choice in (default, winner)}
    task.noise.pop(row.problem, None)
    places, failures = duel(task, row.problem, estimates_us, whole=True)
    if failures:
        failure = failures.get(winner.configuration) or next(iter(failures.values()))
        return Drift(row=row, verdict=Verdict.FAILS, reason=f"{kind(failure)}: {detail(failure)}")
    return _compared(task, row, places)


def _compared(task: TuningTask, row: Row, places: Sequence[Samples]) -> Drift:
    winner, default = (pooled(places, c.configuration, row.default.configuration) for c in (row.winner, row.default))
    verdict, reason = judge(row, winner.time_us, default.time_us, winner.ratio)
    return Drift(
        row=row,
        verdict=verdict,
        reason=reason,
        winner_us=winner.time_us,
        default_us=default.time_us,
        ratio=winner.ratio,
        recompiled=any(task.sources.shipped(c.configuration)[0] != c.cubin for c in (row.winner, row.default)),
        noise=task.noise.get(row.problem, ""),
    )
