"""Costs refined for what they decide: which of a few configurations runs. Pure.

Fitted alone, each cost comes near to the times of its own configuration. What a call loses depends on something else:
where two of them are nearly as fast, an error of 3% picks the slower one, and where one is far behind, an error of 30%
does no harm. So the weights of all costs are scaled together, such that choices by them lose little at the problems
measured, while predictions stay near to the times.

A choice of the least cost has no slope. In its place every configuration is chosen with a share that falls as its cost
rises, exp(-log(cost) / TEMPERATURE) over the sum of all, and the expected loss is lowered: minimum risk training
(D. Smith and J. Eisner, Minimum Risk Annealing for Training Log-Linear Models, 2006), by Adam (D. Kingma and J. Ba,
2015). Weights are scaled by powers of e, so none becomes negative, and no term is added.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pretuned.tune.selection.fitting import COMPETITIVE
from pretuned.tune.selection.terms import Reals

TEMPERATURE: Final = 0.04  # costs that differ by so much are chosen in the ratio of e to 1
NEARNESS: Final = 1.0  # what the mean square of relative errors counts beside the expected loss
RELUCTANCE: Final = 2.0  # how much more a loss against the default counts than one against the best
MOST_LOST: Final = 1.0  # of the best time; what is lost beyond that counts no more
STEPS: Final = 150
STEP: Final = 0.03  # by which a weight's logarithm changes at once, about
LEAST: Final = 8  # problems, with fewer of which nothing is refined
_MEAN, _SQUARE, _TINY = 0.9, 0.999, 1e-9  # Adam's beta_1, beta_2 and epsilon


def scales(work_us: Reals, times_us: Reals, defaults: npt.NDArray[np.int64]) -> Reals:
    """Return by what to multiply each term of each configuration's cost: positive, (configurations, terms).

    `work_us` has what each term predicts at each problem: (configurations, problems, terms), 0 where there is none.
    `times_us` are the times measured: (problems, configurations), nan where one did not run. `defaults` has the place
    of each problem's default, -1 where it was not timed: there it runs whatever costs say.
    """
    found = np.zeros((len(work_us), work_us.shape[2]))
    known = np.isfinite(times_us) & (work_us.sum(axis=2).T > 0)
    decided = (defaults >= 0) & known[np.arange(len(known)), defaults] & (known.sum(axis=1) > 1)
    if decided.sum() < LEAST:
        return np.ones_like(found)
    known, times, work = known[decided], np.where(known, times_us, 1.0)[decided], work_us[:, decided]
    risk = _Risk(known, times, times[np.arange(len(times)), defaults[decided]])
    mean, square = np.zeros_like(found), np.zeros_like(found)
    for step in range(1, STEPS + 1):
        scaled = work * np.exp(found)[:, None]
        slope = np.einsum("pc,cpk->ck", risk.slope(scaled.sum(axis=2).T), scaled)
        mean = _MEAN * mean + (1 - _MEAN) * slope
        square = _SQUARE * square + (1 - _SQUARE) * slope**2
        found -= STEP * (mean / (1 - _MEAN**step)) / (np.sqrt(square / (1 - _SQUARE**step)) + _TINY)
    return np.exp(found)


class _Risk:
    """What predictions cost: the expected loss and the squares of their relative errors, in the mean over problems."""

    def __init__(self, known: npt.NDArray[np.bool_], times: Reals, defaults_took: Reals) -> None:
        self.known, self.times = known, times
        slowdown = times / np.where(known, times, np.inf).min(axis=1)[:, None] - 1
        against_default = np.maximum(times / defaults_took[:, None] - 1, 0)
        self.loss = np.minimum(slowdown + RELUCTANCE * against_default, MOST_LOST)
        self.counts = 1 / (1 + slowdown / COMPETITIVE)  # as when costs are fitted

    def slope(self, predicted: Reals) -> Reals:
        """Return the derivatives by each prediction."""
        predicted = np.where(self.known, predicted, 1.0)
        power = np.where(self.known, -np.log(predicted) / TEMPERATURE, -np.inf)
        shares = np.exp(power - power.max(axis=1)[:, None])
        shares /= shares.sum(axis=1)[:, None]
        expected = (shares * self.loss).sum(axis=1)[:, None]
        by_choice = shares * (expected - self.loss) / (TEMPERATURE * predicted)
        by_error = 2 * NEARNESS * self.counts**2 * (predicted / self.times - 1) / self.times
        found: Reals = np.where(self.known, by_choice + by_error, 0.0) / len(self.times)
        return found
