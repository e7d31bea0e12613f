"""What a budget cuts short is used, but never counts as settled."""

from __future__ import annotations

import time

import pytest

from builders import H100
from fake_runner import FakeLibrary, FakeRunner
from pretuned.measure.runner import TuningError
from pretuned.outcome import Crashed
from pretuned.record.cache import Cache
from pretuned.record.freshness import FreshnessJudge, State
from pretuned.spec.space import all_problems
from pretuned.tune import screening
from pretuned.tune.events import Effort
from pretuned.tune.request import TuningDevice, TuningRequest
from pretuned.tune.tuner import Tuner
from specs import loaded

TARGET = TuningDevice(name=H100.name, device=H100, driver="580")


def model(values, dims):
    return dims["n"] / 1024 * 10 / values["vec"] * (1.2 if values["block"] == 128 else 1.0)


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


class Clock:
    """A budget that ends after so many screenings."""

    def __init__(self, monkeypatch, gpu, screenings):
        monkeypatch.setattr(time, "monotonic", lambda: float(gpu.requests.count("screen") >= screenings))


def tune(spec, gpu, cache, **given):
    effort = Effort()
    tuner = Tuner(
        runner=gpu,
        target=TARGET,
        library=FakeLibrary(),
        cache=cache,
        effort=effort,
        listen=lambda _event: None,
        **given,
    )
    return list(tuner.tune([TuningRequest(spec=spec, problems=tuple(all_problems(spec)[:1]))])), effort


def test_a_search_cut_short_gives_a_row_that_the_next_build_completes(spec, tmp_path, monkeypatch):
    cache = Cache(tmp_path / "cache")
    short = FakeRunner(model)
    with monkeypatch.context() as patch:
        Clock(patch, short, 3)
        patch.setattr(screening, "CHUNK", 1)
        (row,), _ = tune(spec, short, cache, deadline=0.5)
    assert short.requests.count("screen") == 3
    assert row.space == ""
    assert FreshnessJudge(spec).judge(row).state is State.INCOMPLETE

    rest = FakeRunner(model)
    (whole,), _ = tune(spec, rest, cache)
    assert rest.requests.count("screen") == 6 - 3
    assert FreshnessJudge(spec).judge(whole).state is State.FRESH
    assert dict(whole.winner.configuration.values) == {"block": 256, "vec": 4}

    (again,), effort = tune(spec, FakeRunner(model), cache)
    assert (again, effort.launched) == (whole, 0)
    cache.close()


def test_the_default_is_measured_however_short_the_budget(spec, monkeypatch):
    class Slow(FakeRunner):
        def prepare(self, request):
            monkeypatch.setattr(time, "monotonic", lambda: 1.0)
            return super().prepare(request)

    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    gpu = Slow(model)
    (row,), _ = tune(spec, gpu, Cache(None), deadline=0.5)
    assert gpu.requests.count("screen") == 1
    assert [dict(choice.configuration.values)["vec"] for choice in row.choices] == [1]


def test_a_budget_that_ends_at_the_first_of_many_sizes_leaves_defaults_at_the_others(tmp_path, monkeypatch):
    spec = loaded(tmp_path, ("[1024, 65536]", "[1024, 4096, 16384, 65536, 262144, 1048576, 4194304]"))
    problems = tuple(problem for problem in all_problems(spec) if dict(problem.specialisation)["T"] == "float32")
    gpu = FakeRunner(model)
    tuner = Tuner(
        runner=gpu,
        target=TARGET,
        library=FakeLibrary(),
        cache=Cache(None),
        effort=Effort(),
        listen=lambda _event: None,
        deadline=1.0,
    )
    # All screening is late from the first candidate on; the rows themselves are in time.
    monkeypatch.setattr(Tuner, "late", lambda self: "screen" in gpu.requests)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    rows = list(tuner.tune([TuningRequest(spec=spec, problems=problems)]))
    assert len(rows) == len(problems)
    assert {row.space for row in rows} == {""}
    assert all(dict(row.default.configuration.values) == {"block": 256, "vec": 1} for row in rows)


def test_a_default_that_crashes_alone_in_its_duel_is_an_error_with_the_cause(spec):
    class Fragile(FakeRunner):
        def race(self, entries, rounds, **given):
            return Crashed(message="ended by SIGSEGV")

    slower = Fragile(lambda values, dims: 10.0 * values["vec"] + (values["block"] == 128))
    with pytest.raises(TuningError) as error:
        tune(spec, slower, Cache(None))
    assert str(error.value) == (
        "scale: the default (block=256, vec=1) fails at n=1024, T=float16: ended by SIGSEGV; "
        "a table ends in its default, so this has to be mended first"
    )


def test_a_race_that_nobody_loses_alone_leaves_the_default(spec):
    class Together(FakeRunner):
        def race(self, entries, rounds, **given):
            if len(entries) > 1:
                return Crashed(message="CUDA_ERROR_ILLEGAL_ADDRESS")
            return super().race(entries, rounds, **given)

    (row,), _ = tune(spec, Together(model), Cache(None))
    assert [dict(choice.configuration.values) for choice in row.choices] == [{"block": 256, "vec": 1}]
