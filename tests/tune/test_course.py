"""The course of a session: what reports read of it from the user cache."""

from __future__ import annotations

import itertools

import pytest

from builders import H100, losses, rows, selection
from fake_session import install
from pretuned.record.cache import Cache, Subject
from pretuned.record.courses import Curve, HeldOut, course_of, held_out_of, keep_held_out
from pretuned.record.selections import Certificate
from pretuned.spec.space import all_problems, specialisations
from pretuned.tune.course import MOST_POINTS, CourseWatch
from pretuned.tune.events import CandidatesScreened, Certified, Decided, Measuring
from pretuned.tune.request import EffortProfile, TuningDevice, TuningRequest
from pretuned.tune.session import tune
from pretuned.tune.spending import Spending
from specs import loaded

DEVICE = "NVIDIA H100 80GB HBM3"
PROFILE = EffortProfile(surveyed_problems=6, tried_problems=8, certified_problems=4)
NEVER = {"kernel": "scale", "problems": 1, "wanted": 9}


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


@pytest.fixture
def cache():
    with Cache(None) as found:
        yield found


def heard(events, cache, spending=None):
    """Keep what a session says, one event a second; events pass on unchanged."""
    passed = []
    seconds = itertools.count()
    watch = CourseWatch(DEVICE, clock=lambda: float(next(seconds)))
    listen = watch.listener(passed.append)
    for event in events:
        listen(event)
    watch.keep(cache, spending or Spending())
    assert passed == list(events)


def screened(row, seen, best_us, default_us=10.0):
    best = row.winner.configuration if best_us is not None else None
    return CandidatesScreened(
        problem=row.problem, seen=seen, best=best, best_us=best_us or 0.0, default_us=default_us, **NEVER
    )


def test_the_best_so_far_is_kept_by_the_second_with_the_stages(spec, cache):
    row, other, *_ = rows(spec)
    spending = Spending()
    spending.by_kernel["scale"].update(screening=1.5, compiling=4.0)
    spending.by_kernel[""].update(overhead=9.0)
    events = [
        Measuring(kernel="scale", problem=row.problem, candidates=6, done=0, rows=2),
        screened(row, 0, None, None),
        screened(row, 2, 9.5),
        screened(row, 4, 9.5),
        screened(row, 6, 8.5),
        Decided(row=row, cached=False),
        Decided(row=other, cached=True),
    ]
    heard(events, cache, spending)
    course = course_of(cache, "scale", DEVICE)
    assert course.seconds == (("compiling", 4.0), ("screening", 1.5))
    assert course.whole_s == 5.5
    curve = Curve(problem=str(row.problem), default_us=10.0, points=((1.0, 9.5), (3.0, 8.5), (4.0, 8.0)))
    assert course.curves == (curve,)


def test_a_session_that_measures_nothing_keeps_the_course_before(spec, cache):
    row = rows(spec)[0]
    heard([Decided(row=row, cached=False)], cache)
    before = course_of(cache, "scale", DEVICE)
    heard([Decided(row=row, cached=True)], cache)
    assert course_of(cache, "scale", DEVICE) == before != None  # noqa: E711 - all three
    assert course_of(cache, "scale", "another") is None


def test_a_long_curve_keeps_its_end(spec, cache):
    row = rows(spec)[0]
    heard([screened(row, n, 1000.0 - n) for n in range(3 * MOST_POINTS)], cache)
    points = course_of(cache, "scale", DEVICE).curves[0].points
    assert len(points) == MOST_POINTS
    assert points[-1][1] == 1000.0 - 3 * MOST_POINTS + 1


def test_problems_are_kept_for_their_certificate_alone(spec, cache):
    rule = selection(spec, rows(spec)[0].specialisation)
    problems = (HeldOut(dims=(("n", 1031),), loss=0.0625, inside=True, slower=True),)
    found = {"kernel": "scale", "specialisation": rule.specialisation, "certificate": rule.certificate}
    heard([Certified(**found, held_out=problems)], cache)
    subject = Subject(kernel="scale", device=DEVICE)
    assert held_out_of(cache, subject, rule.specialisation, rule.certificate) == problems
    other = Certificate(seed=8, inside=losses((("n", 1031),)))
    assert held_out_of(cache, subject, rule.specialisation, other) == ()
    assert held_out_of(cache, subject, (), rule.certificate) == ()


def test_a_session_leaves_its_course_and_the_problems_of_its_certificates(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path)
    spec = loaded(tmp_path)
    request = TuningRequest(spec=spec, problems=tuple(all_problems(spec)), select=tuple(specialisations(spec)))
    device = TuningDevice(record=H100, driver="580", effort=PROFILE)
    found = tune([request], device, cache_folder=tmp_path / "cache")
    subject = Subject(kernel="scale", device=H100.name)
    with Cache(tmp_path / "cache") as cache:
        course = course_of(cache, "scale", H100.name)
        held_out = [held_out_of(cache, subject, one.specialisation, one.certificate) for one in found.selections]
    assert {curve.problem for curve in course.curves} >= {str(row.problem) for row in found.rows}
    assert course.whole_s > 0
    assert len(held_out) == 2
    for rule, problems in zip(found.selections, held_out, strict=True):
        inside = [one.loss for one in problems if one.inside]
        assert len(inside) == rule.certificate.inside.problems
        assert max(inside) == pytest.approx(rule.certificate.inside.worst, abs=1e-4)


def test_what_another_version_kept_counts_as_absent(spec, cache, monkeypatch):
    rule, subject = selection(spec, rows(spec)[0].specialisation), Subject(kernel="scale", device=DEVICE)
    heard([Decided(row=rows(spec)[0], cached=False)], cache)
    keep_held_out(cache, subject, rule.specialisation, rule.certificate, [])
    for value in ({}, {"problems": [{}]}, {"problems": 3, "seconds": {}, "kernel": "scale", "curves": [[]]}):
        monkeypatch.setattr(Cache, "record", lambda self, key, value=value: value)
        assert course_of(cache, "scale", DEVICE) is None
        assert held_out_of(cache, subject, rule.specialisation, rule.certificate) == ()
