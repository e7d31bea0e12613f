"""Selections against a made-up GPU: what ships, what runs where nobody tuned, and what the certificate says."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fake_runner import DEVICE, FakeBinaries, FakeRunner, asks_for_types, fake_workbench
from pretuned.compile.result import Resources
from pretuned.measure.requests import Raced, Screened, TooLarge, Verified
from pretuned.measure.runner import TuningError
from pretuned.outcome import LaunchFailed
from pretuned.record.cache import Cache
from pretuned.record.rows import Row, Skipped
from pretuned.record.selections import Selection, confirms
from pretuned.record.usage import digest_of
from pretuned.spec import space
from pretuned.spec.space import Problem, all_problems
from pretuned.tune import results, selecting, tuner
from pretuned.tune.certification import Certification, ComparedPick, Comparisons
from pretuned.tune.events import Certified, Refining
from pretuned.tune.observation import Observations
from pretuned.tune.request import EffortProfile, TuningRequest
from pretuned.tune.selecting import SURVEY_SEED, TRIAL_SEED, SelectionMaker
from pretuned.tune.selection import Predictor, ranking
from pretuned.tune.selection.predictor import UNKNOWN
from pretuned.tune.spending import Spending
from pretuned.tune.task import TuningTask
from pretuned.tune.tuner import Tuner
from pretuned.tune.workbench import Clock, Demands
from specs import loaded

PROFILE = EffortProfile(surveyed_problems=10, tried_problems=24, certified_problems=12)


def tails(values, dims):
    """Wide vectors are fast at large sizes; block 128 is slower there."""
    n, vec = dims["n"], values["vec"]
    return 2.0 + 0.4 * vec + n / 8192 / vec**0.5 * (1.2 if values["block"] == 128 else 1.0)


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


def tuned(spec, gpu, cache=None, **given):
    """Return the rows and the selection of the first specialisation, and the events."""
    events = []
    problems = [p for p in all_problems(spec) if p.specialisation == all_problems(spec)[0].specialisation]
    request = TuningRequest(
        spec=spec, problems=tuple(problems), calls=given.pop("calls", {}), selections=given.pop("held", ())
    )
    device = replace(DEVICE, effort=given.pop("effort_profile", PROFILE))
    workbench = fake_workbench(gpu, cache=cache or Cache(None), listen=events.append, **given)
    workbench = replace(workbench, device=device)
    found = list(Tuner(workbench).tune([request]))
    rows = [one for one in found if isinstance(one, Row)]
    selections = [one for one in found if isinstance(one, Selection)]
    return rows, selections[0] if selections else None, events


def loss(spec, selection, n):
    """What the rule loses at size n, against the best of what is legal there."""
    problem = Problem(specialisation=selection.specialisation, dims=(("n", n),))
    order = ranking(selection, spec, problem, DEVICE.facts)
    took = tails(dict(order[0].values), {"n": n})
    able = [{"vec": vec, "block": block} for vec in (1, 2, 4) for block in (128, 256) if n % vec == 0]
    return took / min(tails(values, {"n": n}) for values in able) - 1


def test_the_rule_runs_what_is_fast_at_sizes_that_nobody_measured(spec):
    rows, selection, _ = tuned(spec, FakeRunner(tails))
    assert rows
    unseen = [1031, 2222, 3333, 4444, 7777, 10000, 20202, 33333, 44444, 60001, 64000]
    assert statistics.mean(loss(spec, selection, n) for n in unseen) < 0.01
    assert max(loss(spec, selection, n) for n in unseen) < 0.05


def test_the_certificate_says_what_is_lost_and_by_which_seed(spec):
    _, selection, events = tuned(spec, FakeRunner(tails))
    inside, outside = selection.certificate.inside, selection.certificate.outside
    assert (selection.certificate.seed, inside.problems, outside.problems) == (1, 12, 3)
    assert 0 <= inside.mean <= inside.p95 <= inside.worst < 0.1
    assert inside.slower == 0
    (certified,) = [event for event in events if isinstance(event, Certified)]
    assert certified.certificate == selection.certificate


@pytest.mark.parametrize(("chosen_us", "kept"), [(9.0, True), (10.0, True), (11.0, False)])
def test_a_rule_that_loses_more_than_the_default_does_not_ship(spec, chosen_us, kept):
    _, selection, _ = tuned(spec, FakeRunner(tails))
    assert len(selection.choices) > 1
    picks = tuple(
        ComparedPick(problem=problem, chosen_us=chosen_us + turn, best_us=8.0, default_us=10.0 + turn)
        for turn, problem in enumerate(all_problems(spec)[:2])
    )
    judged = Comparisons(selection=selection, seed=5, inside=picks, outside=picks[:1], calls=False)
    found = judged.kept().certified
    certificate = found.certificate
    if kept:
        assert found.choices == selection.choices
        assert certificate.inside.mean == round((2 * chosen_us + 1) / 16 - 1, 4)
    else:
        assert found.choices == selection.choices[-1:]
        assert (certificate.inside.slower, certificate.inside.mean) == (0, round(21 / 16 - 1, 4))


def test_a_launch_of_many_definitions_has_a_selection_too(tmp_path):
    written = "[let]\nwidth = 'ceil_div(n * sizeof(T), 16) if n * sizeof(T) % 16 == 0 else n'\n"
    lanes = " else ".join(f"{lanes} if width > {lanes // 2}" for lanes in (32, 16, 8, 4, 2))
    written += f"lanes = '{lanes} else 1'\n\n[space]"
    grid = 'grid     = ["ceil_div(n, 128 // lanes * block * vec if n <= 32 * lanes else block * vec)"]'
    spec = loaded(tmp_path, ("[space]", written), ('grid     = ["ceil_div(n, block * vec)"]', grid))
    rows, selection, _ = tuned(spec, FakeRunner(tails))
    assert rows
    assert loss(spec, selection, 33333) < 0.05


def test_rows_hold_what_ships_and_no_more_ship_than_are_asked_for(spec):
    demands = Demands(max_configurations=2)
    rows, selection, _ = tuned(spec, FakeRunner(tails), demands=demands)
    shipped = {choice.configuration for choice in selection.choices}
    assert len(shipped) == 2
    assert {choice.configuration for row in rows for choice in row.choices} <= shipped
    assert selection.choices[-1].configuration == rows[0].default.configuration


def test_what_is_the_best_at_one_listed_size_ships_though_no_cost_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(selecting, "LISTED", 1)
    sizes = str([2**power for power in range(10, 20)])
    spec = loaded(tmp_path, ("[1024, 65536]", sizes))

    def model(values, dims):
        odd = dims["n"] == 8192 and values == {"vec": 1, "block": 128}
        return tails(values, dims) * (0.5 if odd else 1.0)

    rows, _, _ = tuned(spec, FakeRunner(model))
    (row,) = (row for row in rows if dict(row.problem.dims)["n"] == 8192)
    assert dict(row.winner.configuration.values) == {"vec": 1, "block": 128}


def test_what_others_beat_where_they_are_legal_is_surveyed_where_they_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(selecting, "WHOLE", 0)

    def model(values, dims):  # wide vectors are far ahead, and block 128 twice as fast as the default of other sizes
        return dims["n"] / 512 * (0.1 if values["vec"] == 4 else 0.5 if values["block"] == 128 else 1.0)

    seen = []
    monkeypatch.setattr(SelectionMaker, "_try", lambda maker, *_: seen.append(maker.observed.times))
    tuned(loaded(tmp_path), FakeRunner(model))
    odd = [times for problem, times in seen[0].items() if dict(problem.dims)["n"] % 2]
    assert odd
    assert all({"vec": 1, "block": 128} in [dict(c.values) for c in times] for times in odd)


def test_seconds_of_choosing_leave_a_selection_its_problems(spec, monkeypatch):
    shortlist, slept = Predictor.shortlist, []

    def slow(*given):
        for name in ("monotonic", "perf_counter"):
            clock = getattr(time, name)
            monkeypatch.setattr(time, name, lambda clock=clock: clock() + 1000.0)
        slept.append(1000.0)
        return shortlist(*given)

    _, usual, _ = tuned(spec, FakeRunner(tails))
    monkeypatch.setattr(Predictor, "shortlist", slow)
    _, selection, _ = tuned(spec, FakeRunner(tails))
    assert slept
    assert selection.problems == usual.problems


def test_a_second_build_measures_nothing_and_finds_the_same(spec, tmp_path):
    with Cache(tmp_path / "cache") as cache:
        first = tuned(spec, FakeRunner(tails), cache)
        gpu = FakeRunner(tails)
        second = tuned(spec, gpu, cache)
    assert gpu.requests == []
    assert second[:2] == first[:2]
    (reported,) = [event for event in second[2] if isinstance(event, Certified)]
    assert (reported.certificate, reported.cached) == (first[1].certificate, True)


def test_another_way_to_make_selections_makes_them_anew(spec, tmp_path, monkeypatch):
    with Cache(tmp_path / "cache") as cache:
        _, first, _ = tuned(spec, FakeRunner(tails), cache)
        monkeypatch.setattr(Predictor, "margins", lambda *_: (40, 50))
        _, same, _ = tuned(spec, FakeRunner(tails), cache)
        monkeypatch.setattr(results, "SELECTING", results.SELECTING + 1)
        gpu = FakeRunner(tails)
        _, anew, _ = tuned(spec, gpu, cache)
    assert same == first
    assert anew.margins == (40, 50) != first.margins
    assert "screen" not in gpu.requests  # what was measured for the first one serves


def test_rows_that_are_decided_after_their_selection_hold_what_it_ships(spec, tmp_path, monkeypatch):
    demands = Demands(max_configurations=2)
    with Cache(tmp_path / "cache") as cache:
        with monkeypatch.context() as patch:
            patch.setattr(tuner, "keep_row", lambda _task, _row: None)  # as noisy rows are not kept
            _, selection, _ = tuned(spec, FakeRunner(tails), cache, demands=demands)
        rows, found, _ = tuned(spec, FakeRunner(tails), cache, demands=demands)
    assert found == selection
    shipped = {choice.configuration for choice in selection.choices}
    assert {choice.configuration for row in rows for choice in row.choices} <= shipped


def test_what_an_interrupted_build_has_measured_is_not_measured_again(spec, tmp_path):
    class Dying(FakeRunner):
        def race(self, *args, **given):
            if self.requests.count("race") == 20:
                raise KeyboardInterrupt
            return super().race(*args, **given)

    with Cache(tmp_path / "cache") as cache:
        with pytest.raises(KeyboardInterrupt):
            tuned(spec, Dying(tails), cache)
        gpu = FakeRunner(tails)
        tuned(spec, gpu, cache)
    whole = FakeRunner(tails)
    tuned(spec, whole)
    assert gpu.requests.count("screen") < whole.requests.count("screen")
    assert gpu.requests.count("race") < whole.requests.count("race") - 15


def test_what_is_wrong_at_a_ragged_size_never_ships(spec):
    def wrong(values, dims):
        return values["vec"] == 4 and dims["n"] % 8 == 4

    rows, selection, _ = tuned(spec, FakeRunner(tails, wrong=wrong))
    assert all(dict(choice.configuration.values)["vec"] != 4 for choice in selection.choices)
    assert rows


class Trusting(FakeRunner):
    """What a candidate is judged by may be the default's results, wrong or right."""

    def prepare(self, request):
        self.trusts, self.default = request.trust_default, request.default
        if self.lacking(request):
            raise TuningError("scale: no reference at such a size")
        return super().prepare(request)

    def lacking(self, request):
        return False

    def _failure(self, entry):
        failure, trusted = super()._failure(entry), super()._failure(self.default) if self.trusts else None
        return (failure or trusted) if (failure is None) != (trusted is None) else None


