"""The GPU behind a process: whatever a candidate does to it is an outcome, and the next one finds it ready."""

from __future__ import annotations

import pytest

from pretuned.errors import DeviceError
from pretuned.measure.requests import Entry, Prepare, Raced, Screened, TooLarge, Verified
from pretuned.measure.runner import Runner, TuningError
from pretuned.outcome import Crashed, Timed, TimedOut
from pretuned.spec import space
from pretuned.spec.space import Configuration
from specs import loaded

DIE, HANG, LOSE = 1, 2, 3


def entry(do=0):
    return Entry(configuration=Configuration(implementation="main", values=(("do", do),)), image=b"")


@pytest.fixture
def prepare(tmp_path):
    spec = loaded(tmp_path)
    problem = next(space.problems(spec, next(space.specialisations(spec))))
    return lambda seed=0: Prepare(spec=spec, problem=problem, default=entry(), seed=seed)


@pytest.fixture
def gpu(prepare):
    with Runner("children:gpu", candidate_s=0.5) as found:
        assert found.prepare(prepare()) is None
        yield found


def test_a_right_candidate(gpu):
    assert gpu.verify(entry()) == Verified(failure=None)
    assert gpu.screen(entry()).outcome == Timed(time_us=1.0, spread=0.0, samples=3)
    assert isinstance(gpu.race((entry(), entry()), 5), Raced)
    assert gpu.replaced == 0


@pytest.mark.parametrize(
    ("do", "outcome"),
    [
        (DIE, Crashed(message="exit status 3")),
        (HANG, TimedOut(limit_s=0.5)),
        (LOSE, Crashed(message="CUDA_ERROR_ILLEGAL_ADDRESS")),
    ],
)
def test_a_bad_candidate_is_an_outcome_and_the_next_is_measured(gpu, do, outcome):
    assert gpu.screen(entry(do)) == Screened(outcome=outcome, verify_s=0.0, time_s=0.0)
    assert gpu.replaced == 1
    assert isinstance(gpu.screen(entry()).outcome, Timed)  # the fresh child has prepared the problem


def test_a_problem_that_does_not_fit(gpu, prepare):
    assert gpu.prepare(prepare(seed=7)) == TooLarge(reason="too large")


def test_a_failing_reference_ends_the_tuning(gpu, prepare):
    with pytest.raises(TuningError) as error:
        gpu.prepare(prepare(seed=8))
    assert str(error.value) == "scale: reference.py:f failed: ValueError: no"


def test_a_device_that_cannot_be_opened():
    with Runner("children:gpu", 9) as gpu, pytest.raises(DeviceError) as error:
        _ = gpu.facts
    assert str(error.value) == "GPU 9 cannot be used: no such device"
