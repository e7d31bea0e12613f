"""What a tuning will take, before it starts: configurations, modules, seconds. Pure.

The seconds are an estimate from what the parts took on an H100 with 16 cores: they say whether a budget is near, no
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.tune.anchors import anchors
from pretuned.tune.contest import Contest
from pretuned.tune.screening import CARRIED
from pretuned.tune.search import EVALUATIONS, EXHAUSTIVE_LIMIT

COMPILE_S: Final = 0.3  # a module, on one core
SCREEN_S: Final = 0.0015  # a candidate at a problem
ROW_S: Final = 0.15  # races, duels and checks of a row
KERNEL_S: Final = 0.3  # inputs, references, the default


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one kernel at one specialisation takes: modules at most, candidates timed, seconds."""

    configurations: int
    modules: int
    screened: int
    seconds: float


def estimate(contest: Contest, rows: int, workers: int) -> Estimate:
    """Return what is ahead for `rows` rows of a contest."""
    count = len(contest.points)
    modules = count if count <= EXHAUSTIVE_LIMIT else EVALUATIONS
    searched = min(rows, len(anchors(contest.problems)))
    screened = modules * searched + CARRIED * (rows - searched)
    seconds = KERNEL_S + modules * COMPILE_S / workers + screened * SCREEN_S + rows * ROW_S
    return Estimate(configurations=count, modules=modules, screened=screened, seconds=seconds)


def share(estimates: Sequence[Estimate], left_s: float) -> float:
    """Return how many of the seconds that are left the first of `estimates` may take: by what each takes."""
    return left_s * estimates[0].seconds / sum(entry.seconds for entry in estimates)
