"""What a budget cuts short is used, but never counts as settled."""

from __future__ import annotations

import pytest

from fake_runner import FakeRunner, fake_workbench
from pretuned.measure.runner import TuningError
from pretuned.outcome import Crashed
from pretuned.record.cache import Cache
from pretuned.record.freshness import FreshnessJudge, State
from pretuned.spec.space import all_problems
from pretuned.tune import screening
from pretuned.tune.request import TuningRequest
from pretuned.tune.spending import Spending
from pretuned.tune.tuner import Tuner
from pretuned.tune.workbench import Clock
from specs import loaded


def model(values, dims):
    return dims["n"] / 1024 * 10 / values["vec"] * (1.2 if values["block"] == 128 else 1.0)


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


class EndingClock(Clock):
    """Is over, and late, when it is said to be."""

    def __init__(self, over, late=None):
        super().__init__()
        self.says_over, self.says_late = over, late or over

    over = property(lambda self: self.says_over())
    late = property(lambda self: self.says_late())


def tune(spec, gpu, cache, **given):
    spending = Spending()
    tuner = Tuner(fake_workbench(gpu, cache=cache, spending=spending, **given))
    return list(tuner.tune([TuningRequest(spec=spec, problems=tuple(all_problems(spec)[:1]))])), spending


def test_a_search_cut_short_gives_a_row_that_the_next_build_completes(spec, tmp_path, monkeypatch):
    cache = Cache(tmp_path / "cache")
    short = FakeRunner(model)
    with monkeypatch.context() as patch:
        patch.setattr(screening, "CHUNK", 1)
        (row,), _ = tune(spec, short, cache, clock=EndingClock(lambda: short.requests.count("screen") >= 3))
    assert short.requests.count("screen") == 3
    assert row.space == ""
    assert FreshnessJudge(spec).judge(row).state is State.INCOMPLETE

    rest = FakeRunner(model)
    (whole,), _ = tune(spec, rest, cache)
    assert rest.requests.count("screen") == 6 - 3
    assert FreshnessJudge(spec).judge(whole).state is State.FRESH
    assert dict(whole.winner.configuration.values) == {"block": 256, "vec": 4}

    (again,), spending = tune(spec, FakeRunner(model), cache)
    assert (again, spending.launched) == (whole, 0)
    cache.close()


def test_the_default_is_measured_however_short_the_budget(spec):
    class Slow(FakeRunner):
        def prepare(self, request):
            self.requests.append("prepare")
            return super().prepare(request)

    gpu = Slow(model)
    (row,), _ = tune(spec, gpu, Cache(None), clock=EndingClock(lambda: "prepare" in gpu.requests))
    assert gpu.requests.count("screen") == 1
    assert [dict(choice.configuration.values)["vec"] for choice in row.choices] == [1]


def test_a_budget_that_ends_at_the_first_of_many_sizes_leaves_defaults_at_the_others(tmp_path):
    spec = loaded(tmp_path, ("[1024, 65536]", "[1024, 4096, 16384, 65536, 262144, 1048576, 4194304]"))
    problems = tuple(problem for problem in all_problems(spec) if dict(problem.specialisation)["T"] == "float32")
    gpu = FakeRunner(model)
    # All screening is late from the first candidate on; the rows themselves are in time.
    clock = EndingClock(over=lambda: False, late=lambda: "screen" in gpu.requests)
    tuner = Tuner(fake_workbench(gpu, clock=clock))
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
        "mend the kernel, or the reference if that is wrong"
    )


def test_a_race_that_nobody_loses_alone_leaves_the_default(spec):
    class Together(FakeRunner):
        def race(self, entries, rounds, **given):
            if len(entries) > 1:
                return Crashed(message="CUDA_ERROR_ILLEGAL_ADDRESS")
            return super().race(entries, rounds, **given)

    (row,), _ = tune(spec, Together(model), Cache(None))
    assert [dict(choice.configuration.values) for choice in row.choices] == [{"block": 256, "vec": 1}]


def test_slow_candidates_race_only_as_far_as_the_budget_goes(spec):
    def slow(values, dims):  # seven rounds of all would take a quarter of a minute
        return 1e6 * model(values, dims) / 10

    class Left(Clock):
        left_s = 9.0
        begin_screening = staticmethod(lambda share: None)  # there was time for that

    gpu = FakeRunner(slow)
    raced = []
    once = gpu.race
    gpu.race = lambda entries, rounds, **given: (raced.append(len(entries)), once(entries, rounds, **given))[1]
    (row,), _ = tune(spec, gpu, Cache(None), clock=Left(60.0))
    assert raced[0] == 2  # the default and the fastest
    assert dict(row.winner.configuration.values) == {"block": 256, "vec": 4}
    assert row.space == ""  # the next build goes on
    Left.left_s = -1.0
    raced.clear()
    (row,), _ = tune(spec, gpu, Cache(None), clock=Left(60.0))
    assert raced[0] == 1
    assert row.winner.configuration == row.default.configuration


def test_fast_candidates_all_race_even_when_the_budget_is_spent(spec):
    class Left(Clock):
        left_s = -1.0
        begin_screening = staticmethod(lambda share: None)

    (row,), _ = tune(spec, FakeRunner(model), Cache(None), clock=Left(60.0))
    assert row.space
    assert dict(row.winner.configuration.values) == {"block": 256, "vec": 4}
