"""Search strategies: what is proposed, in which order, and how soon the best is found."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from pretuned.exchange.replay import Recording, replay
from pretuned.strategies import BATCH, EVALUATIONS, EXHAUSTIVE_LIMIT, by_size
from pretuned.strategies.exhaustive import Exhaustive
from pretuned.strategies.hybrid import Hybrid, proposals
from pretuned.strategies.hybrid.surrogate import Surrogate
from pretuned.strategies.random_sample import RandomSample

DATA = Path(__file__).parents[1] / "data"


def made_up(seed, count=900, columns=5, failing=0.2):
    """A space of two implementations, with a slope, a cliff, an interaction and failures."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 6, (4 * count, columns + 1))
    codes[:, 0] %= 2
    codes[codes[:, 0] == 0, -1] = -1  # a parameter that only the second implementation has
    codes = generator.permutation(np.unique(codes, axis=0))[:count].astype(np.int16)
    times_us = np.exp(0.2 * np.abs(codes[:, 1] - 3) + 0.5 * (codes[:, 2] > 3) + 0.1 * codes[:, 1] * codes[:, 3] % 4)
    times_us *= 1 + 0.05 * codes[:, -1] + 0.02 * generator.random(len(codes))
    times_us[generator.random(len(codes)) < failing] = math.inf
    times_us[0] = 5.0
    return codes, times_us


def searched(strategy, codes, times_us):
    """Return the rows in the order in which they were proposed."""
    known, batches = {}, []
    while batch := strategy.propose(codes, known):
        assert known.keys().isdisjoint(batch)
        assert len(set(batch)) == len(batch)
        known.update((row, float(times_us[row])) for row in batch)
        batches.append(batch)
    return batches


def rows_of(batches):
    return [row for batch in batches for row in batch]


def test_small_spaces_are_tried_whole():
    codes = made_up(0)[0][:EXHAUSTIVE_LIMIT]
    strategy = by_size(len(codes), first=[7])
    assert isinstance(strategy, Exhaustive)
    assert strategy.propose(codes, {0: 1.0, 2: math.inf}) == [1, *range(3, len(codes))]
    assert strategy.propose(codes, dict.fromkeys(range(len(codes)), 1.0)) == []


def test_large_spaces_are_searched_from_the_given_configurations():
    codes, _ = made_up(0)
    first = by_size(len(codes), first=[7, 5, 0]).propose(codes, {})
    assert first[:3] == [0, 7, 5]
    assert len(first) == BATCH


def test_a_random_sample_is_the_same_again_and_holds_the_default():
    codes, times_us = made_up(0)
    batches = searched(RandomSample(len(codes), evaluations=100, seed=3), codes, times_us)
    assert batches == searched(RandomSample(len(codes), evaluations=100, seed=3), codes, times_us)
    assert batches[0][0] == 0
    assert sum(map(len, batches)) == 100
    assert batches != searched(RandomSample(len(codes), evaluations=100, seed=4), codes, times_us)
    assert len(searched(RandomSample(len(codes), evaluations=10**6), codes, times_us)) == math.ceil(len(codes) / BATCH)


def test_the_same_measurements_give_the_same_proposals():
    codes, times_us = made_up(1)
    batches = searched(Hybrid(len(codes), seed=1), codes, times_us)
    assert batches == searched(Hybrid(len(codes), seed=1), codes, times_us)
    assert batches != searched(Hybrid(len(codes), seed=2), codes, times_us)
    seen = rows_of(batches[:6])
    shuffled = {row: float(times_us[row]) for row in reversed(seen)}
    assert Hybrid(len(codes), seed=1).propose(codes, shuffled) == batches[6]


def test_a_search_spends_its_evaluations_and_no_more():
    codes, times_us = made_up(2)
    assert sum(map(len, searched(Hybrid(len(codes)), codes, times_us))) == EVALUATIONS
    batches = searched(Hybrid(len(codes), evaluations=50, batch=7), codes, times_us)
    assert sum(map(len, batches)) == 50
    assert max(map(len, batches)) <= 7
    few = searched(Hybrid(100), codes[:100], times_us)
    assert sorted(rows_of(few)) == list(range(100))


