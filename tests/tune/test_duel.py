"""A winner is faster than the default wherever buffers lie: its duel goes on at one place after another."""

from __future__ import annotations

import dataclasses
import statistics

import pytest

from fake_runner import FakeRunner, fake_workbench
from pretuned.outcome import Crashed
from pretuned.spec.space import all_problems
from pretuned.tune.events import Failed, Noisy, Unconfirmed
from pretuned.tune.request import TuningRequest
from pretuned.tune.spending import Spending
from pretuned.tune.tuner import Tuner
from specs import loaded

BLOCKS = str(list(range(32, 257, 32)))


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path, ("[128, 256]", BLOCKS))


def tuned(spec, gpu, **given):
    problems = tuple(all_problems(spec))
    return list(Tuner(fake_workbench(gpu, **given)).tune([TuningRequest(spec=spec, problems=problems)]))


def share(gpu, row, places):
    """What the row's winner takes of its default's time in truth, the median over places."""
    dims = dict(row.problem.dims)
    winner, default = (dict(choice.configuration.values) for choice in (row.winner, row.default))
    times = [[gpu.time_us(c, dims) * gpu.factor(c, dims, place) for c in (winner, default)] for place in places]
    return statistics.median(one / other for one, other in times)


def slower(values, _dims):
    """Everything else takes 1.5% longer than the default."""
    return 10.0 if values == {"block": 256, "vec": 1} else 10.15


def test_what_is_faster_at_one_place_only_never_wins(spec):
    for places in range(10):
        gpu = FakeRunner(slower, bias=0.01, places=places)
        for row in tuned(spec, gpu):
            assert share(gpu, row, range(100, 160)) <= 1.01  # at places that the tuning never saw


def test_winners_of_two_tunings_agree(spec):
    def model(values, dims):
        """Within 3% of each other at the best width."""
        return dims["n"] / 1024 * 10 / values["vec"] ** 0.5 * (1 + values["block"] * 7 % 11 / 330)

    apart = []
    for places in range(0, 20, 2):
        rows = [tuned(spec, FakeRunner(model, bias=0.004, places=places + half)) for half in (0, 1)]
        for pair in zip(*rows, strict=True):
            times = [model(dict(row.winner.configuration.values), dict(row.problem.dims)) for row in pair]
            apart.append(max(times) / min(times) - 1)
    assert sum(one <= 0.01 for one in apart) >= 0.97 * len(apart)
    assert max(apart) <= 0.02


def test_a_clear_duel_ends_after_six_places(spec):
    for model, places in ((lambda values, _: 10 / values["vec"], 6), (slower, 1)):
        gpu, met = FakeRunner(model), []
        once = gpu.race
        gpu.race = lambda entries, rounds, met=met, once=once, **given: (
            met.append(given["place"]),
            once(entries, rounds, **given),
        )[1]
        tuned(spec, gpu)
        assert max(met) <= places


def test_who_is_ahead_at_some_places_only_is_reported(spec):
    events, spending = [], Spending()
    tuned(spec, FakeRunner(slower, bias=0.03), listen=events.append, spending=spending)
    lost = [event.candidates for event in events if isinstance(event, Unconfirmed)]
    assert sum(lost) == spending.unconfirmed > 0


@pytest.mark.parametrize(("held_up", "won"), [(2, {4}), (10**9, {1})])
def test_a_place_where_the_device_was_held_up_is_taken_again(spec, held_up, won):
    class Shared(FakeRunner):
        """Something else runs so many times at two of the places, and who is ahead there is turned around."""

        left = held_up

        def race(self, entries, rounds, *, place=0, **given):
            raced = super().race(entries, rounds, place=place, **given)
            if place not in {2, 3} or not self.left:
                return raced
            self.left -= 1
            times_us = tuple(tuple(1e3 - time_us for time_us in times) for times in raced.times_us)
            return dataclasses.replace(raced, times_us=times_us)

    def model(values, _dims):
        return 10.2 if values == {"block": 256, "vec": 1} else 10.0 if values == {"block": 256, "vec": 4} else 30.0

    events = []
    gpu = Shared(model)
    rows = tuned(spec, gpu, listen=events.append)
    assert {dict(row.winner.configuration.values)["vec"] for row in rows[:1]} == won
    assert [e.reason for e in events if isinstance(e, Noisy)][:1] == ["everything took 97 times as long as before"]
    assert bool(rows[0].noise) == (held_up > 2)


def test_a_candidate_that_crashes_at_another_place_loses(spec):
    class Fragile(FakeRunner):
        def race(self, entries, rounds, *, place=0, **given):
            self.crash = lambda values: place == 3 and values["vec"] == 4
            return super().race(entries, rounds, place=place, **given)

    events = []
    rows = tuned(spec, Fragile(lambda values, dims: 10 / values["vec"]), listen=events.append)
    assert {dict(row.winner.configuration.values)["vec"] for row in rows} == {2}
    assert Crashed(message="CUDA_ERROR_ILLEGAL_ADDRESS") in [e.failure for e in events if isinstance(e, Failed)]
