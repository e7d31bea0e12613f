"""Races go on only as long as something is undecided."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pretuned.measure.rounds import LEAST, Cut, RunAll

TIMES = st.lists(st.floats(1, 100), min_size=LEAST, max_size=40)


def test_who_is_always_slower_is_cut_and_who_was_once_as_fast_is_not():
    leader, near, far = [10.0] * LEAST, [10.2] * (LEAST - 1) + [10.0], [10.2] * LEAST
    assert Cut(slack=0.005).going([leader, near, far]) == [0, 1]


def test_nobody_is_cut_before_there_are_enough_rounds():
    assert Cut(slack=0.005).going([[10.0] * (LEAST - 1), [99.0] * (LEAST - 1)]) == [0, 1]


def test_a_race_with_one_runner_left_is_over():
    assert Cut(slack=0.005).going([[10.0] * LEAST, [11.0] * LEAST, [9.0] * (LEAST - 2)]) == []


@given(samples=st.lists(st.floats(1, 100), min_size=1, max_size=8).map(lambda base: [[t] * LEAST for t in base]))
def test_the_fastest_is_never_cut(samples):
    going = Cut(slack=0.005).going(samples)
    fastest = min(range(len(samples)), key=lambda index: (samples[index][0], index))
    assert not going or fastest in going


def test_everyone_runs_on():
    assert RunAll().going([[1.0] * 99, [2.0] * 99]) == [0, 1]