def at_fours(values, dims):
    """Whether the default alone is wrong: at no listed size, and at none that lies around one."""
    return values == {"vec": 1, "block": 256} and dims["n"] % 8 == 4 and dims["n"] > 1024


def test_what_is_refused_at_one_drawn_problem_alone_ships_and_never_races_there(spec, monkeypatch):
    fastest, refused, raced = {"vec": 4, "block": 256}, set(), []
    drawn = SelectionMaker.drawn

    def kept(maker, count, seed, beside):
        found = drawn(maker, count, seed, beside)
        if seed == SURVEY_SEED:
            refused.add(max(n for problem in found if (n := dict(problem.dims)["n"]) % 4 == 0))
        return found

    class NoRoom(FakeRunner):
        def _lacks(self, entry):
            return dict(entry.configuration.values) == fastest and self.dims["n"] in refused

        def screened(self, entry, *, verify):
            if self._lacks(entry):
                return Screened(outcome=LaunchFailed(message="scratch: no room"), device_s=0.001)
            return super().screened(entry, verify=verify)

        def race(self, entries, rounds, **given):
            raced.extend(filter(self._lacks, entries))
            return super().race(entries, rounds, **given)

    monkeypatch.setattr(SelectionMaker, "drawn", kept)
    _, selection, _ = tuned(spec, NoRoom(tails))
    assert refused
    assert raced == []
    assert fastest in [dict(choice.configuration.values) for choice in selection.choices]


