"""Costs: the best non-negative sum, in whole femtoseconds, of few terms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretuned.spec.space import Problem, pairs
from pretuned.tune.selection.fitting import MOST_TERMS, NonNegativeSquares, fit, prediction
from pretuned.tune.selection.rule import predicted_us
from pretuned.tune.selection.terms import ProblemTable, Term


def best_error(matrix, target, most):
    """Return the least squared error of any non-negative combination of so many columns, by trying all sets."""
    errors = [float(target @ target)]
    for count in range(1, most + 1):
        for chosen in itertools.combinations(range(matrix.shape[1]), count):
            part = matrix[:, chosen]
            weights, *_ = np.linalg.lstsq(part, target, rcond=None)
            if weights.min() >= 0:
                errors.append(float(((part @ weights - target) ** 2).sum()))
    return min(errors)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_the_solution_is_the_best_of_all_sets_of_columns(seed, columns):
    generator = np.random.default_rng(seed)
    matrix = generator.random((12, columns)) ** 3
    target = matrix @ np.maximum(0, generator.normal(size=columns)) + 0.3 * generator.random(12)
    found = nonnegative(matrix, target, most=columns, ridge=0.0)
    assert found.min() >= 0
    error = float(((matrix @ found - target) ** 2).sum())
    assert error <= best_error(matrix, target, columns) + 1e-3 * float(target @ target)


def nonnegative(matrix, target, *, most, **given):
    squares = NonNegativeSquares(matrix, target, **given)
    squares.complete(most)
    return squares.weights


def alone(terms, table, times_us, best_us):
    """The cost of a single configuration."""
    (cost,) = fit([terms], table, times_us[:, None], best_us)
    return cost


def test_no_more_columns_are_used_than_allowed():
    generator = np.random.default_rng(1)
    matrix = generator.random((60, 40))
    found = nonnegative(matrix, matrix @ generator.random(40), most=5)
    assert 1 <= (found > 0).sum() <= 5


N = [Problem(specialisation=(), dims=pairs({"n": n})) for n in (100, 777, 1500, 4096, 9999, 20000, 65536, 100001)]
TERMS = [Term(), Term(factors=("n",)), Term(factors=("ceil_div(n, 4096)",)), Term(where="n % 4")]


def test_a_sum_of_terms_is_found_again():
    times = np.array(
        [2 + n / 1000 + 0.25 * -(-n // 4096) + (0.5 if n % 4 else 0) for n in (int(p.dims[0][1]) for p in N)]
    )
    cost = dict(alone(TERMS, ProblemTable(N), times, times))
    assert cost == {
        "1": pytest.approx(2e9, rel=5e-2),
        "n": pytest.approx(1e6, rel=5e-2),
        "ceil_div(n, 4096)": pytest.approx(0.25e9, rel=5e-2),
        "1 if n % 4 else 0": pytest.approx(0.5e9, rel=5e-2),
    }
    assert all(type(femtoseconds) is int for femtoseconds in cost.values())


def test_a_prediction_by_columns_is_the_prediction_at_each_problem():
    cost = alone(TERMS, ProblemTable(N), np.array([1.0, 2, 3, 4, 6, 9, 20, 40]), np.ones(8))
    assert prediction(cost, ProblemTable(N)) == pytest.approx([predicted_us(cost, problem) for problem in N])


def test_what_takes_less_than_a_femtosecond_is_counted_by_the_thousand():
    terms = [Term(factors=("n", "n", "n"))]
    times = np.array([int(p.dims[0][1]) ** 3 * 2e-10 for p in N])  # a fifth of a femtosecond for each
    ((text, femtoseconds),) = alone(terms, ProblemTable(N), times, times)
    assert text == "n * n * n // 1048576"
    assert femtoseconds == pytest.approx(0.2 * 1048576, rel=1e-2)


def test_where_a_configuration_failed_nothing_is_fitted():
    times = np.full(8, np.nan)
    assert alone(TERMS, ProblemTable(N), times, np.ones(8)) == ()
    times[2:] = 5.0
    assert prediction(alone(TERMS, ProblemTable(N), times, np.ones(8)), ProblemTable(N))[2:] == pytest.approx(
        5.0, rel=0.01
    )


def test_a_term_without_a_value_is_not_used():
    terms = [Term(), Term(factors=("n", *["n"] * 4)), Term(factors=("0 - n",))]
    assert [text for text, _ in alone(terms, ProblemTable(N), np.linspace(1, 9, 8), np.ones(8))] == ["1"]
    assert MOST_TERMS <= 16  # what a call still computes for eight configurations in microseconds


def test_a_term_that_no_lock_can_hold_takes_nothing_from_those_that_can():
    problems = [Problem(specialisation=(), dims=pairs({"n": n})) for n in range(100, 4000, 100)]
    table = ProblemTable(problems)
    deep = "n"
    for step in range(25):
        deep = f"(n + {deep} if n > {step} else n)"  # more levels than a cost may have
    terms = [Term(), Term(factors=("n",)), Term(factors=(deep,))]
    assert not terms[2].text
    times = 2.0 + 0.01 * table.quantity("n")
    cost = alone(terms, table, times, times)
    np.testing.assert_allclose(prediction(cost, table), times, rtol=1e-3)


def test_configurations_that_are_fitted_together_find_what_few_times_hide_from_each():
    wanted = [Term(role="call"), Term(factors=("n",), role="n"), Term(where="n % 4", role="ragged")]
    decoys = [Term(factors=(f"n % {k}",), role=f"decoy {k}") for k in range(300, 700, 10)]
    terms = [[*wanted, *decoys]] * 12

    def times(of):
        n = of.quantity("n")
        return np.stack([1 + n * (0.5 + 0.1 * c) / 1000 + (0.6 + 0.02 * c) * (n % 4 > 0) for c in range(12)], axis=1)

    def errors(seed):
        generator = np.random.default_rng(seed)
        problems = [Problem(specialisation=(), dims=pairs({"n": int(n)})) for n in generator.integers(500, 9000, 90)]
        table, judged = ProblemTable(problems[:45]), ProblemTable(problems[45:])
        exact = times(table)
        noisy = exact * np.exp(0.03 * generator.normal(size=exact.shape))
        measured = np.where(generator.random(exact.shape) < 0.2, noisy, np.nan)
        together = fit(terms, table, measured, exact[:, 0])
        apart = [alone(own, table, measured[:, c], exact[:, 0]) for c, own in enumerate(terms)]
        for costs in (together, apart):
            found = np.stack([prediction(cost, judged) for cost in costs], axis=1)
            yield float(np.abs(np.log(found / times(judged))).mean())

    together, apart = np.mean([list(errors(seed)) for seed in range(10)], axis=0)
    assert together < apart


def test_a_condition_does_not_stand_for_the_whole():
    sizes = [*range(5, 60, 6), *range(20000, 400000, 20000)]  # nothing small is even
    table = ProblemTable([Problem(specialisation=(), dims=pairs({"n": n})) for n in sizes])
    n = table.quantity("n")
    times = (2 + n / 1000) * np.where(n % 2, 1, 0.95)
    terms = [Term(), Term(factors=("n",)), Term(where="n % 2")]
    cost = alone(terms, table, times, times)
    small = ProblemTable([Problem(specialisation=(), dims=pairs({"n": 8}))])
    assert prediction(cost, small)[0] > 1.5


def test_configurations_that_share_no_term_are_fitted_as_if_alone():
    times = np.array([1.0, 2, 3, 4, 6, 9, 20, 40])
    terms = [
        [Term(role=f"{c} {place}", factors=one.factors, where=one.where) for place, one in enumerate(TERMS)]
        for c in (0, 1)
    ]
    found = fit(terms, ProblemTable(N), np.stack([times, times[::-1]], axis=1), np.ones(8))
    apart = [
        alone(own, ProblemTable(N), took, np.ones(8)) for own, took in zip(terms, (times, times[::-1]), strict=True)
    ]
    assert found == apart
