"""The clock that owns every deadline of a tuning."""

from __future__ import annotations

import time

import pytest

from pretuned.tune.workbench import Clock


@pytest.fixture
def at(monkeypatch):
    """Sets what time it is."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def move(seconds):
        now[0] += seconds

    return move


def test_a_budget_is_over_when_it_is_spent(at):
    clock = Clock(10.0)
    at(10.0)
    assert (clock.spent_s, clock.over) == (10.0, False)
    at(0.5)
    assert clock.over


def test_waiting_for_the_device_costs_nothing(at):
    clock = Clock(10.0)
    with clock.stopped():
        at(1000.0)
    assert (clock.spent_s, clock.over) == (0.0, False)


def test_screening_gets_six_tenths_of_its_tasks_share(at):
    clock = Clock(100.0)
    at(20.0)
    clock.begin_screening(share=0.5)
    assert clock.screening_left_s == pytest.approx(24.0)  # of 80 s that are left, half, and of that 0.6
    at(23.0)
    assert not clock.late
    at(1.5)
    assert clock.late
    assert not clock.over


def test_a_selection_gets_two_tenths_and_what_its_screening_left(at):
    clock = Clock(100.0)
    clock.begin_screening(share=0.5)  # 30 s of 50
    at(10.0)
    clock.begin_selecting()
    assert clock.screening_left_s == pytest.approx(20.0 + 10.0)
    at(90.0)
    clock.begin_screening(share=1.0)  # nothing is left of the budget
    clock.begin_selecting()
    assert clock.late


def test_without_a_budget_nothing_ends(at):
    clock = Clock()
    clock.begin_screening(share=1.0)
    at(1e6)
    assert (clock.over, clock.late, clock.screening_left_s) == (False, False, None)
