"""A library function beside templates: it competes, is recorded with its version, and costs the compiler nothing."""

from __future__ import annotations

import json

import pytest

from builders import H100
from fake_runner import FakeBinaries, FakeRunner, fake_workbench
from library_specs import loaded
from pretuned.compile.host import compiler
from pretuned.device.host import FACTS
from pretuned.measure.libraries import release
from pretuned.record import lock as lockfile
from pretuned.record.cache import Cache
from pretuned.record.entries import row_from_json, row_to_json
from pretuned.record.freshness import FreshnessJudge, State
from pretuned.record.lock import Lock
from pretuned.spec import space
from pretuned.spec.space import all_problems
from pretuned.tune import results as results_module
from pretuned.tune import sources as sources_module
from pretuned.tune.events import Failed
from pretuned.tune.execute import execute
from pretuned.tune.modes import PLAIN
from pretuned.tune.request import TuningRequest
from pretuned.tune.spending import Spending
from pretuned.tune.trials import trials
from pretuned.tune.tuner import Tuner


def takes_us(library_us):
    """Blocks of 256 take 9 us, those of 128, the default, 10."""
    return lambda values, _dims: {256: 9.0, 128: 10.0}.get(values.get("block"), library_us)


def run(spec, gpu, cache=None):
    events, spending, compilers = [], Spending(), FakeBinaries()
    given = {"cache": cache or Cache(None), "spending": spending, "listen": events.append}
    rows = list(
        Tuner(fake_workbench(gpu, binaries=compilers, **given)).tune(
            [TuningRequest(spec=spec, problems=tuple(all_problems(spec)))]
        )
    )
    return rows, events, spending, compilers


def test_a_faster_library_wins_and_is_recorded_with_its_version(tmp_path):
    rows, _, _, compilers = run(loaded(tmp_path), FakeRunner(takes_us(5.0)))
    assert len(rows) == 4
    for row in rows:
        assert str(row.winner.configuration) == "library"
        assert (row.winner.library, row.winner.cubin) == (release("cupy"), "")
        assert row.winner.ratio[1] < 0.6
        assert str(row.default.configuration) == "plain: block=128"
        assert (row.default.library, len(row.default.cubin)) == ("", 64)
    assert len(compilers.compiled) == 2  # a template for two dtypes: its block is the launch's alone


def test_a_slower_library_stays_out(tmp_path):
    rows, _, _, _ = run(loaded(tmp_path), FakeRunner(takes_us(20.0)))
    assert {str(row.winner.configuration) for row in rows} == {"plain: block=256"}
    assert not any(choice.library for row in rows for choice in row.choices)


def test_a_wrong_library_never_wins_however_fast(tmp_path):
    gpu = FakeRunner(takes_us(1.0), wrong=lambda values, _dims: not values)
    rows, events, _, _ = run(loaded(tmp_path), gpu)
    assert {str(row.winner.configuration) for row in rows} == {"plain: block=256"}
    assert {str(event.configuration) for event in events if isinstance(event, Failed)} == {"library"}


def test_a_wrong_library_is_tried_again_in_another_build_unlike_a_wrong_template(tmp_path):
    specs = [loaded(tmp_path, ("sizes = [1024, 65536]", f"sizes = [{size}]")) for size in (1024, 65536)]
    with Cache(tmp_path / "cache") as cache:
        run(specs[0], FakeRunner(takes_us(1.0), wrong=lambda values, _dims: values.get("block") != 128), cache)
        rows, _, _, _ = run(
            specs[1], FakeRunner(lambda values, _dims: {128: 10.0, 256: 1.0}.get(values.get("block"), 5.0)), cache
        )
    assert {str(row.winner.configuration) for row in rows} == {"library"}


def test_a_library_limited_to_a_dtype_competes_only_there(tmp_path):
    where = ('call = "cupy:multiply"', 'call = "cupy:multiply"\nconstraints = { where = ["sizeof(T) == 8"] }')
    rows, _, _, _ = run(loaded(tmp_path, where), FakeRunner(takes_us(5.0)))
    winners = {(dict(row.specialisation)["T"], str(row.winner.configuration)) for row in rows}
    assert winners == {("float32", "plain: block=256"), ("float64", "library")}


def test_a_second_build_measures_nothing_until_another_version_is_installed(tmp_path, monkeypatch):
    spec = loaded(tmp_path)
    with Cache(tmp_path / "cache") as cache:
        first, _, _, _ = run(spec, FakeRunner(takes_us(5.0)), cache)
        again, _, spending, _ = run(spec, FakeRunner(takes_us(5.0)), cache)
        assert (again, spending.launched) == (first, 0)
        for module in (results_module, sources_module):
            monkeypatch.setattr(module, "release", lambda library: f"{library} 99.0")
        newer, _, spending, _ = run(spec, FakeRunner(takes_us(20.0)), cache)
    assert spending.launched > 0
    assert {str(row.winner.configuration) for row in newer} == {"plain: block=256"}


def lock_of(rows):
    return Lock().updated({H100.name: H100}, rows)


def test_the_lock_names_the_library_only_where_one_was_chosen(tmp_path):
    spec = loaded(tmp_path)
    chosen, _, _, _ = run(spec, FakeRunner(takes_us(5.0)))
    lock = lock_of(chosen)
    text = lockfile.dumps(lock)
    assert lockfile.loads(json.loads(text), "pretuned.lock.json") == lock
    assert text.count(f'"library": "{release("cupy")}"') == len(chosen)
    compiled, _, _, _ = run(spec, FakeRunner(takes_us(20.0)))
    assert '"library"' not in lockfile.dumps(lock_of(compiled)).replace('"implementation": "library"', "")


def test_a_row_stays_fresh_under_another_version_and_is_stale_under_another_call(tmp_path):
    spec = loaded(tmp_path)
    rows, _, _, _ = run(spec, FakeRunner(takes_us(5.0)))
    old = [row_from_json(json.loads(json.dumps(row_to_json(row)).replace(release("cupy"), "cupy 1.0"))) for row in rows]
    assert {row.winner.library for row in old} == {"cupy 1.0"}
    assert {FreshnessJudge(spec).judge(row).state for row in old} == {State.FRESH}
    other = loaded(tmp_path, ("cupy:multiply", "cupy:add"))
    assert {FreshnessJudge(other).judge(row).state for row in old} == {State.STALE}


def test_tuning_again_with_another_version_renews_the_lines_of_what_it_won(tmp_path):
    rows, _, _, _ = run(loaded(tmp_path), FakeRunner(takes_us(5.0)))
    line = json.dumps(row_to_json(rows[0])).replace(release("cupy"), "cupy 1.0")
    old = row_from_json(json.loads(line))
    assert lock_of([old]).updated({}, rows[:1]).rows == (rows[0],)


def test_the_host_tries_no_library_calls(tmp_path):
    spec = loaded(tmp_path)
    for sample in (None, 1):
        found = trials(spec, (("T", "float32"),), FACTS, sample=sample)
        assert space.default(spec) in {trial.configuration for trial in found}
        assert {trial.configuration.implementation for trial in found} == {"plain"}


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
def test_a_kernel_with_a_library_call_is_executed_on_the_host(tmp_path):
    (report,) = execute({"product": loaded(tmp_path)}, [PLAIN], cache_folder=None)
    assert (report.configurations, report.findings) == (4, [])  # two blocks for two dtypes
