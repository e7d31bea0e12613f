"""What ships: what saves most together, the default always, guards or not."""

from __future__ import annotations

import itertools

import numpy as np

from pretuned.tune.selection.portfolio import CAP, choose, losses


def mean_of(lost, chosen):
    return lost[:, list(chosen)].min(axis=1).mean()


def test_the_set_is_near_the_best_of_all_sets():
    generator = np.random.default_rng(3)
    lost = losses(1 + generator.random((200, 9)) ** 2)
    found = choose(lost, np.ones(200), [4], 3, gain=0.0)
    best = min(mean_of(lost, (4, *others)) for others in itertools.combinations(range(9), 2))
    assert found[0] == 4
    assert len(set(found)) == 3
    assert mean_of(lost, found) <= 1.02 * best


def test_what_runs_at_half_of_the_problems_does_not_ship_alone():
    times = np.full((100, 3), np.nan)
    times[:, 0] = 4.0  # the default, slow everywhere
    times[:50, 1] = 1.0  # guarded
    times[50:, 2] = 2.0
    assert sorted(choose(losses(times), np.ones(100), [0], 8)) == [0, 1, 2]
    assert losses(times)[60].tolist() == [CAP, CAP, 0.0]


def test_what_gains_too_little_does_not_ship():
    times = np.tile([1.0, 0.9995, 0.9], (50, 1))
    assert choose(losses(times), np.ones(50), [0], 8) == [0, 2]


def test_problems_that_weigh_more_decide():
    times = np.array([[3.0, 1.0, 2.0], [3.0, 2.0, 1.0]])
    assert choose(losses(times), np.array([9.0, 1.0]), [0], 2) == [0, 1]
    assert choose(losses(times), np.array([1.0, 9.0]), [0], 2) == [0, 2]


def test_what_is_predicted_to_take_no_time_is_the_fastest():
    assert losses(np.array([[0.0, 1.0], [0.0, 0.0]])).tolist() == [[0.0, CAP], [0.0, 0.0]]


def test_a_problem_at_which_nothing_runs_counts_nothing():
    assert losses(np.array([[np.nan, np.inf], [1.0, 2.0]])).tolist() == [[0.0, 0.0], [0.0, 1.0]]
