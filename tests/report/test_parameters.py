"""Which parameter matters how much, on times whose cause is known."""

from __future__ import annotations

import itertools

import pytest

from builders import H100
from pretuned.report.figures.parameters import CACHE, FEWEST, LOCK, MeasuredSpace, spaces_of
from pretuned.spec.space import Configuration
from project_home import Home


@pytest.fixture
def rows(tmp_path, monkeypatch, capsys):
    return Home(tmp_path, monkeypatch, capsys).rows()


def measured(rows, time_us, blocks=(64, 128, 256), vecs=(1, 2), problems=(1024, 65536)):
    times = tuple(
        (
            (("n", n),),
            Configuration(implementation="main", values=(("block", block), ("vec", vec))),
            time_us(n, block, vec),
        )
        for n, block, vec in itertools.product(problems, blocks, vecs)
    )
    row = rows[0]
    return MeasuredSpace(
        kernel=row.kernel, device=H100.name, specialisation=row.specialisation, times=times, source=CACHE
    )


def figure_of(rows, space):
    (found,) = spaces_of([rows[0]], [space])
    return found


def shares(found):
    return {one.name: one.share for one in found.effects}


def test_what_alone_decides_explains_all(rows):
    found = figure_of(rows, measured(rows, lambda n, block, vec: 3.0 if vec == 1 else 2.0))
    assert shares(found) == {"vec": pytest.approx(1.0), "block": pytest.approx(0.0, abs=1e-12)}
    assert (found.effects[0].name, found.effects[0].best) == ("vec", "2")
    assert (found.measured, found.problems, found.source) == (12, 2, CACHE)
    assert found.spread == pytest.approx(1.5**0.5)  # half of the logs lie log(1.5) / 2 above their mean


def test_how_large_a_problem_is_explains_nothing(rows):
    found = figure_of(rows, measured(rows, lambda n, block, vec: n * (2.0 if vec == 1 else 1.0)))
    assert shares(found)["vec"] == pytest.approx(1.0)


def test_independent_causes_add_up(rows):
    found = figure_of(rows, measured(rows, lambda n, block, vec: block**0.5 * vec))
    assert sum(shares(found).values()) == pytest.approx(1.0)
    assert all(share > 0.1 for share in shares(found).values())


def test_what_only_a_combination_decides_no_parameter_explains(rows):
    found = figure_of(
        rows, measured(rows, lambda n, block, vec: 2.0 if (block == 64) == (vec == 1) else 1.0, (64, 128))
    )
    assert shares(found) == {"vec": pytest.approx(0.0, abs=1e-12), "block": pytest.approx(0.0, abs=1e-12)}


def test_failures_count_for_nothing(rows):
    found = figure_of(rows, measured(rows, lambda n, block, vec: float("inf") if block == 64 else 1.0 + vec))
    assert (found.measured, shares(found)["vec"]) == (8, pytest.approx(1.0))


def test_too_few_times_say_nothing(rows):
    few = measured(rows, lambda n, block, vec: vec, blocks=(64,), problems=(1024, 2048, 4096))
    assert len(few.times) == FEWEST - 2
    assert list(spaces_of([rows[0]], [few])) == []


def test_without_a_cache_the_rows_own_choices_are_compared(rows):
    own = [row for row in rows if row.specialisation == rows[0].specialisation] * 2
    (found,) = spaces_of(own, [])
    assert (found.source, found.measured) == (LOCK, FEWEST)
    assert {one.best for one in found.effects if one.name == "vec"} == {"4"}
