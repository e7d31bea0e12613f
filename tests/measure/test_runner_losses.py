"""A GPU process that is lost between requests, or that no fresh one brings back."""

from __future__ import annotations

import os
import signal

import pytest

from pretuned.errors import DeviceError
from pretuned.measure import runner
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, Verified
from pretuned.measure.runner import Runner
from pretuned.outcome import Crashed, TimedOut
from pretuned.spec import space
from pretuned.spec.space import Configuration
from specs import loaded

DIE, HANG, LOSE = 1, 2, 3


def entry(do=0):
    return CompiledCandidate(
        configuration=Configuration(implementation="main", values=(("do", do),)), image=b"", digest=f"{do}"
    )


@pytest.fixture
def prepare(tmp_path):
    spec = loaded(tmp_path)
    problem = next(space.problems(spec, next(space.specialisations(spec))))
    return PrepareRequest(spec=spec, problem=problem, default=entry())


@pytest.fixture
def gpu(prepare):
    with Runner("children:gpu", candidate_s=0.5) as found:
        assert found.prepare(prepare) is None
        yield found


@pytest.mark.parametrize(
    ("do", "failure"),
    [
        (DIE, Crashed(message="exit status 3")),
        (HANG, TimedOut(limit_s=0.5)),
        (LOSE, Crashed(message="CUDA_ERROR_ILLEGAL_ADDRESS")),
    ],
)
def test_verifying_a_bad_candidate(gpu, do, failure):
    assert gpu.verify(entry(do)) == Verified(failure=failure)
    assert gpu.verify(entry()) == Verified(failure=None)


@pytest.mark.parametrize(
    ("do", "failure"),
    [
        (DIE, Crashed(message="exit status 3")),
        (HANG, TimedOut(limit_s=0.3)),
        (LOSE, Crashed(message="CUDA_ERROR_ILLEGAL_ADDRESS")),
    ],
)
def test_a_race_with_a_bad_candidate_is_lost_as_a_whole(gpu, monkeypatch, do, failure):
    monkeypatch.setattr(runner, "RACE_S", 0.3)
    assert gpu.race((entry(), entry(do)), 5, estimates_us=(0, 0)) == failure
    assert gpu.replaced == 1
    assert gpu.race((entry(), entry()), 5, estimates_us=(0, 0)).failures == (None, None)


def test_what_an_earlier_candidate_broke_is_not_the_next_problems_fault(gpu, prepare):
    os.kill(gpu._child.pid, signal.SIGKILL)
    assert gpu.prepare(prepare) is None
    assert gpu.verify(entry()) == Verified(failure=None)
    assert gpu.replaced == 1


def test_closing_ends_the_process(gpu):
    pid = gpu._child.pid
    gpu.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_that_cannot_start_says_why():
    with Runner("no_such_module:serve") as gpu, pytest.raises(DeviceError) as error:
        _ = gpu.facts
    assert str(error.value) == (
        "GPU 0 cannot be used: exit status 1: ModuleNotFoundError: No module named 'no_such_module'"
    )