def test_rows_that_were_measured_for_other_reasons_count():
    codes, times_us = made_up(3)
    known = {row: float(times_us[row]) for row in range(1, 101)}
    strategy = Hybrid(len(codes), evaluations=150)
    proposed = strategy.propose(codes, known)
    assert proposed == [0]
    while proposed:
        known.update((row, float(times_us[row])) for row in proposed)
        proposed = strategy.propose(codes, known)
    assert len(known) == 150


@pytest.mark.parametrize("times", [dict.fromkeys(range(64), math.inf), dict.fromkeys(range(64), 2.0)])
def test_failures_alone_and_ties_alone_do_not_stop_a_search(times):
    codes, _ = made_up(4)
    proposed = Hybrid(len(codes)).propose(codes, times)
    assert len(proposed) >= BATCH // 2
    assert times.keys().isdisjoint(proposed)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    count=st.integers(2, 80),
    columns=st.integers(3, 5),
    batch=st.integers(1, 40),
    failing=st.floats(0, 1),
)
def test_whatever_the_space_every_row_is_proposed_once(seed, count, columns, batch, failing):
    codes, times_us = made_up(seed, count, columns, failing)
    batches = searched(Hybrid(len(codes), batch=batch, seed=seed), codes, times_us)
    assert batches[0][0] == 0
    assert sorted(rows_of(batches)) == list(range(len(codes)))