def test_what_was_timed_at_a_problem_stays_known_when_it_is_surveyed_again(tmp_path, monkeypatch):
    blocks = str(list(range(32, 1025, 32)))
    spec = loaded(tmp_path, ("block = [128, 256]", f"block = {blocks}"))
    specialisation = all_problems(spec)[0].specialisation
    called = (1024, 3000, 4096, 8192, 12000, 30000, 65536)
    calls = {Problem(specialisation=specialisation, dims=(("n", n),)): 100 for n in called}
    survey, again, lost = Observations.survey, [], []

    def surveyed(observed, problem, candidates, **given):
        before = set(observed.times.get(problem, ()))
        found = survey(observed, problem, candidates, **given)
        if before:
            again.append(problem)
            lost.extend(before - set(observed.times[problem]))
        return found

    monkeypatch.setattr(Observations, "survey", surveyed)
    tuned(spec, FakeRunner(tails), calls=calls)
    assert again
    assert lost == []


def test_where_the_default_alone_is_wrong_no_other_is_blamed(spec):
    with pytest.raises(TuningError, match=r"the default \(block=256, vec=1\) fails at n=\d+, T=float16: y: off; mend"):
        tuned(spec, Trusting(tails, wrong=at_fours))


def test_where_the_reference_fails_too_what_differs_from_the_default_does_not_ship(spec):
    class Lacking(Trusting):
        def lacking(self, request):
            listed = request.problem in all_problems(spec) or dict(request.problem.dims)["n"] % 8 != 4
            return not listed and request.reference == "now" and not request.trust_default

    rows, selection, _ = tuned(spec, Lacking(tails, wrong=at_fours))
    assert [choice.configuration for choice in selection.choices] == [rows[0].default.configuration]


