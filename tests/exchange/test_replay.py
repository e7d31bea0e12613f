"""Recorded spaces as devices: what a strategy is told, and what its pick is worth."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from pretuned.errors import Error
from pretuned.exchange import t4
from pretuned.exchange.replay import Recording, replay
from pretuned.exchange.results import CORRECT, Results
from pretuned.strategies import StrategyError

HUB = Path(__file__).parents[1] / "data" / "benchmark_hub"
SAMPLES = [[8.0, 8.0], [], [4.0, 4.2], [5.0, 1.0], [2.0, 2.0]]
RESULTS = Results.of(
    [
        {"vec": 4, "T": "half"},
        {"vec": 1, "T": "half"},
        {"vec": 2, "T": "float"},
        {"vec": 16, "T": "float"},
        {"vec": 1, "T": "float"},
    ],
    [8.0, math.inf, 4.1, 3.0, 2.0],
    [CORRECT, "runtime", CORRECT, CORRECT, CORRECT],
    SAMPLES,
)


class Scripted:
    """Proposes what it was given, and keeps what it was told."""

    def __init__(self, *batches):
        self.batches = list(batches)
        self.told = []

    def propose(self, codes, times_us):
        self.told.append(dict(times_us))
        return self.batches.pop(0) if self.batches else []


def test_codes_are_places_among_sorted_values():
    recording = Recording.of(RESULTS)
    assert recording.names == ("vec", "T")
    assert recording.codes.tolist() == [[0, 2, 1], [0, 0, 1], [0, 1, 0], [0, 3, 0], [0, 0, 0]]
    assert recording.codes.dtype == np.int16
    assert recording.best_us == 2.0


def test_a_replay_tells_times_and_judges_the_pick():
    strategy = Scripted([0, 1], [3], [2, 4])
    trace = replay(Recording.of(RESULTS), strategy, evaluations=4)
    assert strategy.told == [{}, {0: 8.0, 1: math.inf}, {0: 8.0, 1: math.inf, 3: 3.0}]
    assert trace.rows == (0, 1, 3, 2)
    assert trace.batches == (2, 1, 2)
    assert trace.shares.tolist() == [0.25, 0.25, 2 / 3, 2 / 3]
    assert trace.share(1) == 0.25
    assert trace.share(400) == 2 / 3


def test_what_only_looks_best_is_worth_its_true_time():
    recording = Recording.of(RESULTS)
    picks = set()
    for seed in range(20):  # row 3 has a sample of 1.0, and a median of 3.0
        picks.add(replay(recording, Scripted([3, 4]), evaluations=2, noise=None, seed=seed).share(2))
    assert picks == {2 / 3, 1.0}
    noisy = [replay(recording, Scripted([2, 3]), evaluations=2, noise=0.5, seed=seed).share(2) for seed in range(20)]
    assert len(set(noisy)) > 1
    assert noisy == [
        replay(recording, Scripted([2, 3]), evaluations=2, noise=0.5, seed=seed).share(2) for seed in range(20)
    ]


def test_a_row_proposed_twice_is_an_error_of_the_strategy():
    with pytest.raises(StrategyError, match="Scripted proposed row 0, which has a time already"):
        replay(Recording.of(RESULTS), Scripted([0], [0]), evaluations=3)


def test_of_a_configuration_that_stands_twice_the_first_counts():
    twice = Results.of([{"b": 1}, {"b": 2}, {"b": 1}], [3.0, 2.0, 1.0], [CORRECT] * 3)
    assert Recording.of(twice).times_us.tolist() == [3.0, 2.0]


def test_the_recorded_spaces_read_as_recordings():
    recording = Recording.of_t4(HUB / "convolution_A100_T4.json.gz")
    assert recording.codes.shape == (4362, 11)
    assert recording.samples_us.shape == (4362, 8)
    assert np.isinf(recording.times_us).sum() == 161


def test_what_holds_no_time_is_no_recording(tmp_path):
    path = tmp_path / "failed_T4.json"
    t4.write(path, Results.of([{"b": 1}], [math.inf], ["compile"]))
    with pytest.raises(Error, match="holds no configuration that has a time"):
        Recording.of_t4(path)
    cache = tmp_path / "cache.json"
    cache.write_text('{"tune_params_keys": ["b"], "cache": {"1": {"b": 1, "time": 0.5},')
    assert Recording.of_kernel_tuner(cache).times_us.tolist() == [500.0]


def test_noise_from_samples_needs_samples():
    with pytest.raises(ValueError, match="kept no samples"):
        replay(Recording.of(Results.of([{"b": 1}], [1.0], [CORRECT])), Scripted([0]), evaluations=1, noise=None)
