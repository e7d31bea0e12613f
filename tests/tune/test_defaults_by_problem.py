"""Tuning against defaults that depend on the problem: each row, rule and certificate has the default of its problem."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from fake_runner import DEVICE, FakeRunner, fake_workbench
from pretuned.build.freshness import Freshness
from pretuned.measure.runner import TuningError
from pretuned.record.cache import Cache
from pretuned.record.freshness import FreshnessJudge, State
from pretuned.record.lock import Lock
from pretuned.record.rows import Row
from pretuned.record.selection_entries import selection_from_json, selection_to_json
from pretuned.record.selections import Selection
from pretuned.report.selections import of_selections, selection_table
from pretuned.spec import space
from pretuned.spec.defaults import defaults
from pretuned.spec.loader import load
from pretuned.spec.space import Problem
from pretuned.tune.request import EffortProfile, TuningRequest
from pretuned.tune.selection import ranking
from pretuned.tune.selection.sampling import draw
from pretuned.tune.tuner import Tuner
from pretuned.tune.workbench import Demands

KERNELS = Path(__file__).parents[1] / "data" / "defaults"
PROFILE = EffortProfile(surveyed_problems=10, tried_problems=24, certified_problems=12)


def invented(values, dims):
    """Blocks of 64 take longer everywhere but where there are few columns."""
    elements = -(-dims["d"] // (values["block"] * values["items"])) * dims["tokens"] * values["block"]
    slow = 1.3 if values["block"] == 64 and dims["d"] >= 1024 else 1.0
    return 2 + 0.3 * values["items"] + slow * elements * values["items"] ** 0.6 / 1e5


@pytest.fixture(scope="module")
def spec():
    return load(KERNELS / "scale_rows.toml")


def tuned(spec, time_us=invented, cache=None, problems=None, **given):
    demands = given.pop("demands", Demands())
    request = TuningRequest(
        spec=spec, problems=tuple(problems or space.all_problems(spec)), calls={}, selections=given.pop("held", ())
    )
    workbench = fake_workbench(FakeRunner(time_us, **given), cache=cache or Cache(None), demands=demands)
    workbench = replace(workbench, device=replace(DEVICE, effort=PROFILE))
    found = list(Tuner(workbench).tune([request]))
    return [one for one in found if isinstance(one, Row)], [one for one in found if isinstance(one, Selection)]


@pytest.fixture(scope="module")
def found(spec):
    rows, (selection,) = tuned(spec)
    return rows, selection


def test_every_row_ends_with_the_default_of_its_problem(spec, found):
    rows, _ = found
    assert len({row.default.configuration for row in rows}) > 1
    for row in rows:
        assert row.default.configuration == space.default_at(spec, row.problem)
        assert row.default.ratio == (1.0, 1.0)
        assert all(choice.ratio[1] < 1 for choice in row.choices[:-1])


def test_all_that_it_may_be_ends_a_selection(spec, found):
    _, selection = found
    assert selection.defaults == 6
    assert selection.default_configurations == defaults(spec, ())
    assert {choice.configuration for row in found[0] for choice in row.choices} <= {
        choice.configuration for choice in selection.choices
    }


def test_the_rule_runs_the_default_of_a_problem_or_what_beats_it(spec, found):
    _, selection = found
    picks, shares = set(), []
    for problem in draw(spec, (), 60, seed=5):
        order = ranking(selection, spec, problem, DEVICE.facts)
        default, dims = space.default_at(spec, problem), dict(problem.dims)
        assert order[-1] == default
        assert order.count(default) == 1
        shares.append(invented(dict(order[0].values), dims) / invented(dict(default.values), dims))
        picks.add(order[0] == default)
    assert picks == {True, False}
    assert max(shares) < 1.1
    assert statistics.mean(shares) < 1


def test_the_certificate_compares_with_the_default_of_each_problem(spec):
    """With what the formulas give the fastest everywhere, nothing else is ahead, and nothing is slower."""

    def as_chosen(values, dims):
        chosen = dict(space.default_at(spec, Problem(specialisation=(), dims=space.pairs(dims))).values)
        return 100.0 + dims["d"] * dims["tokens"] / 1e5 + 20 * (values != chosen)

    rows, (selection,) = tuned(spec, as_chosen)
    assert [len(row.choices) for row in rows] == [1, 1, 1, 1]
    assert selection.certificate.inside.slower == 0
    assert selection.certificate.inside.mean == pytest.approx(0, abs=1e-3)


def test_a_default_of_other_sizes_than_the_tuned_ones_is_surveyed_where_it_is_legal(tmp_path):
    for file in KERNELS.iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    text = (tmp_path / "scale_rows.toml").read_text()
    (tmp_path / "scale_rows.toml").write_text(text.replace('"d % items == 0"', '"(items == 1) == (d % 4 > 0)"'))
    rows, (selection,) = tuned(load(tmp_path / "scale_rows.toml"))
    ragged = {choice.configuration for choice in selection.choices if dict(choice.configuration.values)["items"] == 1}
    assert len(rows) == 4
    assert ragged
    assert not ragged & {choice.configuration for row in rows for choice in row.choices}


def test_few_configurations_are_few_beside_the_defaults(spec):
    _, (selection,) = tuned(spec, demands=Demands(max_configurations=2))
    assert len(selection.choices) <= 1 + 6
    lock = Lock(selections=(selection,))
    assert not list(Freshness({spec.name: spec}).crowded(lock, 2))


def test_a_lock_keeps_them_apart(found):
    _, selection = found
    data = json.loads(json.dumps(selection_to_json(selection)))
    assert data["defaults"] == 6
    assert selection_from_json(data | {name: getattr(selection, name) for name in ("kernel", "device")}) == selection
    for wrong in (0, 99, "6", True, 1.5):
        with pytest.raises((ValueError, TypeError)):
            selection_from_json(data | {"defaults": wrong})


def test_what_was_tuned_is_fresh_until_the_default_is_another(spec, found, tmp_path):
    rows, selection = found
    judge = FreshnessJudge(spec)
    assert {judge.judge(one).state for one in (*rows, selection)} == {State.FRESH}
    text = (KERNELS / "scale_rows.toml").read_text()
    for name in ("scale_rows.cu.jinja", "reference.py"):
        (tmp_path / name).write_text((KERNELS / name).read_text())

    def judged(one, other):
        (tmp_path / "scale_rows.toml").write_text(text.replace(one, other))
        changed = FreshnessJudge(load(tmp_path / "scale_rows.toml"))
        return [changed.judge(entry) for entry in (*rows, selection)]

    moved = judged("d < 1024", "d < 1025")  # the same at these problems
    assert {one.state for one in moved} == {State.INCOMPLETE}
    assert {one.reason for one in moved} == {
        "the space, the sizes, the default's formulas, `requires` or terms of costs have changed"
    }
    other = judged("tokens >= 256 else 128", "tokens >= 256 else 64")
    assert [one.state for one in other].count(State.STALE) == 2
    assert other[-1].reason.startswith("the default is now block=64, items=1 or block=64, items=4 or block=256")


def test_a_table_names_them(found):
    _, selection = found
    said = selection_table(of_selections([selection]))
    assert said.count("(a default)") == 6
    assert "(the default)" not in said


def test_a_second_build_measures_nothing(spec, tmp_path):
    with Cache(tmp_path / "cache") as cache:
        first = tuned(spec, cache=cache)
        gpu = FakeRunner(invented)
        again = tuned(spec, gpu.time_us, cache=cache)
    assert first == again


def test_what_is_the_default_somewhere_must_be_right_everywhere(spec):
    def wrong(values, dims):
        return values["block"] == 256 and dims["d"] < 1024

    with pytest.raises(TuningError) as caught:
        tuned(spec, wrong=wrong)
    assert str(caught.value).startswith("scale_rows: block=256, items=")
    assert ", the default of other problems, fails at d=" in str(caught.value)
    assert str(caught.value).endswith(": y: off; exclude it there by `where`, or mend the kernel")


def test_a_default_that_is_wrong_at_its_own_problem_is_reported_as_ever(spec):
    with pytest.raises(TuningError, match=r"scale_rows: the default \(block=64, items=4\) fails at d=512, tokens=16"):
        tuned(spec, wrong=lambda values, dims: values["block"] == 64 and dims["d"] < 1024)


def test_a_default_that_no_problem_has_is_never_beaten(tmp_path, spec):
    """Where nobody measured there is nothing to compare with, so it runs."""
    for name in ("scale_rows.cu.jinja", "reference.py"):
        (tmp_path / name).write_text((KERNELS / name).read_text())
    text = (KERNELS / "scale_rows.toml").read_text()
    rare = text.replace("block = { at", "# block = { at").replace(
        "items = { at", 'block = { at = "64 if d == 31 else 128" }\nitems = { at'
    )
    limited = rare.replace('["d % items == 0"]', '["d % items == 0", "block > 64 or d == 31"]')
    (tmp_path / "scale_rows.toml").write_text(limited)
    spec = load(tmp_path / "scale_rows.toml")
    _, (selection,) = tuned(spec)
    costs = {choice.configuration: choice.cost for choice in selection.choices}
    without = [one for one, cost in costs.items() if not cost]
    assert [dict(one.values)["block"] for one in without] == [64, 64]
    problem = Problem(specialisation=(), dims=(("d", 31), ("tokens", 7)))
    assert ranking(selection, spec, problem, DEVICE.facts) == [space.default_at(spec, problem)]