class Unforeseen(FakeRunner):
    """Times that are off by what no rule can know."""

    def _sample(self, entry):
        values = dict(entry.configuration.values)
        return tails(values, self.dims) * (1 + (hash_of(values, self.dims) % 40) / 100)


def test_more_is_measured_until_the_loss_that_is_allowed_holds_or_the_budget_ends(spec):
    ticks = iter(range(10**6))

    class Ending(Clock):
        @property
        def over(self):
            return next(ticks) > 200

    _, _, events = tuned(spec, Unforeseen(tails), demands=Demands(max_loss=0.001), clock=Ending())
    refined = [event for event in events if isinstance(event, Refining)]
    seeds = [event.certificate.seed for event in refined]
    assert len(seeds) > 1
    assert seeds == sorted(set(seeds))
    (last,) = [event for event in events if isinstance(event, Certified)]
    assert last.attempts >= len(refined)
    assert last.certificate.inside.mean > 0.001
    assert last.spent


@pytest.mark.parametrize(("runner", "most", "refined"), [(Unforeseen, 2, 2), (Unforeseen, 0, 0), (FakeRunner, 2, 0)])
def test_a_selection_that_loses_much_is_refined_without_being_asked(spec, runner, most, refined):
    profile = replace(PROFILE, refinements=most)
    workbench = fake_workbench(runner(tails), listen=(events := []).append)
    workbench = replace(workbench, device=replace(DEVICE, effort=profile))
    list(Tuner(workbench).tune([TuningRequest(spec=spec, problems=tuple(all_problems(spec)))]))
    for specialisation in {one.specialisation for one in events if isinstance(one, Certified)}:
        found = [one for one in events if getattr(one, "specialisation", None) == specialisation]
        losses = [one.certificate.inside.mean for one in found if isinstance(one, Refining)]
        (last,) = [one for one in found if isinstance(one, Certified)]
        assert (len(losses), last.attempts) == (refined, refined)
        assert all(loss > 0.05 for loss in losses)


@pytest.mark.parametrize("ended", ["over", "late"])
@pytest.mark.parametrize("asked", [None, 0.001])
def test_where_time_ends_while_a_selection_is_refined_the_one_before_stays_with_its_certificate(spec, ended, asked):
    events = []

    class Ending(Clock):
        over = property(lambda self: ended == "over" and any(isinstance(one, Refining) for one in events))
        late = property(lambda self: ended == "late" and any(isinstance(one, Refining) for one in events))

    workbench = fake_workbench(Unforeseen(tails), clock=Ending(), listen=events.append)
    workbench = replace(workbench, device=replace(DEVICE, effort=PROFILE), demands=Demands(max_loss=asked))
    specialisation, *_ = space.specialisations(spec)
    problems = tuple(one for one in all_problems(spec) if one.specialisation == specialisation)
    found = list(Tuner(workbench).tune([TuningRequest(spec=spec, problems=problems)]))
    (selection,) = (one for one in found if isinstance(one, Selection))
    first, *others = (one.certificate for one in events if isinstance(one, Refining))
    (last,) = (one for one in events if isinstance(one, Certified))
    assert selection.certificate == last.certificate
    assert last.spent == (ended == "over")
    if ended == "over" or asked is None:
        assert others == []
        assert (last.certificate.seed, last.certificate.inside.problems) == (first.seed, 12)
    else:  # a `max-loss` has all of the budget
        assert len(others) > 2
        assert last.certificate.seed > first.seed


def test_of_a_refined_selection_and_the_one_before_the_better_ships(spec, monkeypatch):
    made, ordinary = [], SelectionMaker.selection

    class SlowDefault(Unforeseen):
        def _sample(self, entry):
            default = dict(entry.configuration.values) == {"block": 256, "vec": 1}
            return super()._sample(entry) * (2 if default else 1)

    def spoilt(maker):
        found = ordinary(maker)
        made.append(replace(found, choices=found.choices[-found.defaults :]) if made else found)
        return made[-1]

    monkeypatch.setattr(SelectionMaker, "selection", spoilt)
    monkeypatch.setattr("pretuned.tune.certification.REFINEMENTS", 2)
    _, selection, events = tuned(spec, SlowDefault(tails), demands=Demands(max_loss=0.001))
    first, *_ = [one.certificate for one in events if isinstance(one, Refining)]
    assert len(made) > 1
    assert len(made[0].choices) > 1
    assert replace(selection, certificate=None) == made[0]
    assert selection.certificate.seed > first.seed, "the same problems judge both"


