"""What a coordinator does with workers that are slow, lost, late, doubled or wrong; devices are simulated."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from builders import H100
from builders import row as fresh_row
from pretuned.errors import DeviceError
from pretuned.fleet import coordinator, crews
from pretuned.fleet.crews import ExecutorCrew, NoWorkerError
from pretuned.fleet.harvest import FleetPolicy
from pretuned.fleet.tuning import FleetTerms, FleetWork, tune_with
from pretuned.record import lock as lockfile
from pretuned.record.cache import Cache, Subject
from pretuned.record.lock import Lock
from pretuned.report.effort import describe
from pretuned.tune.confirmation import drawn, in_words
from pretuned.tune.events import (
    AnswerRefused,
    Compiling,
    Decided,
    GivenAgain,
    OnDevice,
    OutOfBudget,
    Waiting,
    innermost,
)
from simulated_fleet import DEVICE, SimulatedWorker, requests


class Crew:
    """Workers by name, each a function of a unit, which take turns; `room` units may be out for each."""

    streams = False

    def __init__(self, workers, *, room=1):
        self.functions, self.each, self.pool = dict(workers), room, ThreadPoolExecutor(len(workers))
        self.given = []

    def workers(self, device):
        return len(self.functions)

    def room(self, device):
        return self.each * len(self.functions)

    def submit(self, unit, listen):
        able = [name for name in self.functions if f"gpu of {name}" != unit.not_on]
        if not able:
            raise NoWorkerError("nobody is left")
        name = able[len(self.given) % len(able)]
        self.given.append((name, unit))
        return self.pool.submit(self.functions[name], unit, name)

    def recall(self, answer):
        pass

    def dismiss(self, worker):
        self.functions.pop(worker, None)


UNCONFIRMED = FleetPolicy(confirms=False)


def tuned(folder, crew, *, kernels=2, asked=None, policy=UNCONFIRMED, cache=None, merge=None, **given):
    events = []
    terms = FleetTerms(cache_folder=cache, listen=events.append, merge=merge or (lambda _found: None), **given)
    work = FleetWork(device=DEVICE, requests=requests(folder, kernels)[:asked])
    return tune_with([work], crew, terms, policy=policy), events


def text(found):
    return lockfile.dumps(Lock().updated({H100.name: H100}, found.rows, found.skipped, found.selections))


@pytest.fixture
def expected(tmp_path):
    with ThreadPoolExecutor(1) as alone:
        return text(tuned(tmp_path, ExecutorCrew(alone, SimulatedWorker()))[0])


def test_many_workers_give_the_lock_that_one_gives(tmp_path, expected):
    partial = []
    found, events = tuned(
        tmp_path, Crew({f"w{n}": SimulatedWorker() for n in range(8)}), cache=tmp_path / "cache", merge=partial.append
    )
    assert text(found) == expected
    assert (len(found.rows), found.left, found.trouble) == (8, 0, "")
    assert found.spending.launched == 8
    assert sorted(row.kernel for one in partial for row in one.rows) == sorted(row.kernel for row in found.rows)
    assert describe(events[0]) == f"{H100.name}: 4 units for 8 workers"
    assert sum(": scale00" in describe(event) for event in events) == 8  # a line for each row, with its worker
    with Cache(tmp_path / "cache") as cache:
        kept = cache.entries(Subject(kernel="scale000", device=H100.name), since=0)
    assert sum(entry.name.startswith("record:scale000 n=") for entry in kept) == 4


def test_what_was_answered_before_is_not_given_out_again(tmp_path, expected):
    cache = tmp_path / "cache"
    tuned(tmp_path, Crew({"w": SimulatedWorker()}), asked=1, cache=cache)
    crew = Crew({"w": SimulatedWorker()})
    found, _ = tuned(tmp_path, crew, cache=cache)
    assert [unit.kernel for _, unit in crew.given] == ["scale001"] * 2
    assert text(found) == expected


class Once:
    """A worker that does `what` to its first units, and then works."""

    def __init__(self, what, times=1):
        self.what, self.left = what, times

    def __call__(self, unit, worker=""):
        self.left -= 1
        return self.what(unit, worker) if self.left >= 0 else SimulatedWorker()(unit, worker)


def dies(unit, worker):
    raise ConnectionError("the machine is gone")


def test_what_a_dead_worker_had_is_given_again(tmp_path, expected):
    found, events = tuned(tmp_path, Crew({"a": Once(dies, 2), "b": SimulatedWorker()}))
    assert text(found) == expected
    again = [event for event in events if isinstance(event, GivenAgain)]
    assert [event.reason for event in again] == ["ConnectionError: the machine is gone"] * 2
    assert describe(again[0]).endswith(": given to a worker again (attempt 2): ConnectionError: the machine is gone")


def test_a_unit_that_is_lost_each_time_is_left_for_the_next_tuning(tmp_path):
    def poisoned(unit, worker):
        return dies(unit, worker) if unit.kernel == "scale000" else SimulatedWorker()(unit, worker)

    crew = Crew({"a": poisoned, "b": poisoned})
    found, _ = tuned(tmp_path, crew)
    assert {row.kernel for row in found.rows} == {"scale001"}
    assert found.left == 4
    assert found.trouble == "not tuned: scale000: ConnectionError: the machine is gone, and 1 other unit"
    assert sum(unit.kernel == "scale000" for _, unit in crew.given) == 2 * FleetPolicy().attempts


def test_where_nothing_was_tuned_it_is_an_error(tmp_path):
    with pytest.raises(DeviceError, match="not tuned: scale000: ConnectionError: the machine is gone"):
        tuned(tmp_path, Crew({"a": dies}))


def test_a_cancelled_unit_is_given_again(tmp_path, expected):
    class Cancelling(Crew):
        def submit(self, unit, listen):
            if self.given:
                return super().submit(unit, listen)
            self.given.append(("a", unit))
            future = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    assert text(tuned(tmp_path, Cancelling({"a": SimulatedWorker()}))[0]) == expected


def test_late_units_are_given_twice_and_a_second_answer_is_dropped(tmp_path):
    class Hanging(Crew):
        """Two units hang; the first that is given again is answered by both, the second by the second worker alone."""

        def submit(self, unit, listen):
            future = Future()
            future.set_running_or_notify_cancel()
            self.given.append((future, unit))
            if len(self.given) == 3:
                next(first for first, one in self.given if one.key == unit.key).set_result(answered(unit))
            if len(self.given) > 2:
                future.set_result(answered(unit))
            return future

    def answered(unit):
        return SimulatedWorker()(unit, "a")

    crew = Hanging({"a": None, "b": None}, room=2)
    found, events = tuned(tmp_path, crew, kernels=1, policy=FleetPolicy(confirms=False, late_s=0.1))
    assert (len(found.rows), found.left, found.trouble) == (4, 0, "")
    assert [event.reason for event in events if isinstance(event, GivenAgain)] == ["no answer for 0.1 s"] * 2
    assert [future.done() for future, _ in crew.given].count(False) == 1  # nobody waits for it
    assert "1 second answer dropped, 0 of them chose otherwise" in found.notes


@pytest.fixture
def hang():
    """What a worker waits for that hangs; it ends with the test."""
    end = threading.Event()
    yield end
    end.set()


def hanging(end):
    def hangs(unit, worker):
        end.wait(60)
        raise AssertionError("nobody waits for this one")

    return hangs


def test_a_worker_that_hangs_is_found_by_what_units_before_it_took(tmp_path, expected, hang, monkeypatch):
    monkeypatch.setattr(coordinator, "LEAST_LATE_S", 0.3)
    worker = SimulatedWorker(row_s=0.01)
    crew = Crew({"a": Once(hanging(hang)), "b": worker})
    found, events = tuned(tmp_path, crew)  # which has 15 minutes where nothing is known
    assert text(found) == expected
    again = [describe(event) for event in events if isinstance(event, GivenAgain)]  # more where this machine is busy
    says = "scale000 (T=float16, mode=0): given to a worker again (attempt 2): no answer for "
    assert any(line.startswith(says) for line in again), again


def test_where_every_worker_hangs_the_tuning_ends(tmp_path, hang):
    crew = Crew(dict.fromkeys("ab", hanging(hang)))
    with pytest.raises(DeviceError, match="not tuned: scale000: no worker has shown a sign of life for"):
        tuned(tmp_path, crew, policy=FleetPolicy(confirms=False, late_s=0.1, absent_s=0.3))


class Streaming(Crew):
    """Workers whose events are heard: those that `tell` says, each a tenth of a second after the other."""

    streams = True

    def __init__(self, workers, tell, **given):
        super().__init__(workers, **given)
        self.tell = tell

    def submit(self, unit, listen):
        if unit.confirms:
            return super().submit(unit, listen)
        worker = f"w{len(self.given) % len(self.functions)}"
        self.given.append((worker, unit))

        def work():
            for event in self.tell(unit, worker, len(self.given)):
                listen(OnDevice(device=worker, event=event))
                time.sleep(0.1)
            return self.functions[worker](unit, worker)

        return self.pool.submit(work)


def test_a_unit_that_shows_signs_of_life_is_not_late_however_long_it_takes(tmp_path):
    def tell(unit, worker, _count):
        return [Compiling(kernel=unit.kernel, sources=1)] * 12

    crew = Streaming({"w0": SimulatedWorker(), "w1": SimulatedWorker()}, tell)
    found, events = tuned(tmp_path, crew, kernels=1, policy=FleetPolicy(confirms=False, late_s=1.0))
    assert len(found.rows) == 4
    assert not [event for event in events if isinstance(event, GivenAgain)]


def test_what_a_worker_has_that_waits_for_its_device_is_given_to_one_that_does_not(tmp_path, expected, hang):
    def tell(_unit, worker, _count):
        return [Waiting(device=H100.name)] if worker == "w0" else []

    crew = Streaming({"w0": hanging(hang), "w1": SimulatedWorker()}, tell)
    submit = crew.submit

    def first_to_w0(unit, listen):
        crew.given = crew.given[-1:]  # every later unit goes to w1
        return submit(unit, listen)

    crew.submit = first_to_w0
    found, events = tuned(tmp_path, crew)
    assert text(found) == expected
    (again,) = [event for event in events if isinstance(event, GivenAgain)]
    assert again.reason == "w0 waits for another tuning to end"


def test_nobody_waits_for_a_worker_that_waits_for_its_device_only_to_confirm_rows(tmp_path, hang):
    def tell(_unit, worker, _count):
        return [Waiting(device=H100.name)] if worker == "w0" else []

    late = threading.Event()
    crew, confirming = Streaming({"w0": hanging(hang), "w1": SimulatedWorker()}, tell), []
    submit = crew.submit

    def first_to_w0(unit, listen):
        if unit.confirms:  # which is for w0
            confirming.append(crew.pool.submit(late.wait, 4))
            return confirming[-1]
        crew.given = crew.given[-1:]
        return submit(unit, listen)

    crew.submit = first_to_w0
    found, _ = tuned(tmp_path, crew, kernels=12, policy=FleetPolicy())
    assert (len(found.rows), found.confirmed) == (48, ())
    assert confirming
    assert not any(future.done() for future in confirming if not future.cancelled())
    late.set()


class Asked:
    """A job that can only be asked, as submitit's; `result` takes no limit."""

    def __init__(self, function, *given):
        self.found, self.asked = ThreadPoolExecutor(1).submit(function, *given), 0

    def done(self):
        self.asked += 1
        return self.found.done()

    def result(self):
        return self.found.result()


