"""Whether more of a search is worth its price: from what it found, what its strategy promises, seconds, and calls."""

from __future__ import annotations

import math

import pytest

from pretuned.tune.prospects import FIRST, KEPT, SPAN, Prices, Prospects, worth_s

EVENLY = [math.exp(at / 40) for at in range(41)]  # times whose logarithms lie between 0 and 1


def test_less_is_expected_the_more_was_tried():
    early, late = Prospects(tried=31, spread=0.5), Prospects(tried=127, spread=0.5)
    assert early.expected(32) == pytest.approx(SPAN * 0.5 * (1 / 32 - 1 / 64))
    assert 0 < late.expected(32) < early.expected(32) / 8
    assert early.expected(0) == 0
    assert early.expected(10**9) == pytest.approx(SPAN * 0.5 / 32)


def test_less_is_expected_where_times_are_much_alike():
    apart, alike = Prospects.of([EVENLY], 0.0), Prospects.of([[time**0.1 for time in EVENLY]], 0.0)
    assert apart.spread == pytest.approx(0.4)
    assert alike.expected(32) == pytest.approx(apart.expected(32) / 10)


def test_what_a_strategy_promises_is_expected_in_part():
    none, some = Prospects.of([EVENLY], 0.0), Prospects.of([EVENLY], 0.04)
    assert some.expected(32) == pytest.approx(none.expected(32) + KEPT * 0.04)
    assert some.expected(0) == 0


def test_what_a_search_found_once_it_learned_does_not_count_as_spread():
    drawn = (EVENLY * 2)[:FIRST]
    for found in (math.exp(-3), math.exp(0.5), math.inf):
        searched = Prospects.of([drawn + [found] * 100], 0.0)
        assert searched.tried == FIRST + 100
        assert searched.spread == Prospects.of([drawn], 0.0).spread


def test_neither_failures_nor_the_slow_count_as_spread():
    failing, slow = Prospects.of([[math.inf, *EVENLY]], 0.0), Prospects.of([[*EVENLY[:-1], 1e9]], 0.0)
    assert failing.tried == len(EVENLY) + 1
    assert failing.spread == slow.spread == pytest.approx(0.4)


def test_nothing_is_known_of_a_search_without_times():
    assert Prospects.of([], 0.0).expected(32) == 0
    assert Prospects.of([[math.inf], [3.0]], 0.0).expected(32) == 0


def test_gains_do_not_depend_on_how_slow_a_kernel_is():
    slow, quick = Prospects.of([[1e4 * time for time in EVENLY]], 0.0), Prospects.of([EVENLY], 0.0)
    assert slow.expected(32) == pytest.approx(quick.expected(32))


def test_the_spread_is_the_mean_over_problems():
    both = Prospects.of([EVENLY, [time**2 for time in EVENLY]], 0.0)
    assert both.spread == pytest.approx((0.4 + 0.8) / 2)


def test_compilers_work_while_candidates_are_measured():
    assert Prices(compile_s=3.0, workers=16, measure_s=0.01).of(32) == pytest.approx(6.0)
    assert Prices(compile_s=0.3, workers=16, measure_s=0.1).of(32) == pytest.approx(3.2)


@pytest.mark.parametrize(
    ("called_s", "seconds"), [(0.0, 600.0), (6.0, 600.0), (12.0, 1200.0), (1e6, 2400.0), (1e-3, 150.0)]
)
def test_calls_make_a_gain_worth_more_or_less_within_bounds(called_s, seconds):
    assert worth_s(600.0, called_s, 100.0) == pytest.approx(seconds)
