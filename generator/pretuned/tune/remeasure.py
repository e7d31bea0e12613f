"""Measuring the rows of a lock again, on the device at hand and within seconds: winners against their defaults.

Nothing is searched. The winner of each row meets its default once more in an interleaved race, and is judged by the
default's results; a row that has only its default has that timed. A winner that seems slower than its default meets it
a second time.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from pretuned.compile.result import Binary
from pretuned.measure.rounds import Against
from pretuned.outcome import detail, kind
from pretuned.record.rows import Row
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs
from pretuned.tune.decision import TRUSTED_SEED, affordable
from pretuned.tune.drift import Drift, Verdict, judge
from pretuned.tune.race import race, ratio_interval
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
        task.request([choice.configuration for row in groups[key] for choice in (row.winner, row.default)])
    workbench.take_device(lambda: None)
    for key, task in tasks.items():
        for row in groups[key]:
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
    chosen = list(dict.fromkeys([default.configuration, winner.configuration]))
    estimates_us = [default.time_us, winner.time_us][: len(chosen)]
    rounds = affordable(task.workbench.device.profile.duel_rounds, estimates_us)
    task.noise.pop(row.problem, None)
    samples, failures = race(task, row.problem, chosen, estimates_us, rounds, Against(gain=0.0), judge=True)
    if failures or not samples:
        failure = failures.get(winner.configuration) or next(iter(failures.values()))
        return Drift(row=row, verdict=Verdict.FAILS, reason=f"{kind(failure)}: {detail(failure)}")
    return _compared(task, row, samples[winner.configuration], samples[default.configuration])


def _compared(task: TuningTask, row: Row, winner_us: Sequence[float], default_us: Sequence[float]) -> Drift:
    ratio = (1.0, 1.0) if len(row.choices) == 1 else ratio_interval(winner_us, default_us)
    verdict, reason = judge(row, statistics.median(winner_us), statistics.median(default_us), ratio)
    return Drift(
        row=row,
        verdict=verdict,
        reason=reason,
        winner_us=statistics.median(winner_us),
        default_us=statistics.median(default_us),
        ratio=ratio,
        recompiled=any(_digest(task, c.configuration) != c.cubin for c in (row.winner, row.default)),
        noise=task.noise.get(row.problem, ""),
    )


def _digest(task: TuningTask, configuration: Configuration) -> str:
    binary = task.binary(configuration)
    return binary.digest if isinstance(binary, Binary) else ""
