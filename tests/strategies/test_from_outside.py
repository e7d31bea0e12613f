"""A strategy of another package, in one file: found by its place or an entry point, used, and held to its contract."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import fake_session
from fake_runner import FakeRunner
from pretuned import strategies
from pretuned.cli import main
from pretuned.record import lock as lockfile
from pretuned.strategies import StrategyError, ask, named, names, register
from project_home import Home

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "how-to-add-a-strategy.md"
DESCENT = re.search(r'```python\n("""Coordinate descent.*?)```', PAGE.read_text(), re.DOTALL)[1]


class Watched(fake_session.Held):
    """A GPU that notes which values it was asked to screen; larger blocks and wider vectors are faster."""

    screened_values: list

    def __init__(self, **_):
        FakeRunner.__init__(self, lambda values, _dims: 1000.0 / values["vec"] / values["block"])

    def screened(self, entry, *, verify):
        self.screened_values.append(tuple(dict(entry.configuration.values).values()))
        return super().screened(entry, verify=verify)


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Watched, "screened_values", [], raising=False)
    fake_session.install(monkeypatch, tmp_path, runner=Watched)
    return Home(tmp_path, monkeypatch, capsys)


def test_the_pages_example_tunes(home):
    (home.root / "descent.py").write_text(DESCENT)
    status, _, err = home.run("tune", "--strategy", "descent:CoordinateDescent")
    assert (status, err.splitlines()[-1]) == (0, "pretuned.lock.json: written")
    winners = [dict(row.winner.configuration.values) for row in lockfile.read(home.lock).rows]
    assert winners == [{"block": 256, "vec": 4}] * 4
    # From (256, 1) to its neighbours, and on from the fastest, (256, 4): nothing leads to (128, 2).
    assert set(Watched.screened_values) == {(256, 1), (128, 1), (256, 2), (256, 4), (128, 4)}


def test_a_row_of_another_strategy_is_not_taken_for_ones_own(home):
    assert home.run("tune", "--strategy", "random")[0] == 0
    screened = len(Watched.screened_values)
    home.lock.unlink()
    out = home.run("tune")[1]
    assert len(Watched.screened_values) == screened  # each candidate's times are known
    assert ", 0 measurements" not in out  # but the rows were decided anew
    home.lock.unlink()
    assert ", 0 measurements" in home.run("tune")[1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hybird", "there is no strategy 'hybird'; did you mean 'hybrid'?"),
        ("best", "there is no strategy 'best'; known are auto, exhaustive, hybrid, random"),
        ("absent:Best", "strategy 'absent:Best' cannot be loaded: ModuleNotFoundError: No module named 'absent'"),
        (
            "pretuned.strategies:BATCH",
            (
                "strategy 'pretuned.strategies:BATCH' cannot be loaded: "
                "BATCH of pretuned.strategies is not a class or function"
            ),
        ),
    ],
)
def test_a_strategy_that_cannot_be_had_is_an_error_that_says_why(home, name, message):
    assert home.run("tune", "--strategy", name) == (2, "", f"error: {message}\n")


def test_an_installed_package_names_its_strategy_by_an_entry_point(tmp_path, monkeypatch, capsys):
    (tmp_path / "descent.py").write_text(DESCENT)
    metadata = tmp_path / "descent-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: descent\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[pretuned.strategies]\ndescent = descent:CoordinateDescent\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "descent" in names()
    assert named("descent").make(9, []).complete is False
    with pytest.raises(SystemExit):
        main(["tune", "--help"])
    assert "descent" in capsys.readouterr().out


def test_looking_in_the_current_folder_leaves_the_path_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "searches_here.py").write_text("class Own:\n    def __init__(self, size, first):\n        pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.path)
    for name in ("searches_here:Own", "exhaustive"):
        named(name).make(1, [])
        assert sys.path == before


def test_a_name_is_registered_once(monkeypatch):
    monkeypatch.setattr(strategies, "_registered", dict(strategies._registered))
    register("mine", lambda size, _first: list(range(size)))
    assert named("mine").make(2, []) == [0, 1]
    with pytest.raises(ValueError, match="there is a strategy mine already"):
        register("mine", "somewhere:Else")


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([1, 4], "Scripted proposed row 4, which is not one of 4"),
        ([-1], "Scripted proposed row -1, which is not one of 4"),
        ([2, 0], "Scripted proposed row 0, which has a time already"),
        ([2, 2], "Scripted proposed a row twice in one batch"),
    ],
)
def test_what_a_strategy_may_not_propose(batch, message):
    class Scripted:
        def propose(self, codes, times_us):
            return batch

    with pytest.raises(StrategyError, match=message):
        ask(Scripted(), [[0]] * 4, {0: 1.0})