def test_an_executor_whose_jobs_do_not_call_back_is_asked(tmp_path, expected, monkeypatch):
    monkeypatch.setattr(crews, "ASK_S", 0.05)

    class Cluster:
        def submit(self, function, *given):
            jobs.append(Asked(function, *given))
            return jobs[-1]

    jobs = []
    found, _ = tuned(tmp_path, ExecutorCrew(Cluster(), Once(dies)))
    assert text(found) == expected
    assert len(jobs) == 5  # one of them twice


def test_a_budget_stands_still_while_every_worker_waits_for_its_device(tmp_path):
    def tell(unit, _worker, count):
        waits = [Waiting(device=H100.name)] * 25 if count <= 2 else []
        return [*waits, Compiling(kernel=unit.kernel, sources=1)]

    crew = Streaming({"w0": SimulatedWorker(), "w1": SimulatedWorker()}, tell)
    found, events = tuned(tmp_path, crew, kernels=1, budget_s=2.0)
    assert (len(found.rows), found.left) == (4, 0)
    assert not [event for event in events if isinstance(event, OutOfBudget)]


def test_rows_that_two_workers_report_of_one_unit_are_reported_once(tmp_path):
    def tell(unit, _worker, count):
        spec = unit.request.spec
        rows = [fresh_row(spec, problem) for problem in unit.request.problems]
        return [Decided(row=row, cached=count > 1) for row in rows]

    crew = Streaming({"w0": Once(dies), "w1": SimulatedWorker()}, tell)
    found, events = tuned(tmp_path, crew, kernels=1)
    reported = [event for event in map(innermost, events) if isinstance(event, Decided)]
    assert len(found.rows) == len(reported) == 4


