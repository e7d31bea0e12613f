"""Several locks into one: which row stands, and that nothing is decided in silence."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import H100, losses, rows, selections
from pretuned.errors import LockError
from pretuned.record import lock as lockfile
from pretuned.record.freshness import FreshnessJudge, State
from pretuned.record.lock import Lock
from pretuned.record.merge import LockSource, merge
from pretuned.record.rows import Skipped
from specs import loaded

L4 = replace(H100, name="NVIDIA L4", sm_count=58, compute_capability=89)


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


def lock(entries, *devices, skipped=(), rules=()):
    return Lock().updated({device.name: device for device in devices or (H100,)}, entries, skipped, rules)


def merged(*locks, judge=lambda _row: State.FRESH):
    return merge([LockSource(name=name, lock=one) for name, one in zip("abcd", locks, strict=False)], judge)


def test_rows_of_two_machines_stand_side_by_side_in_the_locks_own_order(spec):
    one, two = lock(rows(spec)), lock(rows(spec, device=L4.name), L4)
    found = merged(two, one)
    assert found.lock == lock([*rows(spec), *rows(spec, device=L4.name)], H100, L4)
    assert (found.given, found.conflicts, found.notes) == ({"a": 4, "b": 4}, (), ())


def test_what_both_say_in_the_same_words_is_no_conflict(spec):
    found = merged(lock(rows(spec)), lock(rows(spec)))
    assert (found.lock, found.conflicts) == (lock(rows(spec)), ())


def won(row, high, *, low=0.5):
    return replace(row, choices=(replace(row.winner, ratio=(low, high)), *row.choices[1:]))


# From the first rule to the last: what stands before what, and why.
RULES = {
    "fresh, not stale": (
        lambda row: replace(row, noise="clocks", date="2026-01-01"),
        lambda row: replace(row, choices=(replace(row.winner, candidate="of yesterday"), row.default)),
    ),
    "fresh, not incomplete": (lambda row: replace(row, date="2026-01-01"), lambda row: replace(row, space="")),
    "measured without noise; the other: clocks": (
        lambda row: replace(row, date="2026-01-01"),
        lambda row: replace(row, noise="clocks"),
    ),
    "tuned with effort default, not fast": (
        lambda row: replace(row, date="2026-01-01"),
        lambda row: replace(won(row, 0.3), effort="fast"),
    ),
    "tuned with effort thorough, not default": (
        lambda row: replace(row, effort="thorough", date="2026-01-01"),
        lambda row: won(row, 0.3),
    ),
    "of 2026-11-22, not 2026-11-21": (lambda row: replace(won(row, 0.99), date="2026-11-22"), lambda row: row),
    "at most 0.700 of the default's time, not 0.900": (lambda row: won(row, 0.7), lambda row: row),
    "equal by every rule; the line that comes first": (
        lambda row: replace(row, driver="1"),
        lambda row: replace(row, driver="2"),
    ),
}


@pytest.mark.parametrize("reason", RULES)
def test_which_of_two_rows_stands_and_why(spec, reason):
    first, *_ = rows(spec)
    better, worse = (change(first) for change in RULES[reason])
    judge = FreshnessJudge(spec)
    for order in ((better, worse), (worse, better)):
        found = merged(*(lock([row]) for row in order), judge=lambda row: judge.judge(row).state)
        assert found.lock.rows == (better,)
        (conflict,) = found.conflicts
        names = ("a", "b") if order[0] is better else ("b", "a")
        assert str(conflict) == (
            f"scale on NVIDIA H100 80GB HBM3 at n=1024, T=float16: {names[0]}, not {names[1]}: {reason}"
        )


def test_a_row_stands_before_a_skipped_problem_unless_it_is_stale(spec):
    first, *_ = rows(spec)
    skipped = Skipped(kernel="scale", device=H100.name, problem=first.problem, reason="takes 99 GB")
    found = merged(lock([], skipped=[skipped]), lock([first]))
    assert (found.lock.rows, found.lock.skipped) == ((first,), ())
    assert [conflict.reason for conflict in found.conflicts] == ["was measured, not skipped (takes 99 GB)"]
    found = merged(lock([], skipped=[skipped]), lock([first]), judge=lambda _row: State.STALE)
    assert (found.lock.rows, found.lock.skipped) == ((), (skipped,))
    assert [conflict.reason for conflict in found.conflicts] == ["skipped (takes 99 GB), and the row is stale"]


def test_another_device_of_one_name_gets_its_own(spec):
    part = replace(H100, sm_count=66)
    found = merged(lock(rows(spec)), lock(rows(spec), part))
    own = "NVIDIA H100 80GB HBM3 (66 SMs)"
    assert {name: device.name for name, device in found.lock.devices.items()} == {H100.name: H100.name, own: own}
    assert [row.device for row in found.lock.rows] == [H100.name] * 4 + [own] * 4
    assert found.notes == (f"b: its {H100.name} has 66 SMs, not 132: now {own}",)
    assert found.conflicts == ()


def test_one_device_goes_by_one_name_whichever_lock_comes_first(spec):
    part, named = replace(H100, sm_count=66), replace(H100, name=H100.qualified_name)
    both = lock([*rows(spec), *rows(spec, device=named.name)], part, named)
    plain = lock(rows(spec))
    for found in (merged(plain, both), merged(both, plain)):
        assert sorted(device.sm_count for device in found.lock.devices.values()) == [66, 132]
        assert len(found.lock.rows) == 8
        assert {name for name, device in found.lock.devices.items() if device.sm_count == 132} < {
            row.device for row in found.lock.rows
        }


def test_two_devices_that_nothing_tells_apart_are_an_error(spec):
    other = replace(H100, compute_capability=80)
    with pytest.raises(LockError) as error:
        merged(
            lock(rows(spec)),
            lock(rows(spec), replace(H100, sm_count=66)),
            lock(rows(spec), replace(other, sm_count=66)),
        )
    assert (
        str(error.value) == "c: its device 'NVIDIA H100 80GB HBM3' has the name of another device that differs from it"
    )


def test_limits_of_one_device_that_differ_are_told(spec):
    found = merged(lock(rows(spec)), lock([], replace(H100, power_w=350)))
    assert found.lock.devices[H100.name].power_w == 700
    assert found.notes == (f"{H100.name}: power_w is 350 in one lock and 700 in another: 700 kept",)


def test_rows_of_two_compilers_are_told(spec):
    other = [replace(row, compiler="13.1.80") for row in rows(spec, device=L4.name)]
    (note,) = merged(lock(rows(spec)), lock(other, L4)).notes
    assert note.startswith("rows were measured with NVRTC 13.0.88 and 13.1.80: ")


changes = st.fixed_dictionaries(
    {},
    optional={
        "date": st.sampled_from(["2026-11-20", "2026-11-22", "yesterday"]),
        "noise": st.sampled_from(["clocks", ""]),
        "driver": st.sampled_from(["1", "2"]),
        "space": st.sampled_from([""]),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.lists(changes, min_size=4, max_size=4), min_size=2, max_size=3))
def test_the_order_of_the_locks_decides_nothing(spec, drawn):
    judge = FreshnessJudge(spec)
    locks = [lock([replace(row, **change) for row, change in zip(rows(spec), one, strict=True)]) for one in drawn]
    texts = {
        lockfile.dumps(merged(*order, judge=lambda row: judge.judge(row).state).lock)
        for order in itertools.permutations(locks)
    }
    assert len(texts) == 1


def test_selections_of_two_machines_stand_side_by_side(spec):
    one, two = lock([], rules=selections(spec)), lock([], L4, rules=selections(spec, device=L4.name))
    found = merged(two, one, one)
    assert found.lock == lock([], H100, L4, rules=[*selections(spec), *selections(spec, device=L4.name)])
    assert (found.given, found.conflicts) == ({"a": 2, "b": 2, "c": 0}, ())
    part = lock(rows(spec), replace(H100, sm_count=66), rules=selections(spec))
    own = "NVIDIA H100 80GB HBM3 (66 SMs)"
    assert [rule.device for rule in merged(one, part).lock.selections] == [H100.name, H100.name, own, own]


def certified(rule, *, mean=0.006, slower=0.0):
    inside = losses((("n", 1024),), mean=mean, slower=slower)
    return replace(rule, certificate=replace(rule.certificate, inside=inside))


RULES_OF_SELECTIONS = {
    "fresh, not incomplete": (lambda rule: certified(rule, mean=0.3), lambda rule: replace(rule, space="")),
    "certified; the other is not": (
        lambda rule: replace(rule, date="2026-01-01"),
        lambda rule: replace(rule, certificate=None),
    ),
    "made with effort thorough, not fast": (
        lambda rule: replace(rule, effort="thorough", date="2026-01-01"),
        lambda rule: replace(certified(rule, mean=0.001), effort="fast"),
    ),
    "of 2026-11-22, not 2026-11-21": (
        lambda rule: replace(certified(rule, mean=0.009), date="2026-11-22"),
        lambda rule: rule,
    ),
    "loses 0.50% on average by its certificate, not 0.60%": (
        lambda rule: certified(rule, mean=0.005, slower=0.1),
        lambda rule: rule,
    ),
    "slower than the default at 0.00% of problems, not 3.12%": (
        lambda rule: rule,
        lambda rule: certified(rule, slower=0.03125),
    ),
    "equal by every rule; the line that comes first": (
        lambda rule: replace(rule, driver="1"),
        lambda rule: replace(rule, driver="2"),
    ),
}


@pytest.mark.parametrize("reason", RULES_OF_SELECTIONS)
def test_which_of_two_selections_stands_and_why(spec, reason):
    first, *_ = selections(spec)
    better, worse = (change(first) for change in RULES_OF_SELECTIONS[reason])
    judge = FreshnessJudge(spec)
    for order in ((better, worse), (worse, better)):
        found = merged(*(lock([], rules=[rule]) for rule in order), judge=lambda rule: judge.judge(rule).state)
        assert found.lock.selections == (better,)
        (conflict,) = found.conflicts
        names = ("a", "b") if order[0] is better else ("b", "a")
        assert str(conflict) == (
            f"the selection of scale on NVIDIA H100 80GB HBM3 at T=float16: {names[0]}, not {names[1]}: {reason}"
        )