def test_a_wrong_choice_of_a_refined_selection_leaves_the_one_before_its_certificate(spec, monkeypatch):
    made, ordinary, judged, judge = [], SelectionMaker.selection, [], Certification._judged

    class Ending(Clock):
        over = property(lambda self: len(judged) > 1)

    def without_the_first(maker):
        found = ordinary(maker)
        made.append(found if made else replace(found, choices=found.choices[1:]))
        return made[-1]

    def wrong_at_last(certification, selections, seed, **given):
        judged.append(selections)
        found = judge(certification, selections, seed, **given)
        if len(judged) == 2:
            certification.task.failed.add(selections[0].choices[0].configuration)
        return found

    monkeypatch.setattr(SelectionMaker, "selection", without_the_first)
    monkeypatch.setattr(Certification, "_judged", wrong_at_last)
    _, selection, _ = tuned(spec, Unforeseen(tails), demands=Demands(max_loss=0.001), clock=Ending())
    assert len(judged) == 3
    assert replace(selection, certificate=None).choices == made[0].choices
    assert selection.certificate.inside.problems == 12


def test_where_no_further_size_is_admitted_a_refined_selection_has_a_certificate_all_the_same(tmp_path):
    demand = 'requires = ["n % 128 == 0"]'
    spec = loaded(tmp_path, ("[constraints]\n", f"[constraints]\n{demand}\n"), ("[1024, 65536]", "[128, 7680]"))
    _, selection, events = tuned(spec, Unforeseen(tails), effort_profile=EffortProfile(tried_problems=30))
    assert any(isinstance(event, Refining) for event in events)
    assert selection.certificate.inside.problems > 3


def test_where_all_refinements_are_used_up_no_time_is_said_to_have_ended(spec, monkeypatch):
    monkeypatch.setattr("pretuned.tune.certification.REFINEMENTS", 1)
    _, _, events = tuned(spec, Unforeseen(tails), demands=Demands(max_loss=0.001))
    (last,) = [event for event in events if isinstance(event, Certified)]
    assert (last.attempts, last.spent) == (1, False)


def test_what_other_tasks_leave_of_their_time_goes_to_selections_made_in_a_hurry(spec):
    gpu, events = FakeRunner(tails), []

    class First(Clock):
        tasks = 0
        late = property(lambda self: self.tasks == 1 and gpu.requests.count("race") > 3)

        def begin_screening(self, share):
            self.tasks += 1

    workbench = fake_workbench(gpu, clock=First(), listen=events.append)
    workbench = replace(workbench, device=replace(DEVICE, effort=PROFILE))
    found = list(Tuner(workbench).tune([TuningRequest(spec=spec, problems=tuple(all_problems(spec)))]))
    hasty, *_, whole = (one for one in found if isinstance(one, Selection))
    assert hasty.specialisation == whole.specialisation
    assert hasty.space == ""
    assert whole.space
    assert whole.problems > hasty.problems
    rows = [one.problem for one in found if isinstance(one, Row)]
    assert len(rows) == len(set(rows))  # none is decided again
    first, *_, last = (event for event in events if isinstance(event, Certified))
    assert first.hurried
    assert not last.hurried
    assert last.certificate.seed > first.certificate.seed


def hash_of(values, dims):
    return sum(ord(char) * place for place, char in enumerate(f"{sorted(values.items())}{sorted(dims.items())}"))


def test_a_certificate_is_renewed_by_other_problems_and_nothing_is_tuned(spec):
    _, selection, _ = tuned(spec, FakeRunner(tails))
    gpu = FakeRunner(tails)
    workbench = fake_workbench(gpu, demands=Demands(certify=5))
    workbench = replace(workbench, device=replace(DEVICE, effort=PROFILE))
    request = TuningRequest(spec=spec, problems=(), selections=(selection,))
    (renewed,) = Tuner(workbench).tune([request])
    assert renewed.certificate.seed == selection.certificate.seed + 1
    assert renewed.certificate.inside.problems == 5
    assert replace(renewed, certificate=None) == replace(selection, certificate=None)


def test_what_renews_a_certificate_is_compiled_side_by_side(spec):
    class Compilers(FakeBinaries):
        def get(self, module, architecture):
            assert asks_for_types(module) or module.key in self.compiled, (
                "a compiler works alone on what is asked for late"
            )
            return super().get(module, architecture)

    _, selection, _ = tuned(spec, FakeRunner(tails), demands=Demands(max_configurations=2))
    workbench = fake_workbench(FakeRunner(tails), demands=Demands(certify=5), binaries=Compilers())
    workbench = replace(workbench, device=replace(DEVICE, effort=PROFILE))
    request = TuningRequest(spec=spec, problems=(), selections=(selection,))
    (renewed,) = Tuner(workbench).tune([request])
    assert renewed.certificate.inside.problems == 5


