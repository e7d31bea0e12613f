"""How many rounds a race has."""

from __future__ import annotations

from pretuned.tune import race


def test_rounds_are_bounded_also_where_a_prediction_says_that_nothing_is_taken():
    rounds = race.affordable(31, [0.0, 0.0])
    assert race.LEAST_ROUNDS <= rounds <= 31