def test_a_confirmation_keeps_nobody_waiting_beyond_the_budget(tmp_path, hang):
    def slow(unit, worker):
        if unit.confirms:
            hang.wait(4)
        return SimulatedWorker()(unit, worker)

    crew = Crew({"a": slow, "b": slow}, room=2)
    found, _ = tuned(tmp_path, crew, kernels=12, policy=FleetPolicy(), budget_s=1.0)
    assert (len(found.rows), found.confirmed) == (48, ())


class NeverConfirming(Crew):
    """Who is to confirm rows has no time for it."""

    def __init__(self, workers):
        super().__init__(workers)
        self.confirming = []

    def submit(self, unit, listen):
        if not unit.confirms:
            return super().submit(unit, listen)
        self.confirming.append(Future())
        return self.confirming[-1]


def test_confirmations_that_wait_for_a_certain_worker_keep_no_other_unit_from_being_given_out(tmp_path):
    def loses(unit, worker):
        while len(crew.confirming) < 2:
            time.sleep(0.01)
        raise ConnectionError("gone")

    crew = NeverConfirming({"a": Once(loses), "b": SimulatedWorker()})
    found, events = tuned(tmp_path, crew, kernels=12, policy=FleetPolicy(), budget_s=1.5)
    assert len([event for event in events if isinstance(event, GivenAgain)]) == 1
    assert (len(found.rows), found.left) == (48, 0)