def test_a_choice_that_a_new_certificate_finds_wrong_is_taken_out(spec):
    def wrong(values, dims):
        return values["vec"] == 4

    _, selection, _ = tuned(spec, FakeRunner(tails))
    workbench = fake_workbench(FakeRunner(tails, wrong=wrong), demands=Demands(certify=5))
    workbench = replace(workbench, device=replace(DEVICE, effort=PROFILE))
    request = TuningRequest(spec=spec, problems=(), selections=(selection,))
    (left,) = Tuner(workbench).tune([request])
    assert {dict(choice.configuration.values)["vec"] for choice in selection.choices} >= {4}
    assert {dict(choice.configuration.values)["vec"] for choice in left.choices} == {1, 2}
    assert left.choices[-1] == selection.choices[-1]
    assert (left.certificate, left.space) == (None, "")  # the next tuning makes it anew


def test_sizes_that_have_rows_certify_nothing(tmp_path):
    spec = loaded(tmp_path, ("[constraints]\n", '[constraints]\nrequires = ["n == 1024 or n == 65536"]\n'))
    _, selection, _ = tuned(spec, FakeRunner(tails))
    assert selection.certificate is None
    assert selection.keeps_to(0.01)
    with Cache(tmp_path / "cache") as cache:
        first, again = tuned(spec, FakeRunner(tails), cache), FakeRunner(tails)
        assert tuned(spec, again, cache)[:2] == first[:2]
    assert again.requests == [], "without a certificate too, it is made once"


def test_no_certificate_speaks_of_a_problem_that_its_rule_has_seen(tmp_path):
    demand = 'requires = ["n >= 1024", "n <= 1063"]'
    spec = loaded(tmp_path, ("[constraints]\n", f"[constraints]\n{demand}\n"), ("1024, 65536", "1024, 1063"))
    _, selection, _ = tuned(spec, FakeRunner(tails))
    assert 1 <= selection.certificate.inside.problems <= 40 - selection.problems
    assert selection.certificate.outside is None


def test_where_no_dim_is_free_there_is_no_selection(tmp_path):
    spec = loaded(tmp_path, ("sizes = [1024, 65536]", "values = [1024, 65536], constant = true"))
    rows, selection, _ = tuned(spec, FakeRunner(lambda values, dims: 1.0))
    assert rows
    assert selection is None


def test_a_selection_that_is_missing_is_made_beside_rows_that_are_known(spec, tmp_path):
    with Cache(tmp_path / "cache") as cache:
        rows, _, _ = tuned(spec, FakeRunner(tails), cache)
        workbench = fake_workbench(FakeRunner(tails))
        workbench = replace(workbench, device=replace(DEVICE, effort=PROFILE))
        request = TuningRequest(spec=spec, problems=(), select=(rows[0].specialisation,))
        (found,) = Tuner(workbench).tune([request])
    assert isinstance(found, Selection)
    assert found.certificate is not None


def test_a_problem_that_does_not_fit_the_device_is_left_out_of_all(spec):
    gpu = FakeRunner(tails, too_large=lambda dims: dims["n"] > 65536)
    rows, selection, _ = tuned(spec, gpu)
    assert len(rows) == len({row.problem for row in rows})
    assert dict(selection.reach)["n"][1] <= 65536


@pytest.mark.parametrize("held", [(), (1024,)], ids=["no row", "one row"])
def test_where_no_problem_fits_the_device_all_are_skipped_and_other_kernels_are_tuned(spec, tmp_path, held):
    other = tmp_path / "other"
    other.mkdir()
    other = loaded(other).model_copy(update={"name": "other"})
    both = [spec, other]

    class Full(FakeRunner):
        def prepare(self, request):
            full = request.spec.name == "scale" and (self.filling or dict(request.problem.dims)["n"] not in held)
            return TooLarge(reason="takes 99 GB") if full else super().prepare(request)

        filling = False

        def screened(self, entry, *, verify):
            self.filling = True  # what others take while this is measured
            return super().screened(entry, verify=verify)

    problems = all_problems(spec)[:2]
    requests = [TuningRequest(spec=one, problems=tuple(problems)) for one in both]
    workbench = replace(fake_workbench(Full(tails)), device=replace(DEVICE, effort=PROFILE))
    found = list(Tuner(workbench).tune(requests))
    skipped = [one for one in found if isinstance(one, Skipped)]
    assert {one.kernel for one in skipped} == {"scale"}
    assert len(skipped) + sum(isinstance(one, Row) and one.kernel == "scale" for one in found) == len(problems)
    assert {one.kernel for one in found if isinstance(one, Selection)} == {"other"}
    assert [one.problem for one in found if isinstance(one, Row) and one.kernel == "other"] == list(problems)


