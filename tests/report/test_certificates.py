"""Certificates in words, while tuning and after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import selection
from pretuned.record.selections import Certificate, Losses
from pretuned.report.certificates import sentence, summary
from pretuned.report.effort import describe
from pretuned.report.selections import of_selections, selection_table
from pretuned.tune.events import Certified, Planned, Refining
from specs import loaded

FLOAT = (("T", "float32"),)
INSIDE = Losses(problems=32, mean=0.0062, p95=0.0214, worst=0.0399, slower=0.0, worst_at=(("m", 1031), ("n", 77)))
OUTSIDE = Losses(problems=16, mean=0.012, p95=0.05, worst=0.081, slower=0.125, worst_at=(("m", 9000), ("n", 3)))
CERTIFICATE = Certificate(seed=1, inside=INSIDE)
IN_WORDS = "32 problems, mean 0.6%, p95 2.1%, worst 4.0% (m=1031, n=77), none slower than the default"
BAD = Certified(
    kernel="sums", specialisation=(), certificate=replace(CERTIFICATE, inside=replace(INSIDE, mean=0.031)), attempts=2
)
GOOD = Certified(kernel="softmax", specialisation=FLOAT, certificate=CERTIFICATE)


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


def test_a_certificate_in_one_line():
    assert sentence(CERTIFICATE) == f"certified: {IN_WORDS}"
    assert sentence(replace(CERTIFICATE, outside=OUTSIDE, calls=True)) == (
        f"certified, by their calls: {IN_WORDS}; outside the sizes: 16 problems, mean 1.2%, p95 5.0%, worst 8.1% "
        "(m=9000, n=3), 2 slower than the default"
    )


def test_the_steps_of_certifying():
    assert describe(GOOD) == f"softmax (T=float32): certified: {IN_WORDS}"
    assert describe(replace(GOOD, cached=True)).endswith("slower than the default (measured before)")
    refining = Refining(kernel="sums", specialisation=(), certificate=BAD.certificate, max_loss=0.02, attempt=1)
    assert describe(refining) == "sums: loses 3.1% on average, more than 2.0%: refining (attempt 1)"


def test_the_summary_counts_problems_and_names_the_worst():
    worse = replace(INSIDE, problems=96, mean=0.01, worst=0.2, slower=1 / 96, worst_at=(("n", 3),))
    other = replace(GOOD, kernel="sums", certificate=replace(CERTIFICATE, inside=worse))
    assert list(summary([GOOD, other], None)) == [
        (
            "2 selections certified at 128 problems: mean 0.9%, worst 20.0% (sums (T=float32) at n=3), "
            "1 slower than the default"
        )
    ]
    assert list(summary([], 0.02)) == []


def test_the_summary_counts_selections_that_were_made_in_a_hurry():
    assert list(summary([GOOD, replace(BAD, hurried=True)], None))[1:] == [
        (
            "run the same command again to go on: 1 selection made in a hurry, where the default runs unless much is "
            "to be gained"
        )
    ]


def test_the_summary_says_where_max_loss_does_not_hold_and_why():
    assert list(summary([GOOD], 0.02))[1:] == ["max-loss 2.0% holds for every selection"]
    assert list(summary([GOOD, BAD], 0.02))[1:] == [
        "sums: mean 3.1% is over max-loss 2.0% after 2 refinements, and more are not tried"
    ]
    assert list(summary([replace(BAD, spent=True, attempts=0)], 0.02))[1:] == [
        "sums: mean 3.1% is over max-loss 2.0%: the time for it ended"
    ]


def test_selections_are_shown_with_their_certificates_and_what_ships(spec):
    two = selection(spec, FLOAT)
    bare = selection(spec, (("T", "float16"),), certificate=None, device="NVIDIA L4")
    inside = replace(two.certificate.inside, slower=2 / 32, worst_at=(("n", 5791),))
    one = replace(two, certificate=replace(two.certificate, inside=inside))
    assert selection_table(of_selections([bare, one])) == (
        "NVIDIA H100 80GB HBM3, at all other sizes: 1 selection\n"
        "kernel  specialisation  ships  certified at  mean   p95  worst  slower  worst at\n"
        "scale   T=float32           2    32 inside   0.6%  2.1%   4.3%       2  n=5791\n"
        "                                 32 outside  1.1%  2.1%   4.3%       0  n=65536\n"
        "\n"
        "scale (T=float32) ships block=256, vec=4; block=256, vec=1 (the default)\n"
        "\n"
        "NVIDIA L4, at all other sizes: 1 selection\n"
        "kernel  specialisation  ships  certified at  mean  p95  worst  slower  worst at\n"
        "scale   T=float16           2       nothing\n"
        "\n"
        "scale (T=float16) ships block=256, vec=4; block=256, vec=1 (the default)"
    )


def test_a_selection_as_data(spec):
    (line,) = of_selections([selection(spec, FLOAT)])
    found = line.to_json()
    assert (found["specialisation"], found["reach"], found["problems"]) == ("T=float32", {"n": (1024, 65536)}, 120)
    assert found["configurations"][-1] == "block=256, vec=1"
    assert (found["certificate"]["seed"], found["certificate"]["outside"]["worst_at"]) == (7, {"n": 65536})
    assert of_selections([selection(spec, FLOAT, certificate=None)])[0].to_json()["certificate"] is None


def test_a_plan_without_rows_speaks_of_selections():
    plan = Planned(kernels=2, rows=0, configurations=28, sources=28, seconds=5.2, budget_s=None)
    assert describe(plan) == "selections of 2 kernels to make or certify, about 5 s"
