"""The decision from samples: never slower than the default, ties to what was there first, nothing unreachable."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretuned.spec.guards import Guards
from pretuned.spec.space import Configuration
from pretuned.tune import ranking
from pretuned.tune.ranking import ratio_interval


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


def ranked(samples, guards=None, incumbents=(), places=6):
    """The configurations of the ranked choices, of samples that are alike at every place."""
    found = ranking.rank([samples] * places, guards or dict.fromkeys(samples, FREE), DEFAULT, incumbents)
    assert found[-1].configuration == DEFAULT
    return [entry.configuration for entry in found[:-1]]


def test_a_clear_winner_goes_before_the_default():
    assert ranked({DEFAULT: flat(10), A: flat(8)}) == [A]
    (entry, _) = ranking.rank([{DEFAULT: flat(10), A: flat(8)}] * 6, {DEFAULT: FREE, A: FREE}, DEFAULT)
    assert entry.ratio[1] < 0.81
    assert entry.time_us == pytest.approx(8.01, rel=0.01)


def test_half_a_percent_is_not_enough():
    assert ranked({DEFAULT: flat(10), A: flat(9.95)}) == []
    assert ranked({DEFAULT: flat(10), A: flat(9.9)}) == [A]


def test_five_places_are_not_enough():
    assert ranked({DEFAULT: flat(10), A: flat(8)}, places=5) == []


@pytest.mark.parametrize(("shares", "wins"), [([0.9] * 6, True), ([0.9] * 5 + [1.1], False), ([0.9] * 8 + [1.1], True)])
def test_a_winner_is_faster_at_six_places_or_at_all_of_nine_but_one(shares, wins):
    places = [{DEFAULT: flat(10), A: flat(10 * share)} for share in shares]
    found = ranking.rank(places, {DEFAULT: FREE, A: FREE}, DEFAULT)
    assert (found[0].configuration == A) is wins


def test_who_left_the_duel_early_is_out():
    places = [{DEFAULT: flat(10), A: flat(8), B: flat(7)}, *[{DEFAULT: flat(10), A: flat(8)}] * 5]
    assert [one.configuration for one in ranking.faster(places, DEFAULT)] == [A]


def test_each_set_of_guards_keeps_its_fastest_until_one_without_guards():
    samples = {DEFAULT: flat(10), A: flat(6), B: flat(7), C: flat(8)}
    guards = {DEFAULT: FREE, A: VEC, B: FREE, C: Guards(align=(("x", 16),))}
    assert ranked(samples, guards) == [A, B]  # C runs only where B is faster


def test_near_ties_go_to_the_incumbent_then_to_the_first_in_order():
    samples = {DEFAULT: flat(10), A: flat(8.03), B: flat(8.02), C: flat(8)}
    assert ranked(samples) == [A]
    assert ranked(samples, incumbents=[B]) == [B]
    assert ranked(samples, {DEFAULT: FREE, A: VEC, B: FREE, C: FREE}) == [A, B]


def test_near_ties_behind_the_winner_go_to_those_that_hold_the_row():
    samples = {DEFAULT: flat(10), A: flat(6), B: flat(8), C: flat(8.02)}
    guards = {DEFAULT: FREE, A: VEC, B: FREE, C: FREE}
    assert ranked(samples, guards) == [A, B]
    assert ranked(samples, guards, [A, C]) == [A, C]


def test_whoever_is_near_the_fastest_duels():
    samples = {DEFAULT: flat(10), A: flat(8), B: flat(8.1), C: flat(8.3)}
    guards = dict.fromkeys(samples, FREE)
    assert ranking.leaders(samples, guards, DEFAULT) == [A, B]
    assert ranking.leaders(samples, guards, DEFAULT, [C]) == [C, A, B]
    assert ranking.leaders(samples, guards | {C: VEC}, DEFAULT) == [A, B]
    assert ranking.leaders(samples, guards | {A: VEC}, DEFAULT) == [A, B]
    assert ranking.leaders({DEFAULT: flat(10), A: flat(10.1)}, {DEFAULT: FREE, A: VEC}, DEFAULT) == []


def test_finalists_are_the_best_of_each_reachable_set_of_guards():
    times = {DEFAULT: 10.0, A: 6.0, B: 6.1, C: 9.0}
    guards = {DEFAULT: FREE, A: VEC, B: VEC, C: FREE}
    assert ranking.finalists(times, guards, DEFAULT) == [DEFAULT, A, B, C]
    guards = {DEFAULT: FREE, A: FREE, B: VEC, C: VEC}
    assert ranking.finalists(times, guards, DEFAULT) == [DEFAULT, A, B]  # screening may err by so much
    assert ranking.finalists(times, guards, DEFAULT, incumbents=[C]) == [DEFAULT, C, A, B]
    assert ranking.finalists(times | {B: 6.3}, guards, DEFAULT) == [DEFAULT, A]


@given(st.lists(st.lists(st.floats(1, 100), min_size=9, max_size=9), min_size=1, max_size=4))
def test_whoever_is_ranked_beats_the_default_with_confidence(columns):
    configurations = [DEFAULT, A, B, C][: len(columns)]
    places = [dict(zip(configurations, ([time] for time in row), strict=True)) for row in zip(*columns, strict=True)]
    guards = dict(zip(configurations, (FREE, VEC, FREE, VEC), strict=False))
    found = ranking.rank(places, guards, DEFAULT)
    assert found[-1].configuration == DEFAULT
    samples = dict(zip(configurations, columns, strict=True))
    for entry in found[:-1]:
        assert ratio_interval(samples[entry.configuration], samples[DEFAULT])[1] < 1
        assert entry.share < 0.9925
