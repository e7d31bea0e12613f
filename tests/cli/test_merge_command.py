"""`pretuned merge`: the locks of several machines into the project's, or into a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from builders import H100
from project_home import Home

L4 = replace(H100, name="NVIDIA L4", sm_count=58, compute_capability=89)


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    return Home(tmp_path, monkeypatch, capsys)


def test_into_the_projects_lock_which_takes_part(home):
    home.write(home.rows())
    home.write(home.rows(device=L4.name), L4, path=Path("l4.json"))
    assert home.run("merge", "l4.json") == (
        0,
        (
            f"pretuned.lock.json: 4 rows of {H100.name}\nl4.json: 4 rows of NVIDIA L4\n"
            f"8 rows for {H100.name}, NVIDIA L4: 4 from pretuned.lock.json, 4 from l4.json; 0 conflicts\n"
        ),
        "pretuned.lock.json: written\n",
    )
    assert home.run("check")[0] == 0
    before = home.lock.read_bytes()
    assert home.run("merge", "l4.json")[2] == "pretuned.lock.json: has all of it, nothing to write\n"
    assert home.lock.read_bytes() == before


def test_into_a_file_the_projects_lock_takes_no_part(home):
    home.write(home.rows())
    home.write(home.rows(device=L4.name), L4, path=Path("l4.json"))
    assert home.run("merge", "l4.json", "-o", "all.json")[2] == "all.json: written\n"
    assert Path("all.json").read_bytes() == Path("l4.json").read_bytes()


def test_a_conflict_is_told_and_the_fresh_row_stands_however_old(home):
    first, *rest = home.rows()
    later = replace(first.winner, candidate="of yesterday")
    home.write([replace(first, date="2026-12-01", choices=(later, first.default))], path=Path("b.json"))
    home.write([first, *rest], path=Path("a.json"))
    status, out, _ = home.run("merge", "a.json", "b.json")
    assert status == 0
    assert out == (
        f"scale on {H100.name} at n=1024, T=float16: a.json, not b.json: fresh, not stale\n"
        f"a.json: 4 rows of {H100.name}\nb.json: 0 rows of {H100.name}; 1 line made way\n"
        f"4 rows for {H100.name}: 4 from a.json, 0 from b.json; 1 conflict (1 by freshness)\n"
    )
    assert home.read().rows == tuple(home.rows())
    conflicts = json.loads(home.run("merge", "a.json", "b.json", "--json")[1])["conflicts"]
    assert {conflict["reason"] for conflict in conflicts} == {"fresh, not stale"}


def test_without_a_project_dates_decide_and_it_is_said(home, tmp_path, monkeypatch):
    first, *_ = home.rows()
    later = replace(first, date="2026-12-01", choices=(replace(first.winner, candidate="unknown"), first.default))
    home.write([first], path=tmp_path / "a.json")
    home.write([later], path=tmp_path / "b.json")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    status, _, err = home.run("merge", "../a.json", "../b.json", "-o", "all.json")
    assert status == 0
    assert err == "there is no project here, so rows were not judged by its specs\nall.json: written\n"
    assert "2026-12-01" in Path("all.json").read_text()
    assert home.run("merge", "../a.json") == (
        2,
        "",
        "error: name a file with --output: there is no project here whose lock could be written\n",
    )


def test_what_cannot_be_read_leaves_the_lock(home):
    home.write(home.rows())
    before = home.lock.read_bytes()
    Path("bad.json").write_text("{")
    assert home.run("merge", "bad.json")[0] == 4
    assert home.run("merge", "absent.json") == (2, "", "error: there is no lock 'absent.json'\n")
    assert home.lock.read_bytes() == before