def test_a_region_of_failures_is_left_alone():
    shares = []
    for seed in range(5, 9):
        codes, times_us = made_up(seed, count=3000, failing=0.0)
        forbidden = codes[:, 2] + codes[:, 3] > 5
        times_us[forbidden] = math.inf
        times_us[0] = 5.0
        rows = rows_of(searched(Hybrid(len(codes)), codes, times_us))
        learned = rows[64 : EVALUATIONS // 2]
        shares.append(np.mean(forbidden[learned]) / np.mean(forbidden))
    assert np.mean(shares) < 0.7


def test_the_first_rows_are_spread_out():
    def nearest(rows, codes):
        """How many parameters the most alike of the rows differ in, the mean over them."""
        apart = (codes[rows][:, None] != codes[rows][None]).sum(axis=2) + 99 * np.eye(len(rows))
        return apart.min(axis=1).mean()

    spread, drawn = [], []
    for seed in range(8):
        codes, _ = made_up(seed, count=2000)
        spread.append(nearest(Hybrid(len(codes), seed=seed).propose(codes, {}), codes))
        drawn.append(nearest(RandomSample(len(codes), seed=seed).propose(codes, {}), codes))
    assert np.mean(spread) > 1.15 * np.mean(drawn)


def test_what_is_under_way_is_not_asked_again_and_its_time_decides_nothing():
    codes, times_us = made_up(7)
    strategy = Hybrid(len(codes))
    known = {row: float(times_us[row]) for row in range(64)}
    first = strategy.propose(codes, known)
    strategy.under_way = set(first)
    second = [strategy.propose(codes, known | dict.fromkeys(first, time_us)) for time_us in (0.001, 99.0)]
    assert second[0] == second[1]
    assert set(first).isdisjoint(second[0])
    strategy.under_way = set()
    assert strategy.propose(codes, known | dict.fromkeys(first, 0.001)) != second[0]


def test_a_batch_promises_what_its_rows_may_gain_and_less_the_more_is_known():
    promises = []
    for seed in range(4):
        codes, times_us = made_up(seed)
        strategy = Hybrid(len(codes), evaluations=len(codes))
        rows = rows_of(searched(Hybrid(len(codes)), codes, times_us))
        promises.append([])
        for count in (0, 64, 400):
            strategy.propose(codes, {row: float(times_us[row]) for row in rows[:count]})
            promises[-1].append(strategy.promise)
    none, early, late = map(np.mean, zip(*promises, strict=True))
    assert none == 0
    assert early > 0.01
    assert late < early / 5


def test_a_promise_does_not_depend_on_how_slow_a_kernel_is():
    codes, times_us = made_up(1)
    promises = []
    for factor in (1.0, 1000.0):
        strategy = Hybrid(len(codes))
        strategy.propose(codes, {row: factor * float(times_us[row]) for row in range(64)})
        promises.append(strategy.promise)
    assert promises[0] > 0
    assert promises[1] == pytest.approx(promises[0], rel=0.01)


def test_a_process_that_expects_rows_is_surer_of_them_and_expects_the_same():
    codes, times_us = made_up(8, failing=0.0)
    levels = codes[:, 1:5].astype(np.intp)
    model = Surrogate.fit(levels[:60], np.log(times_us[:60]), levels.max(axis=0) + 1)
    sure = model.expecting(levels[60:80])
    (mean, deviation), (same, less) = model.predict(levels[60:]), sure.predict(levels[60:])
    assert np.allclose(mean, same)
    assert (less[:20] < 0.8 * deviation[:20]).all()
    assert (less <= deviation + 1e-6).all()
    assert model.expecting(levels[:0]) is model


def test_only_the_last_batch_is_smaller_than_half():
    for evaluations in (200, 256, EVALUATIONS):
        codes, times_us = made_up(2, count=1500)
        sizes = list(map(len, searched(Hybrid(len(codes), evaluations=evaluations), codes, times_us)))
        assert sum(sizes) == evaluations
        assert min(sizes[:-1]) >= BATCH // 2


def test_what_is_to_be_tried_first_is_whatever_is_known():
    codes, _ = made_up(0)
    first = list(range(100, 124))
    assert Hybrid(len(codes), first=first).propose(codes, {5: 1.0})[:25] == [0, *first]


def test_parameters_of_many_values_do_not_slow_the_first_batch_down():
    codes = np.zeros((6000, 3), dtype=np.int16)
    codes[:, 1] = np.arange(6000)  # a table of all distances would take hundreds of megabytes
    codes[:, 2] = np.arange(6000) % 7
    tracemalloc.start()
    Hybrid(len(codes)).propose(codes, {})
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20_000_000


@pytest.mark.parametrize(
    "name", ["benchmark_hub/convolution_A100", "benchmark_hub/dedispersion_A4000", "h100/hgemm", "h100/skinny_gemm"]
)
@pytest.mark.parametrize("noise", [0.01, pytest.param(0.0, marks=pytest.mark.slow)])
def test_the_best_of_a_recorded_space_is_found(name, noise):
    recording = Recording.of_t4(DATA / f"{name}_T4.json.gz")

    def share(strategy, seed):
        search = strategy(len(recording.codes), seed=seed)
        return replay(recording, search, evaluations=EVALUATIONS, noise=noise, seed=seed).share(EVALUATIONS)

    shares = {strategy.__name__: [share(strategy, seed) for seed in range(5)] for strategy in (Hybrid, RandomSample)}
    assert np.mean(shares["Hybrid"]) > 0.985
    assert min(shares["Hybrid"]) >= 0.97
    assert np.mean(shares["Hybrid"]) > np.mean(shares["RandomSample"])


def test_strategies_import_where_numpy_is_not_installed():
    code = "import sys; sys.modules['numpy'] = None; from pretuned.strategies import by_size; by_size(9); by_size(999)"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


@pytest.mark.skipif(
    "openblas" not in str(np.show_config(mode="dicts")["Build Dependencies"]["blas"]), reason="NumPy has another BLAS"
)
def test_a_proposal_is_made_in_one_thread_and_leaves_the_number_as_it_was(monkeypatch):
    def counts():
        return [pool["num_threads"] for pool in threadpool_info() if pool["internal_api"] == "openblas"]

    def noting(*given):
        seen.append(counts())
        return propose(*given)

    propose, seen = proposals.propose, []
    monkeypatch.setattr(proposals, "propose", noting)
    codes, times_us = made_up(6)
    with threadpool_limits(limits=2):  # on whatever machine this runs
        before = counts()
        Hybrid(len(codes)).propose(codes, {row: float(times_us[row]) for row in range(64)})
        assert (seen, counts()) == ([[1] * len(before)], before)
    assert before == [2] * len(before) != []
