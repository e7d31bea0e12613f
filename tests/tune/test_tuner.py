"""Tuning against a made-up GPU: what wins, what is dropped, and what a budget or a second build does."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from fake_runner import FakeBinaries, FakeRunner, fake_workbench
from pretuned.measure.requests import TooLarge
from pretuned.measure.runner import TuningError
from pretuned.outcome import Crashed
from pretuned.record.cache import Cache
from pretuned.record.rows import Row, Skipped
from pretuned.report.effort import describe
from pretuned.spec.space import Configuration, all_problems
from pretuned.tune.events import (
    AtProblem,
    ByNumpy,
    CandidatesScreened,
    Decided,
    Failed,
    Measuring,
    Noisy,
    OutOfBudget,
    Passed,
    Planned,
    Racing,
    RemarkedReference,
)
from pretuned.tune.request import TuningRequest
from pretuned.tune.spending import Spending
from pretuned.tune.task import TuningTask
from pretuned.tune.tuner import Tuner
from pretuned.tune.workbench import Clock
from specs import loaded


def model(values, dims):
    """Wider vectors and larger blocks are faster, in proportion to the size."""
    return dims["n"] / 1024 * 10 / (values["vec"] ** 0.5) * (1.2 if values["block"] == 128 else 1.0)


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


def run(spec, gpu, cache=None, problems=None, incumbents=None, **given):
    events = []
    spending = Spending()
    workbench = fake_workbench(gpu, cache=cache or Cache(None), spending=spending, listen=events.append, **given)
    chosen = all_problems(spec) if problems is None else problems
    request = TuningRequest(spec=spec, problems=tuple(chosen), incumbents=incumbents or {})
    return list(Tuner(workbench).tune([request])), events, spending


def winner(row):
    return dict(row.winner.configuration.values)


def test_the_fastest_wins_and_each_set_of_guards_keeps_its_best(spec):
    rows, _, spending = run(spec, FakeRunner(model))
    assert [dict(row.problem.dims)["n"] for row in rows] == [1024, 65536, 1024, 65536]
    for row in rows:
        assert [dict(choice.configuration.values)["vec"] for choice in row.choices] == [4, 2, 1]
        assert {dict(choice.configuration.values)["block"] for choice in row.choices} == {256}
        assert row.winner.ratio[1] < 0.52
        assert row.default.ratio == (1.0, 1.0)
        for choice in row.choices:
            low, middle, high = choice.spread_us
            assert low < middle < high
            assert middle == pytest.approx(choice.time_us, rel=0.002)
            assert high / low < 1.02  # samples have a standard deviation of 0.2%
    assert spending.launched > 0


def test_the_steps_of_a_row_are_reported_with_what_is_known_by_then(spec):
    (problem, *_) = all_problems(spec)
    (row,), events, _ = run(spec, FakeRunner(model), problems=[problem])
    (begun,) = [event for event in events if isinstance(event, Measuring)]
    (planned,) = [event for event in events if isinstance(event, Planned)]
    assert begun.seconds == pytest.approx(planned.seconds - planned.spent_s)
    seen = [event for event in events if isinstance(event, CandidatesScreened)]
    assert [event.seen for event in seen] == sorted(event.seen for event in seen)
    last = seen[-1]
    assert (last.seen, last.wanted, last.problem, last.best) == (6, 6, problem, row.winner.configuration)
    assert last.default_us == pytest.approx(10, rel=0.05)
    assert last.best_us == pytest.approx(5, rel=0.05)
    assert AtProblem(kernel="scale", stage="deciding", problem=problem, done=0, problems=1) in events
    races = [event for event in events if isinstance(event, Racing)]
    assert [event.place for event in races] == [0, *range(1, len(races))]
    default = row.default.configuration
    for event in races:
        assert default == event.default
        assert default in dict(event.contenders)
    left = [len(event.contenders) for event in races]
    assert left == sorted(left, reverse=True)  # none comes back


def test_a_default_that_is_best_stays(spec):
    rows, _, _ = run(spec, FakeRunner(lambda values, dims: 10.0 * values["vec"] + (values["block"] == 128)))
    assert all(len(row.choices) == 1 for row in rows)


def test_a_wrong_candidate_never_wins_however_fast(spec):
    rows, events, _ = run(spec, FakeRunner(model, wrong=lambda values, dims: values["vec"] == 4))
    assert {winner(row)["vec"] for row in rows} == {2}
    assert {dict(event.configuration.values)["vec"] for event in events if isinstance(event, Failed)} == {4}


def test_a_finalist_that_is_wrong_at_a_boundary_size_is_dropped(spec):
    gpu = FakeRunner(model, wrong=lambda values, dims: values["vec"] == 4 and dims["n"] == 0)
    rows, events, _ = run(spec, gpu, problems=all_problems(spec)[:1])
    assert [winner(row)["vec"] for row in rows] == [2]
    assert {dict(event.problem.dims)["n"] for event in events if isinstance(event, Failed)} == {0}


def test_a_crash_in_a_race_is_attributed(spec):
    gpu = FakeRunner(model, crash=lambda values: values["vec"] == 4)
    rows, events, _ = run(spec, gpu, problems=all_problems(spec)[:1])
    assert winner(rows[0])["vec"] == 2
    assert {dict(event.configuration.values)["vec"] for event in events if isinstance(event, Failed)} == {4}


def test_a_default_that_fails_ends_the_tuning_with_what_to_mend(spec):
    with pytest.raises(TuningError) as error:
        run(spec, FakeRunner(model, wrong=lambda values, dims: values["vec"] == 1))
    assert str(error.value) == (
        "scale: the default (block=256, vec=1) fails at n=1024, T=float16: y: off; "
        "mend the kernel, or the reference if that is wrong"
    )


def test_a_kernel_that_fails_does_not_keep_others_from_being_tuned(tmp_path):
    for name in ("bad", "good"):
        (tmp_path / name).mkdir()
    bad = loaded(tmp_path / "bad", ("block = 256", "block = 128")).model_copy(update={"name": "bad"})
    good = loaded(tmp_path / "good")
    gpu = FakeRunner(model, wrong=lambda values, dims: values["block"] == 128)
    requests = [TuningRequest(spec=spec, problems=tuple(all_problems(spec))) for spec in (bad, good)]
    rows = Tuner(fake_workbench(gpu)).tune(requests)
    found = list(itertools.islice(rows, len(all_problems(good))))
    with pytest.raises(TuningError, match="the default"):
        next(rows)
    assert all(row.default.configuration.values == (("block", 256), ("vec", 1)) for row in found)


def test_a_problem_that_does_not_fit_is_skipped(spec):
    found, _, _ = run(spec, FakeRunner(model, too_large=lambda dims: dims["n"] > 2000))
    assert [type(entry) for entry in found] == [Row, Skipped, Row, Skipped]
    assert found[1].reason == "takes 99 GB"


def test_a_problem_for_which_others_hold_the_memory_is_reported_and_left_for_the_next_tuning(spec):
    class Full(FakeRunner):
        def prepare(self, request):
            refused = super().prepare(request)
            return refused and replace(refused, passing=True)

    found, events, _ = run(spec, Full(model, too_large=lambda dims: dims["n"] > 2000))
    assert [type(entry) for entry in found] == [Row, Row]
    assert [event.entry.reason for event in events if isinstance(event, Passed)] == ["takes 99 GB"] * 2


def test_why_numpy_computes_a_reference_is_reported(spec):
    class Unable(FakeRunner):
        def prepare(self, request):
            if not self.requests:
                self.notes.append(("scale", "out of memory"))
            return super().prepare(request)

    gpu = Unable(model)
    _, events, _ = run(spec, gpu, problems=all_problems(spec)[:1])
    assert {event for event in events if isinstance(event, ByNumpy)} == {
        ByNumpy(kernel="scale", reason="out of memory")
    }
    assert gpu.notes == []


def test_a_reference_that_is_rounded_is_reported(spec):
    class Remarking(FakeRunner):
        def prepare(self, request):
            if not self.requests:
                self.remarks.append(("scale", "compute in float64"))
            return super().prepare(request)

    _, events, _ = run(spec, Remarking(model), problems=all_problems(spec)[:1])
    said = {describe(event) for event in events if isinstance(event, RemarkedReference)}
    assert said == {"scale: compute in float64"}


def test_a_problem_that_fits_no_more_is_skipped_too(spec):
    class Filling(FakeRunner):
        def prepare(self, request):
            full = self.requests and dict(request.problem.dims)["n"] == 65536
            return TooLarge(reason="takes 99 GB") if full else super().prepare(request)

    found, _, _ = run(spec, Filling(model), problems=all_problems(spec)[:2])
    assert [type(entry) for entry in found] == [Row, Skipped]


@pytest.mark.parametrize(("message", "kept"), [("illegal address", True), ("CUDA_ERROR_OUT_OF_MEMORY", False)])
def test_what_failed_for_want_of_memory_is_not_remembered(spec, tmp_path, message, kept):
    problem = all_problems(spec)[0]
    with Cache(tmp_path / "cache") as cache:
        task = TuningTask(fake_workbench(FakeRunner(model), cache=cache), spec, problem.specialisation, [problem])
        candidate = task.points[1]
        task.fail(candidate, problem, Crashed(message=message))
        assert (task.results.outcome(candidate, problem) is not None) is kept


def test_a_race_that_a_hiccup_ended_is_run_again(spec):
    class Hiccup(FakeRunner):
        def race(self, entries, rounds, **given):
            if "race" not in self.requests:
                self.requests.append("race")
                return Crashed(message="ended by SIGKILL")
            return super().race(entries, rounds, **given)

    rows, events, _ = run(spec, Hiccup(model), problems=all_problems(spec)[:1])
    assert winner(rows[0])["vec"] == 4
    assert not any(isinstance(event, Failed) for event in events)


def test_every_row_checks_the_boundaries_of_its_own_bucket(spec):
    lower = 8192  # of the second size's bucket
    gpu = FakeRunner(model, wrong=lambda values, dims: values["vec"] == 4 and dims["n"] == lower)
    rows, _, _ = run(spec, gpu, problems=all_problems(spec)[:2])
    assert [winner(row)["vec"] for row in rows] == [4, 2]


def test_an_incumbent_is_tried_whatever_the_search_finds(tmp_path):
    blocks = str(list(range(32, 1025, 4)))
    wide = loaded(tmp_path, ("[128, 256]", blocks))
    problem = all_problems(wide)[0]
    held = Configuration(implementation="main", values=(("block", 700), ("vec", 2)))

    def needle(values, dims):
        return 5.0 if dict(held.values) == values else 10.0 + values["block"] % 7

    rows, _, _ = run(wide, FakeRunner(needle), problems=[problem], incumbents={problem: (held,)})
    assert rows[0].winner.configuration == held


def test_a_default_that_failed_as_a_candidate_is_tried_again_and_told(spec, tmp_path):
    def wrong(values, dims):
        return values["block"] == 128

    with Cache(tmp_path / "cache") as cache:
        run(spec, FakeRunner(model, wrong=wrong), cache)
        other = loaded(tmp_path, ("block = 256", "block = 128"))
        with pytest.raises(TuningError, match="the default"):
            run(other, FakeRunner(model, wrong=wrong), cache)


def test_rows_of_another_default_are_not_taken_over(spec, tmp_path):
    with Cache(tmp_path / "cache") as cache:
        run(spec, FakeRunner(model), cache)
        rows, _, _ = run(loaded(tmp_path, ("block = 256", "block = 128")), FakeRunner(model), cache)
    assert {dict(row.default.configuration.values)["block"] for row in rows} == {128}


def test_a_second_build_launches_nothing_and_finds_the_same(spec, tmp_path):
    with Cache(tmp_path / "cache") as cache:
        first, _, _ = run(spec, FakeRunner(model), cache)
    with Cache(tmp_path / "cache") as cache:
        gpu = FakeRunner(model)
        second, events, spending = run(spec, gpu, cache)
    assert second == first
    assert (spending.launched, gpu.requests) == (0, [])
    assert all(event.cached for event in events if isinstance(event, Decided))


def test_what_is_measured_anew_replaces_what_was_and_is_compiled_no_second_time(spec, tmp_path):
    with Cache(tmp_path / "cache") as cache:
        run(spec, FakeRunner(model), cache)
    with Cache(tmp_path / "cache", anew=True) as cache:
        again, _, spending = run(spec, FakeRunner(lambda *given: 2 * model(*given)), cache)
    assert spending.launched > 0
    assert spending.compiled == 0
    with Cache(tmp_path / "cache") as cache:
        later, _, spending = run(spec, FakeRunner(model), cache)
    assert spending.launched == 0
    assert later == again


def test_a_spent_budget_keeps_what_was_measured(spec, tmp_path):
    with Cache(tmp_path / "cache") as cache:
        found, events, _ = run(spec, FakeRunner(model), cache, clock=Clock(-1.0))
        assert found == []
        assert events[-1] == OutOfBudget(rows=4)
        assert [type(event) for event in events] == [Planned, OutOfBudget]
        some, _, before = run(spec, FakeRunner(model), cache, problems=all_problems(spec)[:2])
        rest, _, after = run(spec, FakeRunner(model), cache)
    assert rest[:2] == some
    assert 0 < after.launched <= before.launched


def test_a_build_that_dies_in_the_middle_loses_nothing_that_was_measured(spec, tmp_path):
    class Dying(FakeRunner):
        def screened(self, entry, *, verify):
            if len(self.requests) == 3:
                raise KeyboardInterrupt
            return super().screened(entry, verify=verify)

    with Cache(tmp_path / "cache") as cache, pytest.raises(KeyboardInterrupt):
        run(spec, Dying(model), cache)
    with Cache(tmp_path / "cache") as cache:
        gpu = FakeRunner(model)
        run(spec, gpu, cache, problems=all_problems(spec)[:1])
    assert gpu.requests.count("screen") == 6 - 3


def test_an_incumbent_that_ties_stays(spec):
    problem = all_problems(spec)[0]

    def tied(values, dims):
        return 5.0 if values["vec"] == 4 else 10.0

    rows, _, _ = run(spec, FakeRunner(tied), problems=[problem])
    other = next(c for c in (128, 256) if c != winner(rows[0])["block"])
    incumbent = rows[0].winner.configuration.__class__(implementation="main", values=(("block", other), ("vec", 4)))
    again, _, _ = run(spec, FakeRunner(tied), problems=[problem], incumbents={problem: (incumbent,)})
    assert again[0].winner.configuration == incumbent


def test_it_is_said_what_is_ahead_before_it_starts(spec):
    _, events, _ = run(spec, FakeRunner(model), clock=Clock(60.0))
    (plan,) = (event for event in events if isinstance(event, Planned))
    assert (plan.kernels, plan.rows, plan.configurations, plan.sources) == (1, 4, 12, 12)
    assert plan.seconds > 0
    assert round(plan.budget_s) == 60


def test_what_crashed_in_one_build_is_not_tried_in_the_next(spec, tmp_path):
    planted = {"wrong": lambda values, dims: values["vec"] == 4}
    with Cache(tmp_path / "cache") as cache:
        run(spec, FakeRunner(model, **planted), cache, problems=all_problems(spec)[:1])
        gpu = FakeRunner(model, **planted)
        rows, _, _ = run(spec, gpu, cache, problems=all_problems(spec)[1:2])
    assert gpu.requests.count("screen") == 4  # of six configurations, two were wrong at the other size
    assert winner(rows[0])["vec"] == 2


def test_times_with_warm_caches_are_not_those_with_cold_ones(tmp_path):
    cold, warm = loaded(tmp_path), loaded(tmp_path, ("format  = 1\n", 'format  = 1\ncache = "warm"\n'))
    with Cache(tmp_path / "cache") as cache:
        run(cold, FakeRunner(model), cache)
        _, _, spending = run(warm, FakeRunner(model), cache)
    assert spending.launched > 0


def test_while_others_measure_the_first_sources_compile(spec, tmp_path):
    binaries = FakeBinaries()
    compiled = []

    def wait(meanwhile):
        meanwhile()
        compiled.extend(binaries.compiled)

    workbench = fake_workbench(FakeRunner(model), binaries=binaries, take_device=wait)
    list(Tuner(workbench).tune([TuningRequest(spec=spec, problems=tuple(all_problems(spec)))]))
    assert len(compiled) == 3  # a candidate differs from its neighbour by the launch alone


def test_what_others_have_settled_in_the_meantime_is_taken_over(spec, tmp_path):
    with Cache(tmp_path / "cache") as cache:
        gpu = FakeRunner(model)
        rows, _, spending = run(spec, gpu, cache, take_device=lambda _: run(spec, FakeRunner(model), cache))
    assert (len(rows), spending.launched, gpu.requests) == (4, 0, [])


def test_seconds_are_counted_by_kernel(spec):
    _, _, spending = run(spec, FakeRunner(model))
    assert spending.by_kernel["scale"]["screening"] > 0
    total = sum(sum(stages.values()) for stages in spending.by_kernel.values())
    assert total == pytest.approx(sum(spending.seconds.values()))


def test_a_noisy_row_is_reported_marked_and_measured_again_by_the_next_build(spec, tmp_path):
    class Slowing(FakeRunner):
        def race(self, entries, rounds, **given):
            raced = super().race(entries, rounds, **given)
            return replace(raced, canary_us=(20.0, 30.0))

    with Cache(tmp_path / "cache") as cache:
        rows, events, _ = run(spec, Slowing(model), cache, problems=all_problems(spec)[:1])
        assert rows[0].noise == "clocks were 33% below their best"
        assert [event.attempt for event in events if isinstance(event, Noisy)][:2] == [1, 2]
        again, _, spending = run(spec, FakeRunner(model), cache, problems=all_problems(spec)[:1])
    assert (again[0].noise, spending.launched > 0) == ("", True)
