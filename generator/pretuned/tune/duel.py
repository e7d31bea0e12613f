"""The duel: the leaders meet the default at several places, until it is sure which of them are faster.

Where buffers lie decides how their accesses spread over memory. Measured on an H100, what a kernel takes of its
default's time has a standard deviation of 0.3% over races at one place, and of up to 1.1% over places, alike whether a
place is new memory in one process or a new process (benchmarks/results/placement_h100.txt); where modules lie shows
nothing. So a duel goes on at one place after another. Each gives one observation for each candidate, the median over a
few rounds; the order of those observations decides (`pretuned.tune.ranking`).

A place is taken again where all of a race took several times what they took before: something else had the device then,
and who was ahead says nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from pretuned.measure.rounds import RunAll
from pretuned.measure.sampling import least_launches
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.events import Noisy
from pretuned.tune.race import RETAKES, ROUNDS_US, Conduct, Failures, race
from pretuned.tune.ranking import MIN_GAIN, Samples, shares_of
from pretuned.tune.task import TuningTask

LEAST_PLACES: Final = 6  # of which all have to agree: an interval of 95% needs as many
MOST_PLACES: Final = 9  # of which all but one have to agree
EXCUSED: Final = 1
FEW_PLACES: Final = 3  # whose median shows which candidates are far from a gain
HELD_UP: Final = 3.0  # of what was expected, at least, by all of a race: no clock is that slow, and no place that bad


def duel(
    task: TuningTask, problem: Problem, estimates_us: Mapping[Configuration, float], *, whole: bool = False
) -> tuple[list[Samples], Failures]:
    """Race candidates against the default, the first of them, at `problem`; return samples by place, or failures.

    A candidate leaves the duel once it cannot win it any more, unless it is to be fought as a `whole`. The last samples
    have those that stayed. What candidates left behind is judged at the first place. If the device stays held up,
    `task.noise` says so.
    """
    default, *others = estimates_us
    rounds = task.workbench.device.profile.duel_rounds
    found: list[Samples] = []
    retaken = 0
    while True:
        racing = {c: estimates_us[c] for c in [default, *others]}
        granted = int(ROUNDS_US / (LEAST_PLACES * least_launches(min(racing.values())) * sum(racing.values())))
        # The race was at place 0, whose favourites would win there again.
        samples, failures = race(
            task,
            problem,
            racing,
            max(1, min(rounds, granted)),
            RunAll(),
            Conduct(judge=not found, place=len(found) + 1),
        )
        if failures:
            return [], failures
        if reason := _held_up(samples, racing):
            if retaken < RETAKES:
                retaken += 1
                task.workbench.listen(Noisy(kernel=task.spec.name, problem=problem, reason=reason, attempt=retaken))
                continue
            task.noise[problem] = reason
        found.append(samples)
        shares = {c: shares_of(found, c, default) for c in others}
        if not whole:
            others = [c for c in others if not _lost(shares[c])]
        settled = whole or all(max(shares[c]) < 1 for c in others)
        if not others or len(found) == MOST_PLACES or (len(found) >= LEAST_PLACES and settled):
            return found, {}


def _held_up(samples: Samples, expected_us: Mapping[Configuration, float]) -> str:
    """Return what is odd about the times of a race, or nothing. No launch takes less than a microsecond."""
    least = min(statistics.median(times) / max(1.0, expected_us[c]) for c, times in samples.items())
    return f"everything took {least:.0f} times as long as before" if least >= HELD_UP else ""


def _lost(shares: Sequence[float]) -> bool:
    """Whether a candidate that has taken these shares of the default's time cannot win, or hardly can."""
    behind = sum(share >= 1 for share in shares)
    return behind > EXCUSED or (len(shares) >= FEW_PLACES and statistics.median(shares) > 1 - MIN_GAIN / 2)
