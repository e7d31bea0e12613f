"""What a tuning gained and cost, in words and as data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import choice, row
from pretuned.report.gains import Gains
from pretuned.spec.space import all_problems
from pretuned.tune.prospects import Searched
from pretuned.tune.spending import Spending
from specs import loaded


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


def timed(spec, problem, winner_us, default_us):
    made = row(spec, problem)
    first, default = made.choices
    return replace(made, choices=(replace(first, time_us=winner_us), replace(default, time_us=default_us)))


def spent(seconds, *searched):
    found = Spending(searched=list(searched))
    found.seconds["screening"] = seconds
    return found


SEARCHED = Searched(kernel="scale", specialisation=(), tried=448, of=9000, further=2000, gain=0.02, seconds=40.0)


def test_seconds_are_paid_back_by_what_calls_gain(spec):
    one, other, *_ = all_problems(spec)
    gains = Gains.of([timed(spec, one, 10.0, 20.0), timed(spec, other, 100.0, 130.0)], spent(2.0, SEARCHED))
    assert gains.faster == pytest.approx((2 * 1.3) ** 0.5)
    assert gains.calls == 100_000  # of 20 us less each
    assert list(gains.lines()) == [
        "gained: 2 rows, 1.61x as fast as with defaults (geometric mean)",
        f"paid back after 100,000 calls, of 20.00 us less each: from 66,667 (scale: {other}) to 200,000 (scale: {one})",
        "`--effort thorough` would try 2,000 further configurations in about 40 s, and is expected to gain 2.0%",
    ]
    assert gains.to_json() == {
        "seconds": 2.0,
        "rows": 2,
        "faster": 1.6125,
        "gained_us": 20.0,
        "calls": 100_000,
        "soonest": {"kernel": "scale", "problem": str(other), "gained_us": 30.0, "calls": 66_667},
        "latest": {"kernel": "scale", "problem": str(one), "gained_us": 10.0, "calls": 200_000},
        "thorough": {"configurations": 2000, "seconds": 40.0, "gain": 0.0202},
    }


def test_what_gains_nothing_is_never_paid_back(spec):
    made = row(spec, all_problems(spec)[0])
    alone = replace(made, choices=(choice(spec, made.problem, made.default.configuration, 10.0, (1.0, 1.0)),))
    gains = Gains.of([alone], spent(2.0))
    assert gains.calls is None
    assert list(gains.lines()) == ["gained: 1 row, 1.00x as fast as with defaults (geometric mean)"]
    assert gains.to_json()["soonest"] is None


def test_nothing_is_said_where_nothing_was_tuned():
    assert list(Gains.of([], spent(0.1)).lines()) == []


def test_more_effort_is_not_named_where_it_is_expected_to_add_nothing(spec):
    little = replace(SEARCHED, gain=0.0001)
    gains = Gains.of([timed(spec, all_problems(spec)[0], 10.0, 20.0)], spent(2.0, little))
    assert not any("thorough" in line for line in gains.lines())
