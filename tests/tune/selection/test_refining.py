"""Weights of costs scaled for what they decide."""

import numpy as np
import pytest

from pretuned.tune.selection.refining import LEAST, scales

SIZES = np.geomspace(1, 1000, 60)
# The default takes 10 us for each call and 0.02 for each element; the other has less of the first, and a step at 100
# that no term of its cost knows, so that no weights fit its times everywhere.
DEFAULT = 10 + 0.02 * SIZES
OTHER = 4 + 0.022 * SIZES + np.where(SIZES < 100, 0.0, 7.0)
TIMES = np.stack([DEFAULT, OTHER], axis=1)
OWN = np.zeros(len(SIZES), dtype=np.int64)


def least_squares(times):
    """The weights of a constant and a slope with the least squares of relative errors."""
    terms = np.stack([np.ones_like(SIZES), SIZES], axis=1)
    return terms * np.linalg.lstsq(terms / times[:, None], np.ones_like(times), rcond=None)[0]


WORK = np.stack([least_squares(DEFAULT), least_squares(OTHER)])


def predicted(found):
    return np.einsum("cpk,ck->pc", WORK, found)


def loss(costs, times=TIMES):
    """What the choice of the least cost loses on average."""
    took = times[np.arange(len(times)), costs.argmin(axis=1)]
    return float((took / times.min(axis=1) - 1).mean())


def test_choices_lose_less():
    found = scales(WORK, TIMES, OWN)
    assert loss(predicted(found)) < 0.5 * loss(WORK.sum(axis=2).T)
    assert (found > 0).all()


def test_predictions_that_choose_well_stay_as_they_are():
    times = np.stack([DEFAULT, 4 + 0.05 * SIZES], axis=1)
    work = np.stack([least_squares(column) for column in times.T])
    costs = np.einsum("cpk,ck->pc", work, scales(work, times, OWN))
    assert loss(costs, times) < 0.001
    np.testing.assert_allclose(costs, times, rtol=0.05)


def test_a_loss_against_the_default_counts_more_than_a_gain_that_is_missed():
    generator = np.random.default_rng(0)
    disturbed = TIMES * np.exp(generator.normal(0, [0, 0.1], TIMES.shape))  # which no cost can know
    chosen = {own: predicted(scales(WORK, disturbed, np.full(len(SIZES), own))).argmin(axis=1) for own in (0, 1)}
    assert (chosen[0] == 0).sum() > (chosen[1] == 0).sum()


def test_what_never_ran_somewhere_decides_nothing_there():
    times = TIMES.copy()
    times[::2, 1] = np.nan
    elsewhere = np.where(np.isnan(times), 1e6, times)  # not a time, and never chosen
    kept = scales(WORK, times, OWN)
    assert np.isfinite(kept).all()
    assert loss(predicted(kept)[1::2], TIMES[1::2]) < loss(WORK.sum(axis=2).T[1::2], TIMES[1::2])
    assert not np.allclose(kept, scales(WORK, elsewhere, OWN))


@pytest.mark.parametrize("problems", ["few", "without the default"])
def test_where_too_little_is_decided_costs_stay_as_they_were_fitted(problems):
    if problems == "few":
        found = scales(WORK[:, : LEAST - 1], TIMES[: LEAST - 1], OWN[: LEAST - 1])
    else:
        found = scales(WORK, TIMES, np.full(len(SIZES), -1))
    np.testing.assert_array_equal(found, 1)
