"""Whether more of a search is worth its price: from how the best came down, seconds, and calls."""

from __future__ import annotations

import math

import pytest

from pretuned.tune.prospects import BLURRED, PRIOR, SHRINKING, Prices, Prospects, worth_s


def noted(*steps):
    found = Prospects()
    for tried, time_us in steps:
        found.note(tried, math.log(time_us))
    return found


def test_less_is_expected_the_longer_ago_the_last_gain_was():
    fresh, stale = noted((32, 100.0), (64, 80.0)), noted((32, 100.0), (64, 80.0), (400, 80.0))
    assert fresh.expected(32) == pytest.approx(SHRINKING * (PRIOR + math.log(100 / 80)) / 2)
    assert 0 < stale.expected(32) < fresh.expected(32) / 5
    assert stale.expected(0) == 0


def test_a_small_gain_after_large_ones_does_not_end_what_is_expected():
    large, small = noted((32, 100.0), (64, 50.0)), noted((32, 100.0), (64, 50.0), (96, 49.5))
    assert small.expected(32) > large.expected(32) / 2
    assert noted((32, 100.0), (64, 99.0), (96, 98.0)).expected(32) < small.expected(32) / 2


def test_what_screening_may_err_by_is_no_gain():
    blurred = noted((32, 100.0), (64, 100.0 * (1 - BLURRED / 2)), (96, 100.0 * (1 - BLURRED / 2)))
    assert blurred.gained_at == 32
    assert blurred.gain == PRIOR


def test_gains_do_not_depend_on_how_slow_a_kernel_is():
    slow, quick = noted((32, 1e5), (64, 9e4)), noted((32, 10.0), (64, 9.0))
    assert slow.expected(32) == pytest.approx(quick.expected(32))


def test_compilers_work_while_candidates_are_measured():
    assert Prices(compile_s=3.0, workers=16, measure_s=0.01).of(32) == pytest.approx(6.0)
    assert Prices(compile_s=0.3, workers=16, measure_s=0.1).of(32) == pytest.approx(3.2)


@pytest.mark.parametrize(
    ("called_s", "seconds"), [(0.0, 600.0), (6.0, 600.0), (12.0, 1200.0), (1e6, 2400.0), (1e-3, 150.0)]
)
def test_calls_make_a_gain_worth_more_or_less_within_bounds(called_s, seconds):
    assert worth_s(600.0, called_s, 100.0) == pytest.approx(seconds)
