"""What is learnt from some problems holds at others, and depends on nothing but what was measured."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from invented_times import FACTS, bundled, configurations, resources, time_us, times
from pretuned.record.selections import PredictedChoice, Selection
from pretuned.spec import space
from pretuned.tune.selection import Predictor, predicted_us, ranking
from pretuned.tune.selection.sampling import draw

KERNELS = [("sgemm", (), 0.01), ("row_softmax", (("T", "float16"),), 0.015), ("axpby", (("T", "float32"),), 0.01)]


def selected(spec, specialisation, measured, predictor, most=8):
    """Return the selection that follows from what was measured."""
    chosen = predictor.choose(measured, most)
    costs = predictor.deciding(measured, chosen)
    reach = {name: [int(dict(problem.dims)[name]) for problem in measured] for name in spec.free_dims}
    return Selection(
        kernel=spec.name, device="invented", specialisation=specialisation,
        choices=tuple(PredictedChoice(configuration=c, candidate="", cubin="", cost=costs[c]) for c in chosen),
        margins=predictor.margins(measured, costs),
        reach=tuple((name, (min(sizes), max(sizes))) for name, sizes in sorted(reach.items())),
        problems=len(measured), space="", verification="", compiler="", driver="", date="",
    )  # fmt: skip


@pytest.mark.parametrize(("name", "specialisation", "most"), KERNELS)
def test_the_rule_loses_little_at_problems_that_were_not_measured(name, specialisation, most):
    spec = bundled(name)
    listed = configurations(spec, specialisation)
    measured = times(spec, [*space.problems(spec, specialisation), *draw(spec, specialisation, 60, seed=1)], listed)
    selection = selected(spec, specialisation, measured, Predictor(spec, specialisation, FACTS, resources))
    losses = []
    for problem in draw(spec, specialisation, 100, seed=2):
        known = times(spec, [problem], listed)[problem]
        losses.append(known[ranking(selection, spec, problem, FACTS)[0]] / min(known.values()) - 1)
    assert statistics.fmean(losses) < most
    assert len(selection.choices) <= 8


def test_a_prediction_is_near_what_was_measured():
    spec = bundled("axpby")
    specialisation = (("T", "float32"),)
    listed = configurations(spec, specialisation)[:3]
    predictor = Predictor(spec, specialisation, FACTS, resources)
    costs = predictor.costs(times(spec, draw(spec, specialisation, 40, seed=3), listed), listed)
    for problem in draw(spec, specialisation, 40, seed=4):
        for one in listed:
            assert predicted_us(costs[one], problem) == pytest.approx(time_us(spec, problem, one), rel=0.05)


def test_few_blocks_of_an_sm_take_as_long_as_one():
    spec = bundled("sgemm")
    default = space.default(spec)

    def waiting_us(problem):
        m, n, k = (dict(problem.dims)[name] for name in "mnk")
        blocks = math.ceil(math.ceil(m / 64) * math.ceil(n / 64) / FACTS.sm_count)
        return 1 + 0.05 * k * max(2, blocks)

    errors = []
    for seed in range(10):
        measured = {problem: {default: waiting_us(problem)} for problem in draw(spec, (), 60, seed=seed)}
        cost = Predictor(spec, (), FACTS, resources).costs(measured, [default])[default]
        errors += [abs(predicted_us(cost, one) / waiting_us(one) - 1) for one in draw(spec, (), 60, seed=seed + 100)]
    assert statistics.fmean(errors) < 0.01


def test_the_order_in_which_results_arrive_changes_nothing():
    spec = bundled("sgemm")
    measured = times(spec, draw(spec, (), 20, seed=5), configurations(spec, ()))
    first = selected(spec, (), measured, Predictor(spec, (), FACTS, resources))
    shuffled = {}
    for problem in random.Random(1).sample(sorted(measured), len(measured)):
        known = measured[problem]
        shuffled[problem] = {one: known[one] for one in random.Random(2).sample(sorted(known), len(known))}
    assert selected(spec, (), shuffled, Predictor(spec, (), FACTS, resources)) == first


def test_what_was_timed_at_few_problems_may_be_tried_but_does_not_ship():
    spec = bundled("axpby")
    specialisation = (("T", "float32"),)
    default, other, lucky = configurations(spec, specialisation)[:3]
    measured = times(spec, draw(spec, specialisation, 20, seed=6), [default])
    for problem in measured:
        measured[problem][other] = 0.9 * measured[problem][default]
    first = min(measured)
    measured[first][lucky] = 0.5 * measured[first][default]
    predictor = Predictor(spec, specialisation, FACTS, resources)
    assert lucky in predictor.shortlist(measured, 3)
    assert predictor.choose(measured, 8) == (other, default)


def test_where_predictions_are_poor_the_default_runs():
    spec = bundled("axpby")
    specialisation = (("T", "float32"),)
    default, other = configurations(spec, specialisation)[:2]
    measured = times(spec, draw(spec, specialisation, 40, seed=7), [default])
    predictor = Predictor(spec, specialisation, FACTS, resources)

    def faster_at(noise):
        """Where the rule runs the other, which is 2% faster but for the noise."""
        dice = random.Random(8)
        for problem in sorted(measured):
            measured[problem][other] = 0.98 * measured[problem][default] * (1 + dice.choice([-noise, noise]))
        costs = predictor.deciding(measured, [default, other])
        margin, _ = predictor.margins(measured, costs)
        fresh = draw(spec, specialisation, 40, seed=9)
        return sum(
            predicted_us(costs[other], problem) * 1000 <= predicted_us(costs[default], problem) * (1000 - margin)
            for problem in fresh
        )

    assert faster_at(0.0) > 36
    assert faster_at(0.08) < 20
    few = {problem: measured[problem] for problem in sorted(measured)[:5]}
    assert predictor.margins(few, predictor.deciding(few, [default, other])) == (50, 100)
