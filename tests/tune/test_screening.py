"""The pipeline: batches, modules that arrive in any order, spills, seeds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from builders import H100
from fake_runner import FakeBinaries, FakeRunner, asks_for_types, fake_workbench
from pretuned.compile.result import Resources
from pretuned.record.cache import Cache
from pretuned.spec import space
from pretuned.spec.space import all_problems
from pretuned.strategies import NamedStrategy
from pretuned.strategies.hybrid import Hybrid
from pretuned.tune.batches import Batches
from pretuned.tune.request import EffortProfile, TuningDevice, TuningRequest
from pretuned.tune.screening import Screening
from pretuned.tune.task import TuningTask
from pretuned.tune.tuner import Tuner
from pretuned.tune.workbench import Clock, Demands
from specs import SCALE, edited, loaded

BLOCKS = str(list(range(32, 1025, 8)))


def model(values, dims):
    return 1000.0 / values["vec"] + abs(values["block"] - 600) / 10


class Late(FakeBinaries):
    """Modules are there in an order of their own, one more at each look that waits."""

    def __init__(self, seed, spilling=lambda _source: False):
        super().__init__()
        self.order, self.waiting, self.spilling = random.Random(seed), [], spilling

    def request(self, jobs, *, first=False):
        modules = [module for module, _ in jobs if not asks_for_types(module)]
        fresh = [module.key for module in modules if module.key not in self.compiled | set(self.waiting)]
        self.waiting += dict.fromkeys(fresh)
        return len(fresh)

    def poll(self, *, wait_s=0.0):
        if wait_s != 0:
            self.compiled.add(self.waiting.pop(self.order.randrange(len(self.waiting))))

    def find(self, module, architecture):
        return self.get(module, architecture) if module.key in self.compiled else None

    def get(self, module, architecture):
        if module.key in self.waiting:
            self.waiting.remove(module.key)
        if not asks_for_types(module):
            self.compiled.add(module.key)
        made = super().get(module, architecture)
        if self.spilling(module.text):
            made.resources["scale"] = Resources(registers=255, spill_bytes=64, shared_bytes=0)
        return made


class Laggard(Late):
    """Every seventh module or so is there once nothing else is left to wait for."""

    def poll(self, *, wait_s=0.0):
        if wait_s != 0:
            prompt = [key for key in self.waiting if int(key, 16) % 7]
            key = self.order.choice(prompt or self.waiting)
            self.waiting.remove(key)
            self.compiled.add(key)


class Repeatable(FakeRunner):
    """What a candidate takes does not depend on what was measured before it."""

    def _sample(self, entry):
        self.random = random.Random(f"{entry.configuration} {self.dims}")
        return super()._sample(entry)


def screened(spec, binaries, strategy=None, problems=None, **given):
    if strategy:
        given["demands"] = Demands(strategy=NamedStrategy(name="test", make=strategy))
    workbench = fake_workbench(Repeatable(model), binaries=binaries, **given)
    chosen = problems or [problem for problem in all_problems(spec) if dict(problem.specialisation)["T"] == "float32"]
    task = TuningTask(workbench, spec, chosen[0].specialisation, chosen)
    screening = Screening(task, chosen)
    screening.run()
    assert screening.whole
    return task


SUMMARY = next(line for line in SCALE.splitlines(keepends=True) if line.startswith("summary"))


def wide_of(folder, *edits):
    # The block stands in the template, so that every configuration is a module of its own.
    template = 'constexpr int vec = {{ vec }}, block = {{ block }};\nextern "C" __global__ void scale() {}\n'
    return loaded(folder, toml=edited(SCALE, ("[128, 256]", BLOCKS), *edits), template=template)


@pytest.fixture
def wide(tmp_path):
    return wide_of(tmp_path)


@pytest.mark.parametrize("arriving", [Late, Laggard])
def test_the_order_in_which_modules_arrive_decides_nothing(wide, arriving):
    problem = all_problems(wide)[-1:]

    def found(binaries):
        task = screened(wide, binaries, lambda size, first: Hybrid(size, first, evaluations=128), problem)
        return list(task.times[problem[0]].items())

    promptly, *others = [found(FakeBinaries()), *(found(arriving(seed)) for seed in (1, 2, 3))]
    for other in others:
        assert dict(other) == dict(promptly)
        assert other != promptly
    assert len(promptly) == 128


def test_a_strategy_is_told_which_rows_count_as_under_way(wide):
    asked, told = [], []

    class Watching(Hybrid):
        def propose(self, codes, times_us):
            told.append((set(self.under_way), set(times_us)))
            asked.append(super().propose(codes, times_us))
            return asked[-1]

    screened(wide, FakeBinaries(), lambda size, first: Watching(size, first, evaluations=96), all_problems(wide)[-1:])
    assert told[0] == (set(), set())
    for (under_way, known), last in zip(told[1:], asked, strict=False):
        assert under_way in (set(last), set())  # none where all are timed, before a search ends
        assert under_way <= known
    assert any(under_way for under_way, _ in told)


def test_where_sources_take_seconds_too_two_batches_are_asked_for_at_once(wide):
    class Slow(Late):
        def compile_s(self, _source):
            return 3.0

    told = []

    class Watching(Hybrid):
        def propose(self, codes, times_us):
            told.append((len(times_us) - len(self.under_way), len(self.under_way)))
            return super().propose(codes, times_us)

    problem = all_problems(wide)[-1:]
    screened(wide, Slow(0), lambda size, first: Watching(size, first, evaluations=96), problem)
    (none, _), (timed, under_way), (learned_from, waiting), *_ = told
    assert none == 0
    assert (timed + under_way, timed < 8) == (32, True)
    assert (learned_from + waiting, waiting) == (48, 12)


def test_what_a_search_tries_first_compiles_while_its_default_does(wide):
    binaries, compiled = FakeBinaries(), []

    class Noting(FakeRunner):
        def prepare(self, request):
            compiled.append(len(binaries.compiled))
            return super().prepare(request)

    effort = EffortProfile(surveyed_problems=0, tried_problems=0, certified_problems=0, exhaustive=64, evaluations=96)
    device = TuningDevice(record=H100, driver="580", effort=effort)
    request = TuningRequest(spec=wide, problems=tuple(all_problems(wide)[-1:]))
    assert list(Tuner(fake_workbench(Noting(model), binaries=binaries, device=device)).tune([request]))
    assert compiled[0] == 32
    assert len(binaries.compiled) == 96


def test_a_search_is_asked_once_for_what_it_tries_first(wide):
    told = []

    class Told(Hybrid):
        def propose(self, codes, times_us):
            told.append(len(times_us))
            return super().propose(codes, times_us)

    made = NamedStrategy(name="test", make=lambda size, first: Told(size, first, evaluations=96))
    effort = EffortProfile(surveyed_problems=0, tried_problems=0, certified_problems=0, exhaustive=64, evaluations=96)
    device = TuningDevice(record=H100, driver="580", effort=effort)
    workbench = fake_workbench(Repeatable(model), device=device, demands=Demands(strategy=made))
    workbench = replace(workbench, take_device=lambda meanwhile: meanwhile())
    request = TuningRequest(spec=wide, problems=tuple(all_problems(wide)[-1:]))
    assert list(Tuner(workbench).tune([request]))
    assert told.count(0) == 1


def test_a_large_space_is_searched_with_few_modules(wide):
    binaries = Late(0)
    problem = all_problems(wide)[-1:]
    task = screened(wide, binaries, lambda size, first: Hybrid(size, first, evaluations=96), problem)
    best = min(task.times[problem[0]], key=task.times[problem[0]].get)
    assert dict(best.values)["vec"] == 4
    assert len(binaries.compiled) == 96


def test_seeds_are_tried_first(tmp_path):
    seeds = "seeds = [{ block = 1016, vec = 2 }]\n"
    seeded = wide_of(tmp_path, (SUMMARY, f"{SUMMARY}{seeds}"))
    (seed,) = space.seeds(seeded)
    asked = []

    class Asked(Hybrid):
        def propose(self, codes, times_us):
            batch = super().propose(codes, times_us)
            asked.append((codes, batch))
            return batch

    task = screened(seeded, Late(0), lambda size, first: Asked(size, first, evaluations=64), all_problems(seeded)[-1:])
    batch = asked[0][1]
    assert task.points.index(seed) in batch[:2]
    assert batch[0] == 0


def test_a_candidate_that_spills_is_left_out_where_others_do_not(tmp_path):
    template = 'constexpr int vec = {{ vec }};\nextern "C" __global__ void scale() {}\n'
    spec = loaded(tmp_path, template=template)
    task = screened(spec, Late(0, spilling=lambda source: "vec = 4" in source))
    assert {dict(c.values)["vec"] for times in task.times.values() for c in times} == {1, 2}
    assert task.workbench.spending.pruned == {"spills registers": 2}


def test_a_candidate_that_spills_is_tried_where_no_other_works(tmp_path):
    template = 'constexpr int vec = {{ vec }};\nextern "C" __global__ void scale() {}\n'
    spec = loaded(tmp_path, template=template)
    task = screened(spec, Late(0, spilling=lambda _source: True))
    assert {dict(c.values)["vec"] for times in task.times.values() for c in times} == {1, 2, 4}
    assert task.workbench.spending.pruned["spills registers"] == 0


class Dear(FakeRunner):
    """Each candidate takes a second of a clock that nothing else moves but the start, once."""

    class Charged(Clock):
        seconds = 0.0

        @property
        def spent_s(self):
            return self.seconds

    def __init__(self, start_s=0.0):
        super().__init__(model)
        self.clock, self.start_s = self.Charged(), start_s

    def prepare(self, request):
        self.clock.seconds, self.start_s = self.clock.seconds + self.start_s, 0.0
        return super().prepare(request)

    def screened(self, entry, *, verify):
        self.clock.seconds += 1.0
        return super().screened(entry, verify=verify)


def searched(spec, *, binaries=None, calls=None, start_s=0.0, times=model, problems=(), incumbents=None, **profile):
    """The times of a search whose candidates take a second each, and the search."""
    gpu = Dear(start_s)
    gpu.time_us = times
    effort = EffortProfile(surveyed_problems=0, tried_problems=0, certified_problems=0, **profile)
    device = TuningDevice(record=H100, driver="580", effort=effort)
    workbench = fake_workbench(gpu, binaries=binaries or FakeBinaries(), clock=gpu.clock, device=device)
    chosen = problems or all_problems(spec)[-1:]
    problem = chosen[0]
    task = TuningTask(workbench, spec, problem.specialisation, chosen)
    screening = Screening(task, chosen, incumbents, calls)
    screening.run()
    assert screening.whole
    (found,) = workbench.spending.searched
    return task.times[problem], found


def test_a_search_ends_when_more_of_it_is_not_worth_its_seconds(wide):
    whole, _ = searched(wide, exhaustive=64, evaluations=256, searching_s=1e9)
    times, found = searched(wide, exhaustive=64, evaluations=256, searching_s=10.0, worth_s=300.0)
    assert len(whole) == 256
    assert 32 <= len(times) < 200
    assert min(times.values()) < 1.05 * min(whole.values())
    assert (found.tried, found.of) == (len(times), 375)
    assert found.further == 375 - len(times)
    assert found.seconds == pytest.approx(found.further)
    assert 0 < found.gain < 0.2


def test_many_calls_make_a_search_go_on(wide):
    problem = all_problems(wide)[-1]
    few, _ = searched(wide, exhaustive=64, evaluations=256, searching_s=10.0, worth_s=100.0)
    many, _ = searched(wide, exhaustive=64, evaluations=256, searching_s=10.0, worth_s=100.0, calls={problem: 10**9})
    assert len(many) > len(few)


def test_what_a_strategy_promises_makes_a_search_go_on(wide, monkeypatch):
    limits = {"exhaustive": 64, "evaluations": 256, "searching_s": 10.0, "worth_s": 300.0}
    few, _ = searched(wide, **limits)
    monkeypatch.setattr(Batches, "promise", 1.0)
    many, _ = searched(wide, **limits)
    assert len(few) < 200
    assert len(many) == 256


def test_what_is_asked_for_at_once_is_taken_back_where_it_is_too_dear(wide):
    class Waiting(Late):
        """All but eight wait for a compiler at any time."""

        def withdraw(self, jobs):
            gone = [job for job in jobs if job[0].key in self.waiting[8:]]
            self.waiting = [key for key in self.waiting if key not in {job[0].key for job in gone}]
            return gone

    binaries = Waiting(0)
    times, found = searched(wide, binaries=binaries, exhaustive=450, searching_s=10.0, worth_s=300.0)
    assert found.of == 375
    assert len(times) < 200
    assert len(binaries.compiled) < 200
    best = min(times, key=times.get)
    assert dict(best.values)["vec"] == 4


def test_a_slow_start_is_no_price_of_candidates(wide):
    limits = {"exhaustive": 64, "evaluations": 256, "searching_s": 10.0, "worth_s": 1000.0}
    soon, _ = searched(wide, **limits)
    late, found = searched(wide, start_s=1000.0, **limits)
    assert len(late) == len(soon)
    assert found.seconds == pytest.approx(found.further)
    few, _ = searched(wide, start_s=1000.0, exhaustive=450, searching_s=500.0, worth_s=1e-3)
    assert len(few) == 375  # all of them are tried in the seconds that are free


def test_gains_are_those_of_every_representative(wide):
    problems = [problem for problem in all_problems(wide) if dict(problem.specialisation)["T"] == "float32"][:2]
    large = max(problems, key=lambda problem: dict(problem.dims)["n"])

    def found(factor):
        def times(values, dims):
            return model(values, dims) * (factor if dict(dims) == dict(large.dims) else 1) / 100

        return searched(wide, times=times, problems=problems, exhaustive=64, evaluations=128, searching_s=1e9)[1]

    alike, apart, other = found(1), found(50), found(1 / 50)
    assert (alike.tried, alike.gain) == (apart.tried, pytest.approx(apart.gain, rel=0.2))
    assert alike.gain == pytest.approx(other.gain, rel=0.2)


def test_an_incumbent_is_tried_whose_source_was_taken_back_with_others(tmp_path):
    class Waiting(Late):
        """What waits can all be taken back."""

        def withdraw(self, jobs):
            gone = [job for job in jobs if job[0].key in self.waiting]
            self.waiting = [key for key in self.waiting if key not in {job[0].key for job in gone}]
            return gone

    template = 'constexpr int vec = {{ vec }};\nextern "C" __global__ void scale() {}\n'  # of any block
    spec = loaded(tmp_path, toml=edited(SCALE, ("[128, 256]", BLOCKS)), template=template)
    problem = all_problems(spec)[-1]
    task = TuningTask(fake_workbench(FakeRunner(model)), spec, problem.specialisation, [problem])
    held = next(c for c in task.points if dict(c.values)["vec"] == 4)
    times, _ = searched(
        spec, binaries=Waiting(0), incumbents={problem: held}, exhaustive=450, searching_s=10.0, worth_s=1e-3
    )
    assert held in times


def test_configurations_of_one_size_alone_are_screened_there(tmp_path):
    sizes = [2**power for power in range(10, 20)]
    rule = '"block == 256 or (block > 500 if n == 8192 else block < 500)"'
    own = wide_of(tmp_path, ("[1024, 65536]", str(sizes)), ('"n % vec == 0"', f'"n % vec == 0", {rule}'))
    task = screened(own, FakeBinaries())
    at = {dict(problem.dims)["n"]: len(times) for problem, times in task.times.items()}
    assert at[8192] > 100
    assert sum(1 for size in sizes if at[size] > 100) == 5  # the others are never asked for all


def test_what_an_earlier_build_of_a_smaller_space_knows_does_not_end_the_search(tmp_path):
    def spec(folder, large):
        rule = f'"block == 256 or ({large} if n == 65536 else block < 500)"'
        (tmp_path / folder).mkdir()
        return wide_of(tmp_path / folder, ('"n % vec == 0"', f'"n % vec == 0", {rule}'))

    cache = Cache(None)
    screened(spec("smaller", "false"), FakeBinaries(), cache=cache)
    grown = spec("grown", "block > 500")
    found, fresh = screened(grown, FakeBinaries(), cache=cache), screened(grown, FakeBinaries())
    assert {p: known.keys() for p, known in found.times.items()} == {
        p: known.keys() for p, known in fresh.times.items()
    }
    assert max(map(len, fresh.times.values())) > 100