LIES = {
    "digest": (SimulatedWorker(lie="bytes"), "its digest does not fit its rows"),
    "driver": (
        SimulatedWorker(driver="999.1"),
        f"its driver is 999.1, not 580.159.04, as {H100.name} has it elsewhere",
    ),
    "driver of a row": (
        SimulatedWorker(lie="driver of a row"),
        "its row at n=1024, T=float16, mode=0 names the driver 999.1, and its driver is 580.159.04",
    ),
    "device": (
        SimulatedWorker(device=replace(H100, sm_count=114)),
        f"its device is {H100.name} (114 SMs, capability 9), not {H100.name} (132 SMs, capability 9)",
    ),
    "compiler": (SimulatedWorker(compiler="12.9.1"), "its compiler is 12.9.1, not 13.0.88"),
    "reference": (
        SimulatedWorker(lie="reference"),
        (
            "its row at n=1024, T=float16, mode=0 is not of scale000 as it is here: the reference, the inputs or the "
            "tolerances have changed"
        ),
    ),
    "no answer": (lambda unit, worker: "done", "it gave a value of type str, which is not an answer"),
}


@pytest.mark.parametrize(("liar", "reason"), LIES.values(), ids=LIES)
def test_a_lying_worker_is_refused_and_gets_nothing_more(tmp_path, expected, liar, reason):
    crew = Crew({"b": SimulatedWorker(), "liar": liar})
    terms = FleetTerms(cache_folder=None, listen=(events := []).append)
    work = FleetWork(device=DEVICE, requests=requests(tmp_path, 2))
    found = tune_with([work], crew, terms, compilers={H100.name: "13.0.88"}, policy=UNCONFIRMED)
    assert text(found) == expected
    refused = [event for event in events if isinstance(event, AnswerRefused)]
    assert reason.replace("scale000", refused[0].kernel) in {
        event.reason.replace("float32", "float16") for event in refused
    }
    if reason != LIES["no answer"][1]:  # which names nobody
        assert [name for name, _ in crew.given].count("liar") <= 2  # a second one may have been out already
        assert "liar" not in crew.functions
        assert f"refused: liar: {refused[-1].reason}" in found.notes


