"""Measuring what a lock says again, on the device at hand and in seconds: winners against their defaults.

Nothing is searched. Of each row the winner meets its default once more in an interleaved race, and is judged by the
default's results; a row that has its default alone has it timed. A winner that seems slower than its default meets it
a second time.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pretuned.config import Where
from pretuned.measure.rounds import Against
from pretuned.outcome import detail, kind
from pretuned.record.rows import Row
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs
from pretuned.tune.drift import Drift, Verdict, judge
from pretuned.tune.events import Effort, Listener
from pretuned.tune.race import race, ratio_interval
from pretuned.tune.request import TuningDevice
from pretuned.tune.session import opened

if TYPE_CHECKING:
    from pretuned.tune.task import TuningTask
    from pretuned.tune.tuner import Tuner


def remeasure(
    rows: Sequence[Row],
    specs: Mapping[str, KernelSpec],
    target: TuningDevice,
    *,
    index: Where,
    cache_folder: Path | None,
    listen: Listener,
) -> Iterator[Drift]:
    """Yield what became of each of `rows`, which are the target's and hold by `specs`; waits for its turn.

    Compiled modules come from the cache; times never do. Raises what `pretuned.tune.session.tune` raises.
    """
    session = opened(target, index=index, cache_folder=cache_folder, effort=Effort(), listen=listen)
    with session as tuner:
        yield from drifts(tuner, rows, specs)


def drifts(tuner: Tuner, rows: Sequence[Row], specs: Mapping[str, KernelSpec]) -> Iterator[Drift]:
    """Yield what `tuner` finds of each of `rows`."""
    tuner.library.start()
    tuner.runner.start()
    groups: dict[tuple[str, Pairs], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.kernel, row.specialisation), []).append(row)
    contests = {key: _contest(tuner, specs[key[0]], group) for key, group in groups.items()}
    for key, contest in contests.items():
        contest.request([choice.configuration for row in groups[key] for choice in (row.winner, row.default)])
    tuner.turn(lambda: None)
    for key, contest in contests.items():
        for row in groups[key]:
            yield _drift(contest, row)


def _contest(tuner: Tuner, spec: KernelSpec, rows: Sequence[Row]) -> TuningTask:
    from pretuned.tune.task import TuningTask  # noqa: PLC0415 - it imports NumPy, which a build may have to ask for

    return TuningTask(tuner, spec, rows[0].specialisation, [row.problem for row in rows])


def _drift(contest: TuningTask, row: Row) -> Drift:
    from pretuned.tune.decision import TRUSTED_SEED  # noqa: PLC0415 - as above

    refused = contest.prepare(row.problem, TRUSTED_SEED, trust_default=True)
    if refused is not None:
        return Drift(row=row, verdict=Verdict.UNMEASURED, reason=refused.reason)
    found = _raced(contest, row)
    if found.verdict is Verdict.SLOWER:  # of hundreds of rows one may seem so by chance, but not twice
        found = _raced(contest, row)
    return found


def _raced(contest: TuningTask, row: Row) -> Drift:
    from pretuned.tune.decision import affordable  # noqa: PLC0415 - as above

    default, winner = row.default, row.winner
    chosen = list(dict.fromkeys([default.configuration, winner.configuration]))
    estimates_us = [default.time_us, winner.time_us][: len(chosen)]
    rounds = affordable(contest.tuner.target.pace.duel_rounds, estimates_us)
    contest.disturbed.pop(row.problem, None)
    samples, failures = race(contest, row.problem, chosen, estimates_us, rounds, Against(gain=0.0), judge=True)
    if failures or not samples:
        failure = failures.get(winner.configuration) or next(iter(failures.values()))
        return Drift(row=row, verdict=Verdict.FAILS, reason=f"{kind(failure)}: {detail(failure)}")
    return _compared(contest, row, samples[winner.configuration], samples[default.configuration])


def _compared(contest: TuningTask, row: Row, winner_us: Sequence[float], default_us: Sequence[float]) -> Drift:
    ratio = (1.0, 1.0) if len(row.choices) == 1 else ratio_interval(winner_us, default_us)
    verdict, reason = judge(row, statistics.median(winner_us), statistics.median(default_us), ratio)
    return Drift(
        row=row,
        verdict=verdict,
        reason=reason,
        winner_us=statistics.median(winner_us),
        default_us=statistics.median(default_us),
        ratio=ratio,
        recompiled=any(_digest(contest, c.configuration) != c.cubin for c in (row.winner, row.default)),
        disturbed=contest.disturbed.get(row.problem, ""),
    )


def _digest(contest: TuningTask, configuration: Configuration) -> str:
    return str(getattr(contest.binary(configuration), "digest", ""))
