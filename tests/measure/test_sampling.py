"""How many launches a candidate gets: samples long enough for an event, whatever the first launches took."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pretuned.measure import sampling

timing = pytest.importorskip("pretuned.measure.cuda.timing", reason="no CuPy here", exc_type=ImportError)
EVENT_US = 0.5  # what an event resolves
KERNEL = SimpleNamespace(most_calls=None)


class Scripted(timing.Timer):
    """A device on which launch number i takes `takes_us(i)`."""

    def __init__(self, takes_us):
        self.takes_us, self.launched, self.groups = takes_us, 0, []

    def _held(self, kernel, buffers, groups):
        self.groups.append(groups)
        times = []
        for count in groups:
            times.append(sum(self.takes_us(self.launched + i) for i in range(count)))
            self.launched += count
        return times, [0]


def screened(takes_us, best_us=float("inf"), count=50, restores=False):
    timer = Scripted(takes_us)
    samples, _, device_s = timer.screen(KERNEL, SimpleNamespace(count=count, restores=restores), best_us)
    return samples, timer, device_s


def test_a_kernel_that_begins_slowly_gets_samples_as_long_as_any():
    """Repetitions from cold launches, 40 us each, would stop at two of 2 us."""
    samples, timer, _ = screened(lambda launch: 40.0 if launch < 3 else 2.0)
    assert samples[-1] == pytest.approx(2.0)
    assert timer.groups[-1][0] * samples[-1] >= sampling.SCREEN_SAMPLE_US / 2


@pytest.mark.parametrize("time_us", [0.8, 2.0, 7.0, 25.0, 60.0, 900.0])
def test_samples_are_long_against_what_an_event_resolves(time_us):
    samples, timer, _ = screened(lambda _launch: time_us)
    assert samples[-1] == pytest.approx(time_us)
    last = timer.groups[-1][-1]
    assert last * time_us >= min(sampling.SCREEN_SAMPLE_US / 2, sampling.MAX_LAUNCHES * time_us)
    assert last * time_us > 30 * EVENT_US


def test_who_is_clearly_slower_gets_three_launches():
    samples, timer, device_s = screened(lambda _launch: 20.0, best_us=5.0)
    assert (samples, timer.launched) == ([20.0], 3)
    assert device_s == pytest.approx(60e-6)


def test_who_is_near_the_best_gets_samples_with_a_median():
    assert len(screened(lambda _launch: 5.2, best_us=5.0)[0]) == sampling.SAMPLES
    assert len(screened(lambda _launch: 7.0, best_us=5.0)[0]) == 1


class Late(timing.Timer):
    """A host that is late so many times; what it takes by then is in the time."""

    def __init__(self, late_us):
        super().__init__(machine=None, judge=None, stream=None)
        self.late_us = list(late_us)

    def _timed(self, parts):
        late_us = self.late_us.pop(0)
        return [10.0 + late_us] * len(parts), not late_us


@pytest.mark.parametrize(("late_us", "time_us"), [([0.0], 10.0), ([80.0, 0.0], 10.0), ([80.0, 5.0, 30.0], 15.0)])
def test_a_late_host_is_given_another_try_and_counts_least_where_it_always_was(late_us, time_us):
    buffers = SimpleNamespace(count=2, restores=False, cold=False)
    assert Late(late_us)._held(KERNEL, buffers, (1,)) == ([time_us], [0])


def test_in_out_arrays_have_one_launch_a_set():
    _, timer, _ = screened(lambda _launch: 1.0, count=2, restores=True)
    assert max(sum(groups) for groups in timer.groups) <= 2


@pytest.mark.parametrize(("time_us", "launches"), [(28_500.0, 1), (35_000.0, 1), (100_000.0, 1), (27_900.0, 2)])
def test_a_long_launch_tells_by_itself_and_a_new_best_is_launched_again(time_us, launches):
    samples, timer, device_s = screened(lambda _launch: time_us, best_us=28_000.0)
    assert timer.launched == launches
    assert samples == [time_us] * launches
    assert device_s == pytest.approx(launches * time_us / 1e6)


def test_what_is_much_faster_than_a_long_best_gets_samples_like_any_short_kernel():
    samples, timer, _ = screened(lambda _launch: 5.0, best_us=28_000.0)
    assert samples[-1] == pytest.approx(5.0)
    assert timer.groups[-1][-1] * 5.0 >= sampling.SCREEN_SAMPLE_US / 2


def test_the_first_launch_tells_what_is_far_from_a_long_best_alone():
    assert sampling.is_told(50_000.0, 28_000.0)
    assert not sampling.is_told(9_000.0, 3_000.0)  # a busy host may have seen its end that late
    assert not sampling.is_told(30_000.0, 28_000.0)
    assert not sampling.is_told(40.0, 28.0)  # a first launch takes many times as long as others there
    assert not sampling.is_told(40_000.0, float("inf"))


def test_races_of_long_launches_warm_nothing_up():
    def sample_us(_launches):
        raise AssertionError("no sample is taken before the race")

    assert sampling.raced(sample_us, 28_000.0, 60_000.0, 50) == 1
