"""The order in which configurations are executed: what there is no time for matters least."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretuned.device.host import FACTS
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.tune.agenda import chunks
from pretuned.tune.trials import ELEMENTS, elements, trials
from specs import loaded

MANY = Path(__file__).parents[1] / "host" / "many" / "topk_softmax.toml"


@pytest.fixture(scope="module")
def spec():
    return load(MANY)


@pytest.fixture(scope="module")
def planned(spec):
    return {s: trials(spec, s, FACTS) for s in space.specialisations(spec)}


def steps(planned):
    found = chunks(planned, lambda: planned)
    return [(chunk.layer, chunk.problem, c) for chunk in found for c in chunk.configurations]


def test_every_specialisation_runs_before_anything_runs_twice(planned):
    order = steps(planned)
    first = [problem.specialisation for _, problem, _ in order[: len(planned)]]
    assert len(planned) == 72
    assert set(first) == set(planned)


def test_every_value_runs_before_the_rest_and_nothing_is_left_out_or_repeated(planned):
    order = steps(planned)
    early = {value for layer, _, c in order if layer < 2 for value in c.values}
    assert early == {("block", 64), ("block", 128), ("block", 256)}
    executed = [(problem, c) for _, problem, c in order]
    wanted = {(problem, t.configuration) for found in planned.values() for t in found for problem in t.problems}
    assert len(executed) == len(set(executed))
    assert set(executed) == wanted


def test_every_configuration_runs_once_before_any_runs_at_further_sizes(planned):
    seen = set()
    for layer, problem, configuration in steps(planned):
        if layer > 2:
            break
        seen.add((problem.specialisation, configuration))
    assert len(seen) == 216


def test_constant_dims_count(spec, planned):
    problems = {problem for found in planned.values() for trial in found for problem in trial.problems}
    assert max(elements(spec, problem) for problem in problems) <= ELEMENTS
    assert {dict(problem.dims)["n"] for problem in problems} >= {0, 1, 37}


def test_a_specialisation_that_no_size_is_admitted_for_is_left_out(spec, tmp_path):
    excluding = loaded(tmp_path, ("[constraints]", '[constraints]\nrequires = ["sizeof(T) == 4"]'))
    found = {s: trials(excluding, s, FACTS) for s in space.specialisations(excluding)}
    assert [len(one) > 0 for one in found.values()] == [False, True]


def test_what_refuses_a_configuration_everywhere_is_named(tmp_path):
    rare = loaded(tmp_path, ("n % vec == 0", "vec < 4 or n % 5000011 == 1"))
    found = trials(rare, next(space.specialisations(rare)), FACTS)
    refused = {trial.refusal for trial in found if not trial.problems}
    assert refused == {"where[1] 'vec < 4 or n % 5000011 == 1' refuses it at every size that was tried"}


def test_a_size_is_found_where_a_configuration_is_legal(tmp_path):
    rare = loaded(tmp_path, ("n % vec == 0", "vec < 4 or n % 4096 == 0"))
    found = trials(rare, next(space.specialisations(rare)), FACTS)
    sizes = {
        dict(problem.dims)["n"] for t in found for problem in t.problems if dict(t.configuration.values)["vec"] == 4
    }
    assert 4096 in sizes
