"""The GPU behind a process: whatever a candidate does to it is an outcome, and the next one finds it ready."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from children import ENDLESS, FATAL, NOTED
from pretuned.errors import DeviceError
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, Raced, TooLarge, Verified
from pretuned.measure.runner import Runner, TuningError
from pretuned.outcome import Crashed, Timed, TimedOut
from pretuned.spec import space
from pretuned.spec.space import Configuration
from specs import loaded

DIE, HANG, LOSE = 1, 2, 3
TIMED = Timed(time_us=1.0, spread=0.0, samples=3)


def entry(do=0):
    return CompiledCandidate(
        configuration=Configuration(implementation="main", values=(("do", do),)), image=b"", digest=f"{do}"
    )


@pytest.fixture
def prepare(tmp_path):
    spec = loaded(tmp_path)
    problem = next(space.problems(spec, next(space.specialisations(spec))))
    return lambda seed=0: PrepareRequest(spec=spec, problem=problem, default=entry(), seed=seed)


@pytest.fixture
def gpu(prepare):
    with Runner("children:gpu", candidate_s=0.5) as found:
        assert found.prepare(prepare()) is None
        yield found


def test_a_right_candidate(gpu):
    assert gpu.verify(entry()) == Verified(failure=None)
    assert [found.outcome for found in gpu.screen([entry(), entry()])] == [TIMED, TIMED]
    assert isinstance(gpu.race((entry(), entry()), 5, estimates_us=(1, 1)), Raced)
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
    found = list(gpu.screen([entry(), entry(do), entry()]))  # the fresh child has prepared the problem
    assert [screened.outcome for screened in found] == [TIMED, outcome, TIMED]
    assert gpu.replaced == 1


def test_a_candidate_gets_no_more_time_than_it_is_given(gpu):
    (screened,) = gpu.screen([entry(HANG)], limit_s=0.1)
    assert screened.outcome == TimedOut(limit_s=0.1)


def test_a_spare_child_takes_over(prepare):
    with Runner("children:gpu", candidate_s=0.5, spares=1) as gpu:
        gpu.prepare(prepare())
        list(gpu.screen([entry()]))
        (spare,) = gpu._spares
        assert spare.alive
        assert [screened.outcome for screened in gpu.screen([entry(DIE), entry()])][1] == TIMED
        assert gpu._child is spare
    assert not spare.alive


def test_an_image_goes_over_once(gpu):
    large = CompiledCandidate(configuration=entry().configuration, image=b"cubin", digest="c")
    assert gpu._once(large) == large
    assert gpu._once(large).image == b""
    list(gpu.screen([entry(DIE)]))
    gpu.verify(entry())
    assert gpu._once(large) == large


def test_a_problem_that_does_not_fit(gpu, prepare):
    assert gpu.prepare(prepare(seed=7)) == TooLarge(reason="too large")


def test_a_failing_reference_ends_the_tuning(gpu, prepare):
    with pytest.raises(TuningError) as error:
        gpu.prepare(prepare(seed=8))
    assert str(error.value) == "scale: reference.py:f failed: ValueError: no"


def test_a_reference_that_never_returns_ends_the_tuning_and_is_not_asked_again(gpu, prepare):
    gpu.prepare_s = 1.0
    began = time.monotonic()
    with pytest.raises(TuningError, match=r"^scale: its inputs and references were not made within 1 s at n=\d+"):
        gpu.prepare(prepare(seed=ENDLESS))
    assert time.monotonic() - began < 10
    assert gpu.replaced == 1


def test_a_default_that_never_returns_where_it_is_the_reference_is_named_and_not_waited_for_long(
    gpu, prepare, monkeypatch
):
    monkeypatch.setattr("pretuned.measure.runner.BY_DEFAULT_S", 1.0)
    began = time.monotonic()
    with pytest.raises(
        TuningError, match=r"and the default's results, which are the reference here, .* within 1 s at n="
    ):
        gpu.prepare(replace(prepare(seed=ENDLESS), trust_default=True))
    assert time.monotonic() - began < 10


@pytest.fixture
def lent(tmp_path):
    """A problem of a spec whose references the machine computes."""
    edit = ("[verify]\n", '[verify]\ngpu-reference = "reference.py:scale"\n')
    spec = loaded(tmp_path, edit)
    problem = next(space.problems(spec, next(space.specialisations(spec))))
    return lambda seed: PrepareRequest(spec=spec, problem=problem, default=entry(), seed=seed)


def test_a_reference_of_the_machine_that_ends_its_process_is_left_to_numpy(gpu, lent):
    assert gpu.prepare(lent(FATAL)) is None
    assert gpu.replaced == 1
    assert gpu.notes == [("scale", f"exit status 3 at {gpu.prepared.problem}")]
    assert gpu.verify(entry()) == Verified(failure=None)
    gpu.prepare(lent(0))
    assert gpu.prepared.by_numpy
    assert gpu.prepare(lent(FATAL)) is None
    list(gpu.screen([entry(DIE), entry()]))  # a fresh child prepares it by NumPy at once
    assert gpu.replaced == 2
    assert len(gpu.notes) == 1


def test_where_no_reference_of_the_machine_was_asked_for_it_is_not_blamed(gpu, lent, prepare):
    with pytest.raises(TuningError):
        gpu.prepare(prepare(FATAL))
    for request in (replace(lent(FATAL), reference="none"), replace(lent(FATAL), trust_default=True)):
        with pytest.raises(TuningError):
            gpu.prepare(request)
    assert gpu.notes == []


def test_why_numpy_computes_is_noted_once_a_kernel(gpu, lent):
    gpu.prepare(lent(NOTED))
    gpu.prepare(lent(NOTED))
    assert gpu.notes == [("scale", "why")]


def test_a_device_that_cannot_be_opened():
    with Runner("children:gpu", 9) as gpu, pytest.raises(DeviceError) as error:
        _ = gpu.facts
    assert str(error.value) == "GPU 9 cannot be used: no such device"


def test_a_device_whose_memory_others_hold():
    with Runner("children:gpu", 8) as gpu, pytest.raises(DeviceError) as error:
        _ = gpu.facts
    assert str(error.value) == (
        "GPU 8 cannot be used: cudaErrorMemoryAllocation: out of memory; end other programs that hold the GPU's memory "
        "(`nvidia-smi` lists them), or wait for their end"
    )
