"""How far a tuning is, by its events, and how long it still takes, by a clock of the test's own."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from pretuned.report.progress import BestSoFar, Count, TuningProgress
from pretuned.report.progress_lines import ASCII, Marks, display_lines, ended, log_line, shortened, taken
from pretuned.report.progress_log import IN_BUILDS, SETTLING, ProgressLog
from pretuned.report.time_left import Account, TimeLeft, about, duration
from pretuned.tune.events import OnDevice, OutOfBudget, Shared, SourcesCompiled, UnitSettled, Waiting
from progress_events import (
    DEFAULT,
    DEVICE,
    KERNEL,
    LARGE,
    LARGER,
    RACED,
    SMALL,
    STREAM,
    WIDE,
    at,
    measuring,
    passed,
    planned,
    racing,
    screened,
)


class Watch:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def replayed(stream, until_s=math.inf):
    """The progress after the events of a stream up to a moment, and its watch."""
    watch = Watch()
    progress, begun_s = TuningProgress(watch), watch.now_s
    for at_s, event in stream:
        if at_s > until_s:
            break
        watch.now_s = begun_s + at_s
        progress.hear(event)
    watch.now_s = begun_s + min(until_s, watch.now_s - begun_s)
    return progress, watch


def view(stream, until_s=math.inf):
    (found,) = replayed(stream, until_s)[0].views()
    return found


def test_before_anything_is_reported_there_is_a_view():
    watch = Watch()
    progress = TuningProgress(watch)
    watch.now_s += 3
    (found,) = progress.views()
    assert (found.step, found.spent_s, found.left_s) == ("beginning", 3.0, None)


def test_what_is_compiled_screened_and_the_best_so_far():
    found = view(STREAM, 2.2)
    assert (found.device, found.kernel, found.problem, found.step) == (DEVICE, KERNEL, SMALL, "screening")
    assert (found.compiled, found.compiling) == (Count(done=3, of=12), 2)
    assert (found.screened, found.rows) == (Count(done=3, of=6), Count(done=0, of=4))
    assert found.best == BestSoFar(configuration=WIDE, time_us=12.42, default_us=16.4)


def test_a_race_and_its_duel_name_who_is_left_the_fastest_first():
    race = view(STREAM, 10.5)
    assert (race.step, race.contenders) == ("race", (WIDE, LARGER, DEFAULT))
    duel = view(STREAM, 12.5)
    assert (duel.step, duel.contenders) == ("duel at place 3", (WIDE, DEFAULT))


def test_a_race_of_a_survey_does_not_hide_the_survey():
    found = view([*STREAM[:10], (9.0, racing(*RACED))])
    assert found.step == "surveying, problem 1 of 4"
    assert len(found.contenders) == 3


def test_what_a_candidate_is_expected_to_take_is_not_the_best_so_far():
    before = view(STREAM[:10])
    found = view([*STREAM[:10], (9.0, racing((WIDE, 0.1), (DEFAULT, 10.7)))])
    assert found.contenders == (WIDE, DEFAULT)
    assert found.best == before.best


def test_a_default_that_lost_an_earlier_race_stays_what_the_best_is_compared_with():
    found = view([*STREAM[:13], (12.0, racing((WIDE, 12.4), (LARGER, 12.3), place=3))])
    assert found.best == BestSoFar(configuration=LARGER, time_us=12.3, default_us=16.4)


def test_rows_count_from_the_plan_on_and_never_beyond_it():
    found = view([(0.1, passed(SMALL)), (0.5, planned(rows=1)), (1.0, passed(SMALL)), (2.0, passed(LARGE))])
    assert found.rows == Count(done=1, of=1)


def test_the_best_of_one_problem_is_not_shown_at_the_next():
    assert view([*STREAM, (17.0, at("certifying", 5, 20, LARGE))]).best is None


def test_waiting_for_another_tuning_costs_nothing():
    stream = [(1.0, Waiting(device=DEVICE)), (50.0, SourcesCompiled(done=0, asked=3, workers=2))]
    waiting = view(stream)
    assert (waiting.step, waiting.device, waiting.spent_s) == ("waiting for another tuning", DEVICE, 1.0)
    assert view([*stream, (60.0, planned(spent_s=1.5)), (62.0, measuring(KERNEL, SMALL))]).spent_s == 3.5


def test_two_devices_have_a_view_each():
    stream = [(when, OnDevice(device=f"cuda:{n}", event=event)) for when, event in STREAM[:5] for n in range(2)]
    progress, _ = replayed(stream)
    assert [found.device for found in progress.views()] == ["cuda:0", "cuda:1"]
    lines = display_lines(progress.views(), 80)
    assert len(lines) == 4
    assert {len(str(line)) <= 80 for line in lines} == {True}


def test_of_many_devices_each_has_a_line():
    stream = [(when, OnDevice(device=f"worker-{n}", event=event)) for when, event in STREAM[:5] for n in range(8)]
    lines = list(map(str, display_lines(replayed(stream)[0].views(), 60)))
    assert len(lines) == 8
    assert lines[7] == "worker-7         0 of 4 rows, fused_add_rms_norm_backward_w…"


def test_a_device_that_is_given_one_part_after_another_adds_up_its_plans():
    stream = [(1.0, planned(rows=1, seconds=10)), (1.1, measuring(KERNEL, SMALL, seconds=10)), (3.0, passed(SMALL))]
    found = view([*stream, (3.1, planned(rows=2, seconds=20)), (3.2, measuring(KERNEL, LARGE)), (5.0, passed(LARGE))])
    assert found.rows == Count(done=2, of=3)
    assert found.spent_s == pytest.approx(4.0)
    assert found.left_s > 5


SHARED = Shared(device=DEVICE, units=3, workers=2, rows=4, seconds=60.0, budget_s=190.0)


def of_gpu(number, *events):
    return [(when, OnDevice(device=f"GPU {number}", event=event)) for when, event in events]


def settled(number, seconds=20.0):
    return UnitSettled(device=DEVICE, worker=f"GPU {number}", seconds=seconds)


def test_where_devices_share_the_work_what_is_left_is_that_of_all_of_it():
    first = of_gpu(0, (2.0, planned(rows=1, seconds=3, budget_s=18.0)), (2.1, measuring(KERNEL, SMALL, seconds=3)))
    stream = [(1.0, SHARED), *first, *of_gpu(1, (2.0, planned(rows=2, seconds=3, budget_s=18.0)))]
    stream += of_gpu(1, (2.1, measuring(KERNEL, SMALL, seconds=3)), (19.0, at("certifying", 1, 1, SMALL)))
    stream += [*of_gpu(0, (20.0, passed(SMALL))), (20.0, settled(0)), *of_gpu(1, (21.0, passed(SMALL)))]
    progress, _ = replayed(stream)
    whole, one, other = progress.views()
    assert (whole.device, whole.rows, whole.budget_s) == (DEVICE, Count(done=2, of=4), 190.0)
    assert whole.left_s == pytest.approx(11, abs=1)  # 20 of 60 s by two devices, after 20 s for 40 of them
    assert log_line(whole) == "20 s of 3 min 10 s, about 10 s left: 2 of 4 rows; 1 of 3 units settled by 2 workers"
    assert (log_line(one), one.left_s) == ("idle", None)
    assert other.rows == Count(done=1, of=2)  # of the unit at hand
    lines = list(map(str, display_lines(progress.views(), 80)))
    assert len(lines) == 6
    assert lines[0].endswith(" 20 s of 3 min 10 s, about 10 s left")
    assert lines[2].strip() == "GPU 0"
    assert lines[3].endswith("idle")


def test_a_device_that_has_measured_rows_of_another_again_is_idle_and_has_settled_no_unit():
    part = of_gpu(0, (2.0, planned(rows=1)), (2.1, measuring(KERNEL, SMALL)))
    whole, found = replayed([(1.0, SHARED), *part, (9.0, settled(0, 0.0))])[0].views()
    assert (whole.step, found.step) == ("0 of 3 units settled by 2 workers", "idle")


def test_time_in_which_every_device_waits_costs_nothing_of_the_budget_of_all():
    events = [of_gpu(n, (2.0 + n, Waiting(device=DEVICE)), (53.0 + n, planned(rows=1))) for n in (0, 1)]
    waiting = [found[at] for at in (0, 1) for found in events]
    assert replayed([(1.0, SHARED), *waiting[:2]], 50.0)[0].views()[0].spent_s == 2.0
    assert replayed([(1.0, SHARED), *waiting], 60.0)[0].views()[0].spent_s == 3.0  # from 53 s on


def test_a_device_counts_the_rows_of_the_unit_at_hand_alone():
    parts = [(2.0, planned(rows=1)), (3.0, passed(SMALL)), (4.0, planned(rows=2)), (4.1, measuring(KERNEL, LARGE))]
    _, found = replayed([(1.0, SHARED), *of_gpu(1, *parts)])[0].views()
    assert found.rows == Count(done=0, of=2)


def test_who_hands_out_the_parts_is_not_a_device():
    stream = [(0.1, OutOfBudget(rows=2)), *((when, OnDevice(device="cuda:1", event=event)) for when, event in STREAM)]
    assert [found.device for found in replayed(stream)[0].views()] == ["cuda:1"]


def test_rows_of_workers_that_are_not_heard_meanwhile_are_counted():
    rows = [(2.0 + n, OnDevice(device=f"worker-{n}", event=passed(SMALL))) for n in range(2)]
    found = view([(1.0, Shared(device=DEVICE, units=9, workers=None, rows=18)), *rows, (3.0, settled(1))])
    assert (found.step, found.rows, found.left_s) == ("1 of 9 units settled", Count(done=2, of=18), None)
    assert "2 of 18" in "\n".join(map(str, display_lines([found], 80)))
    assert log_line(found) == "2 s: 2 of 18 rows; 1 of 9 units settled"


# Time left.


def test_the_estimate_is_what_is_planned_at_the_pace_so_far():
    begun = Account(planned_s=100, done_s=0, spent_s=0)
    assert begun.left_s == 100
    assert Account(planned_s=100, done_s=50, spent_s=50).left_s == 50
    assert Account(planned_s=100, done_s=50, spent_s=110).left_s == 100  # twice as slow, counted in part
    assert Account(planned_s=100, done_s=100, spent_s=500).left_s == 0


def test_the_estimate_is_never_more_than_the_budget_leaves_and_never_negative():
    assert Account(planned_s=1000, done_s=10, spent_s=50, room_s=10).left_s == 10
    assert Account(planned_s=1000, done_s=10, spent_s=50, room_s=-5).left_s == 0
    assert Account(planned_s=10, done_s=20, spent_s=50).left_s == 0


def test_what_is_shown_runs_down_with_the_clock():
    left = TimeLeft()
    shown = [left.follow(Account(planned_s=60, done_s=done, spent_s=done), float(done)) for done in range(0, 60, 5)]
    assert shown == [60 - done for done in range(0, 60, 5)]


def test_what_is_shown_never_jumps_and_comes_to_what_is_true():
    left, draw = TimeLeft(), random.Random(0)
    shown, now_s = [left.follow(Account(planned_s=60, done_s=0, spent_s=0), 0.0)], 0.0
    for _ in range(400):  # estimates that jump between a tenth and ten times
        now_s += 0.25
        planned_s = 60 * 10 ** draw.uniform(-1, 1)
        shown.append(left.follow(Account(planned_s=planned_s, done_s=0, spent_s=0), now_s))
    for before, after in itertools.pairwise(shown):
        assert after >= 0
        assert -0.25 * (1.5 + 0.04 * before) - 1e-9 <= after - before <= 0.25 * (0.5 + 0.08 * before) + 1e-9
    for _ in range(240):
        now_s += 0.25
        last = left.follow(Account(planned_s=200, done_s=0, spent_s=0), now_s)
    assert last == pytest.approx(200, rel=0.02)


def test_a_tuning_that_is_three_times_slower_than_planned_is_told_soon():
    """A fake tuning of 40 planned seconds that takes 120: what is shown at a quarter is within a third of the truth."""
    watch = Watch()
    progress = TuningProgress(watch)
    progress.hear(planned(budget_s=None))
    shown = {}
    for task in range(2):
        progress.hear(measuring(f"kernel_{task}", SMALL, done=task))
        for step in range(60):
            watch.now_s += 1.0
            stages = ["surveying", "trying ragged sizes", "deciding", "certifying"]
            if step < 18:
                progress.hear(screened(1 + step // 3, SMALL if step < 9 else LARGE))
            else:
                stage = stages[min(3, (step - 18) // 12)]
                progress.hear(at(stage, (step - 18) % 12, 12))
            (found,) = progress.views()
            shown[task * 60 + step + 1] = found.left_s
    assert shown[30] == pytest.approx(90, rel=0.33)
    assert shown[60] == pytest.approx(60, rel=0.25)
    assert shown[110] == pytest.approx(10, abs=8)
    assert min(shown.values()) >= 0


def test_nothing_is_estimated_before_anything_is_planned():
    assert view(STREAM[:1]).left_s is None
    assert view(STREAM, 3.0).left_s is not None


@pytest.mark.parametrize(
    ("seconds", "clock", "estimate"),
    [
        (0, "0 s", "a few seconds"),
        (7.9, "7 s", "a few seconds"),
        (43, "43 s", "about 45 s"),
        (99, "99 s", "about 100 s"),
        (200, "3 min 20 s", "about 3 min"),
        (3900, "1 h 5 min", "about 65 min"),
        (9000, "2 h 30 min", "about 2 h"),
        (-3, "0 s", "a few seconds"),
    ],
)
def test_seconds_in_words(seconds, clock, estimate):
    assert (duration(seconds), about(seconds)) == (clock, estimate)


# Words.


def test_the_display_at_80_columns():
    assert [str(line).rstrip() for line in display_lines([view(STREAM, 12.5)], 80)] == [
        "NVIDIA H100 80GB HBM3                              12 s of 60 s, about 25 s left",
        "rows      ░░░░░░░░░░░░░  0 of 4",
        "kernel    fused_add_rms_norm…kward_with_weights: cols=1024, rows=4096, T=float32",
        "step      duel at place 3, 2 left: block=256, vec=4; block=256, vec=1",
        "compiled  █████████████  12 of 12 sources",
        "screened  █████████████  6 of 6 configurations",
        "best      12.4 us, 1.32x faster (default 16.4 us): block=256, vec=4",
    ]


def test_the_display_at_40_columns():
    assert [str(line).rstrip() for line in display_lines([view(STREAM, 2.2)], 40)] == [
        "NVIDI…HBM3  2 s of 60 s, about 40 s left",
        "rows      ░░░░░░  0 of 4",
        "kernel    fuse…hts: cols=1024, rows=409…",
        "step      screening",
        "compiled  █░░░░░  3 of 12 sources, 2 at…",
        "screened  ███░░░  3 of 6 configurations",
        "best      12.4 us, 1.32x faster (defaul…",
    ]


@pytest.mark.parametrize("width", [1, 9, 12, 20, 31, 57, 80, 100])
@pytest.mark.parametrize("marks", [Marks(), ASCII])
def test_the_display_always_has_the_same_lines_and_is_never_too_wide(width, marks):
    labels = ("rows", "kernel", "step", "compiled", "screened", "best")
    for until_s, _ in [(0.0, None), *STREAM]:
        _, *lines = display_lines([view(STREAM, until_s)], width, marks)
        assert tuple(line.label.strip() for line in lines) == labels
        if width >= 12:
            assert max(len(str(line)) for line in display_lines([view(STREAM, until_s)], width, marks)) <= width


def test_a_terminal_without_unicode_gets_plain_characters():
    text = "\n".join(str(line) for line in display_lines([view(STREAM, 2.2)], 60, ASCII))
    assert text.isascii()
    assert "###" in text


def test_texts_are_cut_in_the_middle_or_at_the_end():
    assert shortened("abcdefghij", 5, Marks()) == "ab…ij"
    assert ended("abcdefghij", 5, Marks()) == "abcd…"
    assert ended("abcdefghij", 5, ASCII) == "ab..."
    assert (shortened("abc", 3, Marks()), ended("abc", 3, Marks())) == ("abc", "abc")


def test_times_have_the_unit_that_suits_them():
    assert [taken(us) for us in (0.5, 12.42, 7523.0, 646300.0, 1.2e6)] == [
        "0.5 us",
        "12.4 us",
        "7.52 ms",
        "646 ms",
        "1.2 s",
    ]


# The log.


def logged(stream, shown=SETTLING, until_s=None):
    watch, written = Watch(), []
    log = ProgressLog(written.append, shown, clock=watch)
    begun_s = watch.now_s
    for at_s, event in stream:
        watch.now_s = begun_s + at_s
        log.hear(event)
    for second in range(int(stream[-1][0]) + 1, until_s or 0):  # while the tuning is silent
        watch.now_s = begun_s + second
        log.look()
    return written


def test_a_log_has_a_line_about_all_every_five_seconds():
    written = logged(STREAM[:10])
    plan, about_all = written
    assert plan == (
        "4 rows of 2 kernels to tune: 12 configurations, at most 12 sources, about 40 s of a budget of 60 s"
    )
    assert about_all == (
        "6 s of 60 s, about 30 s left: 0 of 4 rows; fused_add_rms_norm_backward_with_weights: cols=8192, rows=4096, "
        "T=float32: screening, 6 of 6 configurations; best 12.4 us, 1.32x faster (default 16.4 us)"
    )


def test_the_plans_of_the_parts_that_devices_are_given_have_no_line():
    parts = [(float(n), OnDevice(device="cuda:1", event=event)) for n, event in enumerate((planned(), passed(SMALL)))]
    assert [line.partition(":")[0] for line in logged(parts)] == ["cuda"]


def test_a_log_goes_on_while_the_tuning_is_silent_at_no_higher_rate():
    written = logged(STREAM[:5], until_s=32)
    assert len(written) == 1 + 6
    assert "3 of 12 sources compiled, 2 at work" in written[-1]


def test_a_log_is_silent_until_something_is_reported():
    watch, written = Watch(), []
    log = ProgressLog(written.append, clock=watch)
    watch.now_s += 60
    log.look()
    assert written == []


def test_a_build_reports_itself_that_it_waits_and_what_the_budget_left_out():
    stream = [(0.1, Waiting(device=DEVICE)), (1.0, planned()), (2.0, passed(SMALL)), (3.0, OutOfBudget(rows=3))]
    ours = logged(stream, IN_BUILDS)
    assert [line.partition(":")[0] for line in ours] == ["4 rows of 2 kernels to tune", KERNEL]
    assert len(logged(stream)) == 4


def test_the_line_of_a_log_about_a_race():
    assert log_line(view(STREAM, 12.0)) == (
        "12 s of 60 s, about 25 s left: 0 of 4 rows; fused_add_rms_norm_backward_with_weights: cols=1024, rows=4096, "
        "T=float32: duel at place 3, 2 left; best 12.4 us, 1.32x faster (default 16.4 us)"
    )