@pytest.mark.parametrize("requests", [3, 6, 12, 40])
def test_memory_that_others_take_meanwhile_costs_rows_and_no_more(spec, requests):
    class Filling(FakeRunner):
        left = requests

        def prepare(self, request):
            self.left -= 1
            return TooLarge(reason="takes 99 GB") if self.left < 0 else super().prepare(request)

    workbench = replace(fake_workbench(Filling(tails)), device=replace(DEVICE, effort=PROFILE))
    problems = all_problems(spec)[:2]
    found = list(Tuner(workbench).tune([TuningRequest(spec=spec, problems=tuple(problems))]))
    kinds = [type(one) for one in found]
    assert kinds.count(Row) + kinds.count(Skipped) == len(problems)
    assert kinds.count(Selection) <= kinds.count(Row)


class Large(FakeRunner):
    """Where the default finds no room for its scratch, a launch is refused."""

    def _refused(self, entry):
        default = dict(entry.configuration.values) == {"vec": 1, "block": 256}
        return LaunchFailed(message="scratch: no room") if default and self.dims["n"] > self.most else None

    most = 65536

    def prepare(self, request):
        found = super().prepare(request)
        refused = self._refused(request.default) if request.trust_default else None
        return TooLarge(reason=refused.message) if refused else found

    def verify(self, entry):
        return Verified(failure=self._refused(entry)) if self._refused(entry) else super().verify(entry)

    def screened(self, entry, *, verify):
        refused = self._refused(entry)
        return Screened(outcome=refused) if refused else super().screened(entry, verify=verify)

    def race(self, entries, rounds, **given):
        failures = tuple(self._refused(entry) for entry in entries)
        refused = Raced(times_us=((),) * len(entries), failures=failures)
        return refused if any(failures) else super().race(entries, rounds, **given)


def test_a_size_that_nobody_listed_is_left_out_where_the_default_cannot_be_launched(spec):
    rows, selection, _ = tuned(spec, Large(tails))
    assert [dict(row.problem.dims)["n"] for row in rows] == [1024, 65536]
    assert dict(selection.reach)["n"][1] <= 65536
    assert selection.certificate.inside.problems


def test_no_size_is_drawn_at_which_the_device_cannot_hold_a_cooperative_default(tmp_path):
    spec = loaded(tmp_path, ('block    = ["block"]', 'block    = ["block"]\ncooperative = true'))

    class Heavy(FakeBinaries):
        def get(self, module, architecture):
            made = super().get(module, architecture)
            made.resources["scale"] = Resources(registers=128, spill_bytes=0, shared_bytes=0)
            return made

    rows, selection, _ = tuned(spec, FakeRunner(tails), binaries=Heavy())
    assert len(rows) == 2
    held = 2 * 256 * DEVICE.facts.sm_count  # by their registers, two blocks of 256 threads on each SM
    assert 65536 <= dict(selection.reach)["n"][1] <= held


def test_a_default_that_cannot_be_launched_at_a_listed_size_says_so(spec):
    gpu = Large(tails)
    gpu.most = 1024
    with pytest.raises(TuningError) as error:
        tuned(spec, gpu)
    assert str(error.value) == (
        "scale: the default (block=256, vec=1) fails at n=65536, T=float16: scratch: no room; choose a default that "
        "can be launched there, or demand in `requires` what it needs"
    )


def test_what_is_legal_at_one_listed_size_alone_is_sanitized_there(tmp_path):
    spec = loaded(tmp_path, ('"n % vec == 0"', '"n == 65536 or vec == 1"'))
    seen = {}

    class Sanitizer:
        def finding(self, request, configuration, _source):
            seen[configuration] = dict(request.problem.dims)["n"]

    rows, _, _ = tuned(spec, FakeRunner(tails), sanitizer=Sanitizer())
    assert dict(rows[1].winner.configuration.values)["vec"] > 1
    assert {n for configuration, n in seen.items() if dict(configuration.values)["vec"] > 1} == {65536}


