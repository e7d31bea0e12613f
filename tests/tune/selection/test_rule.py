"""The rule picks the lowest cost that beats the default by the margin, of what is legal."""

from __future__ import annotations

from invented_times import FACTS
from pretuned.record.selections import PredictedChoice, Selection
from pretuned.spec.space import Configuration, Problem, pairs
from pretuned.tune.selection import predicted_us, ranking
from specs import loaded

F16 = (("T", "float16"),)


def choice(vec, *cost, block=256):
    configuration = Configuration(implementation="main", values=pairs({"block": block, "vec": vec}))
    return PredictedChoice(configuration=configuration, candidate="", cubin="", cost=cost)


def selection(*choices, margins=(20, 100)):
    return Selection(
        kernel="scale", device="", specialisation=F16, choices=choices, margins=margins, reach=(("n", (1024, 65536)),),
        problems=9, space="", verification="", compiler="", driver="", date="",
    )  # fmt: skip


def ranked(spec, rule, n):
    found = ranking(rule, spec, Problem(specialisation=F16, dims=pairs({"n": n})), FACTS)
    return [(dict(one.values)["block"], dict(one.values)["vec"]) for one in found]


def test_the_lowest_cost_runs_where_its_guards_hold(tmp_path):
    spec = loaded(tmp_path)
    rule = selection(choice(4, ("n", 50)), choice(2, ("n", 70)), choice(1, ("n", 100)))
    assert ranked(spec, rule, 4096) == [(256, 4), (256, 2), (256, 1)]
    assert ranked(spec, rule, 4098) == [(256, 2), (256, 1)]
    assert ranked(spec, rule, 4097) == [(256, 1)]


def test_the_margin_decides_for_the_default_and_is_wider_outside(tmp_path):
    spec = loaded(tmp_path)
    rule = selection(choice(2, ("n", 980)), choice(4, ("n", 981)), choice(1, ("n", 1000)))
    assert ranked(spec, rule, 4096) == [(256, 2), (256, 1)]  # exactly 2% is enough
    assert ranked(spec, rule, 1020) == [(256, 1)]
    assert ranked(spec, rule, 65540) == [(256, 1)]


def test_of_equals_the_first_runs(tmp_path):
    spec = loaded(tmp_path)
    rule = selection(choice(4, ("1", 5), block=128), choice(2, ("1", 5)), choice(4, ("1", 4)), choice(1, ("1", 9)))
    assert ranked(spec, rule, 4096) == [(256, 4), (128, 4), (256, 2), (256, 1)]


def test_what_has_no_cost_does_not_run(tmp_path):
    spec = loaded(tmp_path)
    assert ranked(spec, selection(choice(2), choice(1, ("1", 9))), 4096) == [(256, 1)]
    assert ranked(spec, selection(choice(2, ("1", 1)), choice(1)), 4096) == [(256, 1)]
    assert predicted_us((), Problem(specialisation=F16, dims=pairs({"n": 4096}))) == float("inf")


def test_a_prediction_is_exact_however_large_it_is(tmp_path):
    spec = loaded(tmp_path)
    rule = selection(choice(2, (f"n * {2**61} - 1", 1)), choice(1, (f"n * {2**61}", 1)), margins=(0, 0))
    assert ranked(spec, rule, 4096) == [(256, 2), (256, 1)]
