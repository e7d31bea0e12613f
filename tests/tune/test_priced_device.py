"""The device whose seconds are counted, of the benchmarks: what it charges."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from pretuned.measure.requests import PrepareRequest
from pretuned.spec.space import all_problems
from pricing.device import PREPARE_S, PricedRunner, VirtualTime
from specs import loaded

REFERENCE_S = 5.0


def charged_s(*requests):
    time = VirtualTime()
    space = SimpleNamespace(reference_s=REFERENCE_S, time_us=lambda _configuration, _problem: 1000.0)
    runner = PricedRunner(space, time, 0)
    for request in requests:
        runner.prepare(request)
    return time.now_s


@pytest.fixture
def asked(tmp_path):
    spec = loaded(tmp_path)
    return PrepareRequest(spec=spec, problem=all_problems(spec)[0], default=SimpleNamespace(configuration=None))


def test_a_reference_takes_its_seconds_once(asked):
    assert charged_s(asked, asked) == pytest.approx(PREPARE_S + REFERENCE_S)


def test_results_of_the_default_as_reference_take_a_launch(asked):
    trusting = dataclasses.replace(asked, trust_default=True)
    assert PREPARE_S + 0.001 < charged_s(trusting) < PREPARE_S + 0.01


def test_what_is_not_judged_needs_no_reference(asked):
    assert charged_s(dataclasses.replace(asked, reference="none")) == pytest.approx(PREPARE_S)
