"""The decision from samples: never slower than the default, ties to what was there first, nothing unreachable."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pretuned.spec.space import Configuration, Guards
from pretuned.tune import race
from pretuned.tune.race import ratio_interval


def configuration(number):
    return Configuration(implementation="main", values=(("block", number),))


DEFAULT, A, B, C = (configuration(number) for number in (0, 1, 2, 3))
FREE = Guards()
VEC = Guards(where=("n % 4 == 0",))


def flat(time_us, rounds=31):
    return [time_us * (1 + 0.001 * (index % 3)) for index in range(rounds)]


def test_the_interval_holds_the_true_ratio_nineteen_times_in_twenty():
    generator = random.Random(3)
    held = 0
    for _ in range(2000):
        base = [generator.gauss(100, 2) for _ in range(31)]
        times = [generator.gauss(90, 2) for _ in range(31)]
        low, high = ratio_interval(times, base)
        held += low <= 0.9 <= high
    assert held >= 0.95 * 2000


def test_what_slows_both_leaves_the_ratio_alone():
    drift = [1 + 0.5 * (index / 31) for index in range(31)]
    low, high = ratio_interval([9 * slow for slow in drift], [10 * slow for slow in drift])
    assert abs(low - 0.9) < 1e-9
    assert abs(high - 0.9) < 1e-9


def test_too_few_rounds_decide_nothing():
    assert ratio_interval([1.0] * 5, [2.0] * 5) == (0.0, float("inf"))
    assert ratio_interval([1.0] * 6, [2.0] * 6) == (0.5, 0.5)


def test_a_clear_winner_goes_before_the_default():
    ranked = race.rank({DEFAULT: flat(10), A: flat(8)}, {DEFAULT: FREE, A: FREE}, DEFAULT)
    assert [entry.configuration for entry in ranked] == [A, DEFAULT]
    assert ranked[0].ratio[1] < 0.81


def test_half_a_percent_is_not_enough():
    ranked = race.rank({DEFAULT: flat(10), A: flat(9.95)}, {DEFAULT: FREE, A: FREE}, DEFAULT)
    assert [entry.configuration for entry in ranked] == [DEFAULT]


def test_noise_is_not_enough():
    generator = random.Random(0)
    noisy = [8 if generator.random() < 0.5 else 14 for _ in range(31)]
    ranked = race.rank({DEFAULT: flat(10), A: noisy}, {DEFAULT: FREE, A: FREE}, DEFAULT)
    assert [entry.configuration for entry in ranked] == [DEFAULT]


def test_each_set_of_guards_keeps_its_fastest_until_one_without_guards():
    samples = {DEFAULT: flat(10), A: flat(6), B: flat(7), C: flat(8)}
    guards = {DEFAULT: FREE, A: VEC, B: FREE, C: Guards(align=(("x", 16),))}
    ranked = race.rank(samples, guards, DEFAULT)
    assert [entry.configuration for entry in ranked] == [A, B, DEFAULT]  # C runs only where B is faster


def test_near_ties_go_to_the_incumbent():
    samples = {DEFAULT: flat(10), A: flat(8), B: flat(8.02)}
    guards = dict.fromkeys(samples, FREE)
    assert race.rank(samples, guards, DEFAULT, [B])[0].configuration == B
    assert race.leaders(samples, guards, DEFAULT, [B]) == [B]
    assert race.leaders(samples, guards, DEFAULT) == [A]


def test_near_ties_behind_the_winner_go_to_those_that_hold_the_row():
    samples = {DEFAULT: flat(10), A: flat(6), B: flat(8), C: flat(8.02)}
    guards = {DEFAULT: FREE, A: VEC, B: FREE, C: FREE}
    assert race.leaders(samples, guards, DEFAULT) == [A, B]
    assert race.leaders(samples, guards, DEFAULT, [A, C, DEFAULT]) == [A, C]


def test_finalists_are_the_best_of_each_reachable_set_of_guards():
    times = {DEFAULT: 10.0, A: 6.0, B: 6.1, C: 9.0}
    guards = {DEFAULT: FREE, A: VEC, B: VEC, C: FREE}
    assert race.finalists(times, guards, DEFAULT) == [DEFAULT, A, B, C]
    guards = {DEFAULT: FREE, A: FREE, B: VEC, C: VEC}
    assert race.finalists(times, guards, DEFAULT) == [DEFAULT, A]
    assert race.finalists(times, guards, DEFAULT, incumbents=[C]) == [DEFAULT, C, A]


@given(st.lists(st.lists(st.floats(1, 100), min_size=31, max_size=31), min_size=1, max_size=4))
def test_whoever_is_ranked_beats_the_default_with_confidence(columns):
    configurations = [DEFAULT, A, B, C][: len(columns)]
    samples = dict(zip(configurations, columns, strict=True))
    guards = dict(zip(configurations, (FREE, VEC, FREE, VEC), strict=False))
    ranked = race.rank(samples, guards, DEFAULT)
    assert ranked[-1].configuration == DEFAULT
    for entry in ranked[:-1]:
        assert ratio_interval(samples[entry.configuration], samples[DEFAULT])[1] < 1 - race.MIN_GAIN