def test_one_row_in_ten_is_measured_again_on_another_gpu(tmp_path):
    crew = Crew({"a": SimulatedWorker(), "b": SimulatedWorker(chip=1.04)})
    found, _ = tuned(tmp_path, crew, kernels=12, policy=FleetPolicy(), cache=tmp_path / "cache")
    wanted = {(row.kernel, row.problem) for row in found.rows if drawn(row)}
    assert {(one.row.kernel, one.row.problem) for one in found.confirmed} == wanted
    assert 0 < len(wanted) < len(found.rows) / 4
    assert {(one.first, one.second) for one in found.confirmed} <= {("gpu of a", "gpu of b"), ("gpu of b", "gpu of a")}
    slower = [one for one in found.confirmed if one.second == "gpu of b"]
    assert {round(one.spread, 4) for one in slower} == {0.04}
    assert in_words(found.confirmed).startswith(f"{len(wanted)} rows measured again on a second GPU: times ")
    with Cache(tmp_path / "cache") as cache:
        assert cache.record(slower[0].key)["verdict"] == "moved"
    assert '"spread"' not in text(found)


def test_workers_whose_compiler_is_known_by_its_rows_alone_confirm_rows(tmp_path):
    def without(unit, worker):
        answer = SimulatedWorker()(unit, worker)
        return replace(answer, evidence=replace(answer.evidence, compiler="")) if unit.confirms else answer

    found, events = tuned(tmp_path, Crew({"a": without, "b": without}), kernels=12, policy=FleetPolicy())
    assert len(found.confirmed) == sum(map(drawn, found.rows)) > 0
    assert not any(isinstance(event, AnswerRefused) for event in events)


class Unconfirming(Crew):
    """Nobody can confirm; the first unit is lost just before that is known, when there is no room."""

    def __init__(self, workers):
        super().__init__(workers, room=100)
        self.lost, self.full = None, False

    def room(self, device):
        full, self.full = self.full, False
        return 0 if full else super().room(device)

    def submit(self, unit, listen):
        answer = Future()
        if unit.confirms:
            if not self.lost.done():
                self.lost.set_exception(RuntimeError("gone"))
                self.full = True
            answer.set_exception(NoWorkerError("nobody is left"))
            return answer
        if self.lost is None:
            self.lost = answer
            return answer
        return super().submit(unit, listen)


def test_what_nobody_can_confirm_costs_no_other_unit(tmp_path):
    worker = SimulatedWorker()
    found, events = tuned(tmp_path, Unconfirming({"a": worker, "b": worker}), kernels=12, policy=FleetPolicy())
    assert [event.attempt for event in events if isinstance(event, GivenAgain)] == [2]
    assert (found.left, found.trouble, found.confirmed) == (0, "", ())


def test_rows_of_the_only_worker_are_not_confirmed(tmp_path):
    crew = Crew({"a": SimulatedWorker()})
    assert tuned(tmp_path, crew, kernels=12, policy=FleetPolicy())[0].confirmed == ()
    assert not any(unit.confirms for _, unit in crew.given)


def test_a_budget_ends_it_and_units_share_what_is_left(tmp_path):
    crew = Crew({"a": SimulatedWorker(row_s=0.1), "b": SimulatedWorker(row_s=0.1)})
    found, events = tuned(tmp_path, crew, kernels=8, budget_s=0.5)
    assert 0 < len(found.rows) < 32
    assert found.left == 32 - len(found.rows)
    assert sum(event.rows for event in events if isinstance(event, OutOfBudget)) == found.left
    budgets = [unit.budget_s for _, unit in crew.given]
    assert budgets[0] == pytest.approx(0.5 * 2 / 16, rel=0.3)  # an equal share of what two workers have
    assert max(budgets) <= 0.5


def test_an_interrupted_tuning_keeps_what_it_has(tmp_path):
    heard = []

    def interrupt(event):
        heard.append(innermost(event))
        if len(heard) == 4:
            raise KeyboardInterrupt

    terms = FleetTerms(cache_folder=None, listen=interrupt)
    work = FleetWork(device=DEVICE, requests=requests(tmp_path, 2))
    found = tune_with([work], Crew({"a": SimulatedWorker()}), terms)
    assert found.interrupted
    assert 0 < len(found.rows) < 8
    assert found.left == 8 - len(found.rows)


def test_a_broken_executor_is_reported_and_what_was_found_stays(tmp_path):
    class Breaking(Crew):
        def submit(self, unit, listen):
            if len(self.given) == 2:
                raise RuntimeError("cannot schedule new futures after shutdown")
            return super().submit(unit, listen)

    found, _ = tuned(tmp_path, Breaking({"a": SimulatedWorker()}))
    assert len(found.rows) == 4
    assert "nothing more can be given out: RuntimeError: cannot schedule new futures after shutdown" in found.trouble
