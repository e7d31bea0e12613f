"""How much is tried: fast, default and thorough."""

from __future__ import annotations

import pytest

from builders import H100
from fake_runner import FakeRunner, fake_workbench
from pretuned.config import Place
from pretuned.spec.space import all_problems
from pretuned.strategies import NamedStrategy
from pretuned.strategies.random_sample import RandomSample
from pretuned.tune.request import GPU_PROFILE, TRIAL_PROFILE, EffortProfile, TuningDevice
from pretuned.tune.settled import chosen_from
from pretuned.tune.task import TuningTask
from pretuned.tune.workbench import Demands
from specs import loaded

GPU = TuningDevice(record=H100, driver="580")
HOST = TuningDevice(record=H100, driver="x", place=Place(backend="host"))


def test_an_effort_that_nobody_names_is_the_usual_one():
    assert GPU.at("default").profile == GPU_PROFILE
    assert HOST.at("default").profile == TRIAL_PROFILE


def test_less_effort_tries_less_of_everything():
    fast, usual, thorough = (GPU.at(effort).profile for effort in ("fast", "default", "thorough"))
    for name in ("race_rounds", "surveyed_problems", "tried_problems", "certified_problems", "selecting_s"):
        assert getattr(fast, name) < getattr(usual, name) < getattr(thorough, name)
    for name in ("exhaustive", "evaluations", "searching_s"):
        assert getattr(fast, name) < getattr(usual, name) < getattr(thorough, name)


def test_the_host_device_differs_in_its_searches_alone():
    fast = HOST.at("fast").profile
    assert fast.exhaustive == GPU.at("fast").profile.exhaustive
    assert fast.race_rounds == TRIAL_PROFILE.race_rounds


@pytest.mark.parametrize(("effort", "complete"), [("fast", False), ("default", True), ("thorough", True)])
def test_a_space_of_a_few_hundred_is_searched_fast_and_tried_whole_otherwise(effort, complete):
    assert fake_workbench(FakeRunner(None), device=GPU.at(effort)).strategy(300).complete is complete


def test_a_space_of_a_hundred_is_tried_whole_by_fast_too():
    assert fake_workbench(FakeRunner(None), device=GPU.at("fast")).strategy(100).complete


def test_thorough_tries_all_of_what_is_searched_otherwise():
    usual, thorough = (fake_workbench(FakeRunner(None), device=GPU.at(effort)) for effort in ("default", "thorough"))
    assert not usual.strategy(5000).complete
    assert thorough.strategy(5000).complete
    assert thorough.strategy(1_000_000).evaluations > usual.strategy(1_000_000).evaluations


def test_a_strategy_that_was_asked_for_is_made_whatever_the_effort():
    asked = Demands(strategy=NamedStrategy(name="random", make=RandomSample))
    assert isinstance(fake_workbench(FakeRunner(None), demands=asked).strategy(10), RandomSample)


def test_rows_of_one_effort_are_not_taken_for_those_of_another(tmp_path):
    spec = loaded(tmp_path)
    problem = all_problems(spec)[0]

    def decided_by(effort):
        device = TuningDevice(record=H100, driver="580", effort=EffortProfile(name=effort))
        workbench = fake_workbench(FakeRunner(None), device=device)
        return chosen_from(TuningTask(workbench, spec, problem.specialisation, [problem]), problem)

    assert decided_by("thorough") != decided_by("default") != decided_by("fast")