FEW_SIZES = ("n == 1024", "n == 1024 or n == 2048", "n % 1024 == 0", "n % 1024 == 0 and n <= 4096", "n < 1200")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Kernels that admit few sizes, by what they demand and their own sizes."""

    def few(demand, sizes):
        folder = tmp_path_factory.mktemp("few")
        edits = ("[constraints]\n", f'[constraints]\nrequires = ["{demand}"]\n'), ("[1024, 65536]", str(list(sizes)))
        return loaded(folder, *edits)

    return lru_cache(few)


@settings(max_examples=4, deadline=None)
@given(
    demand=st.sampled_from(FEW_SIZES),
    sizes=st.sampled_from(([1024], [1024, 1100], [512, 1024, 2048])),
    room=st.sampled_from((0, 1024, 10**9)),
    called=st.dictionaries(st.sampled_from((512, 1024, 2048, 3072)), st.integers(0, 9)),
    counts=st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(0, 5)),
)
@example(demand="n % 1024 == 0", sizes=[1024], room=10**9, called={}, counts=(10, 24, 12))
@example(demand="n == 1024 or n == 2048", sizes=[1024], room=10**9, called={512: 3, 2048: 1}, counts=(10, 24, 12))
def test_a_kernel_that_admits_few_sizes_is_tuned(few, demand, sizes, room, called, counts):
    spec = few(demand, tuple(sizes))
    specialisation = all_problems(spec)[0].specialisation
    calls = {Problem(specialisation=specialisation, dims=(("n", n),)): count for n, count in called.items()}
    surveyed, tried, certified = counts
    profile = EffortProfile(surveyed_problems=surveyed, tried_problems=tried, certified_problems=certified)
    rows, selection, _ = tuned(
        spec, FakeRunner(tails, too_large=lambda dims: dims["n"] > room), calls=calls, effort_profile=profile
    )
    fitting = [p for p in all_problems(spec) if p.specialisation == specialisation and dict(p.dims)["n"] <= room]
    assert [row.problem for row in rows] == fitting
    assert (selection is not None) == bool(fitting)


@settings(max_examples=40, deadline=None)
@given(
    demand=st.sampled_from(FEW_SIZES),
    count=st.integers(0, 40),
    seed=st.integers(0, 1000),
    called=st.sets(st.sampled_from((512, 1024, 2048, 3072))),
)
def test_drawn_problems_are_distinct(few, demand, count, seed, called):
    spec = few(demand, (1024,))
    specialisation = all_problems(spec)[0].specialisation
    task = TuningTask(fake_workbench(FakeRunner(tails)), spec, specialisation, all_problems(spec)[:1])
    calls = {Problem(specialisation=specialisation, dims=(("n", n),)): 5 for n in called}
    drawn = SelectionMaker(task, task.problems, task.problems, calls).drawn(count, seed, task.problems)
    assert len(drawn) == len(set(drawn)) <= count
    assert all(space.admitted(spec, problem) for problem in drawn)


def test_the_order_in_which_sources_compile_decides_nothing(spec):
    class Late(FakeBinaries):
        """Every second source is compiled only once the others are."""

        def find(self, module, architecture):
            late = int(module.key[:2], 16) % 2 and self.asked < 60
            self.asked += 1
            return None if late else self.get(module, architecture)

        asked = 0

    class Exact(FakeRunner):
        def _sample(self, entry):
            return tails(dict(entry.configuration.values), self.dims)

    first = tuned(spec, Exact(tails))
    second = tuned(spec, Exact(tails), binaries=Late())
    assert first[:2] == second[:2]


def test_calls_draw_the_problems_of_the_certificate(spec):
    specialisation = all_problems(spec)[0].specialisation
    calls = {Problem(specialisation=specialisation, dims=(("n", n),)): 1000 for n in (3001, 3003)}
    _, selection, _ = tuned(spec, FakeRunner(tails), calls=calls)
    assert selection.certificate.calls
    assert selection.usage == digest_of(calls)
    bare = tuned(spec, FakeRunner(tails))[1]
    assert bare.usage == ""
    assert not confirms(replace(selection, usage=""), selection), "what was chosen by other calls is kept by its own"


def test_spending_names_what_selections_cost(spec):
    spending = Spending()
    tuned(spec, FakeRunner(tails), spending=spending)
    assert {"surveying", "trying ragged sizes", "choosing", "certifying"} <= spending.seconds.keys()


def test_the_default_alone_is_a_selection_too(spec):
    def flat(values, dims):
        return (10.0 if values == {"vec": 1, "block": 256} else 20.0) + dims["n"] / 1e5

    _, selection, _ = tuned(spec, FakeRunner(flat))
    assert selection.certificate.inside.slower == 0


@pytest.mark.parametrize("raced", [0, 4, 20])
def test_a_selection_that_was_made_in_a_hurry_takes_the_default_unless_much_is_to_be_gained(spec, monkeypatch, raced):
    begun = []

    class Ending(Clock):
        @property
        def late(self):
            return len(begun) >= raced

    drawn = SelectionMaker.drawn

    def counted(measure):
        def measured(observed, problem, *given, **named):
            found = measure(observed, problem, *given, **named)
            if tried and problem in tried[-1]:
                begun.append(problem)
            return found

        return measured

    tried = []

    def kept(maker, count, seed, beside):
        found = drawn(maker, count, seed, beside)
        if seed == TRIAL_SEED:
            tried.append(found)
        return found

    monkeypatch.setattr(SelectionMaker, "drawn", kept)
    monkeypatch.setattr(Observations, "race_at", counted(Observations.race_at))
    monkeypatch.setattr(Observations, "survey", counted(Observations.survey))
    monkeypatch.setattr(SelectionMaker, "late", property(lambda maker: tried and maker.task.workbench.clock.late))
    _, selection, events = tuned(spec, FakeRunner(tails), clock=Ending())
    (certified,) = [event for event in events if isinstance(event, Certified)]
    assert selection.space == ""
    assert certified.hurried == (raced < 12)
    assert (selection.margins == UNKNOWN) == (raced < 12)
