"""A backend of somebody else, in one file: found by an entry point or by registration, and tuned on to the end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pretuned import backends
from pretuned.backends import BackendError, lock_path, named, register
from pretuned.config import Place, read_settings, settings
from pretuned.record import lock as lockfile
from project_home import Home

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "how-to-add-a-backend.md"
ARITHMETIC = re.search(r'```python\n("""A backend that.*?)```', PAGE.read_text(), re.DOTALL)[1]
ENTRY_POINT = "[pretuned.backends]\narithmetic = arithmetic:BACKEND\n"


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    """A project, and beside it an installed package with the page's backend."""
    installed = tmp_path / "site-packages"
    (installed / "arithmetic-1.0.dist-info").mkdir(parents=True)
    (installed / "arithmetic-1.0.dist-info" / "METADATA").write_text("Name: arithmetic\nVersion: 1.0\n")
    (installed / "arithmetic-1.0.dist-info" / "entry_points.txt").write_text(ENTRY_POINT)
    (installed / "arithmetic.py").write_text(ARITHMETIC)
    monkeypatch.syspath_prepend(installed)
    settings._installed.cache_clear()
    (tmp_path / "project").mkdir()
    yield Home(tmp_path / "project", monkeypatch, capsys)
    settings._installed.cache_clear()


def baked(home):
    return (home.root / "src" / "demo" / "tuned" / "__init__.py").read_text()


def test_the_pages_example_is_tuned_on(home):
    status, _, err = home.run("tune", "--on", "arithmetic")
    assert (status, err.splitlines()[-1]) == (0, "pretuned.lock.arithmetic.json: written")
    rows = lockfile.read(home.root / "pretuned.lock.arithmetic.json").rows
    assert {row.device for row in rows} == {"arithmetic"}
    assert {row.compiler for row in rows} == {"arithmetic 1.0"}
    assert [dict(row.winner.configuration.values) for row in rows] == [{"block": 128, "vec": 4}] * 4
    assert [row.winner.time_us for row in rows] == [26.0] * 4
    assert not home.lock.exists()
    assert home.run("check", "--on", "arithmetic")[0] == 0


def test_a_device_that_it_has_not_is_named(home):
    status, _, err = home.run("tune", "--on", "arithmetic:1")
    assert status != 0
    assert "there is no arithmetic device 1 here to tune on" in err


def test_its_rows_ship_only_where_it_is_asked_for(home):
    home.run("tune", "--on", "arithmetic")
    home.run("bake", "--on", "arithmetic")
    assert '"arithmetic"' in baked(home)
    home.run("bake")
    assert '"arithmetic"' not in baked(home)


def test_the_environment_names_it_too(home):
    assert read_settings({"PRETUNED_TUNE_ON": "arithmetic"}).device == Place(backend="arithmetic")


def test_a_name_that_nobody_has_is_refused_with_those_there_are(home):
    with pytest.raises(BackendError, match="cuda"):
        named("cud")
    status, _, err = home.run("tune", "--on", "metal")
    assert status == 2
    assert "; expected 'auto', 'cuda', 'cuda:1', 'arithmetic' or 'host'" in err


def test_a_backend_that_is_registered_is_found_and_a_name_is_given_once(monkeypatch):
    monkeypatch.setattr(backends, "_registered", dict(backends._registered))
    monkeypatch.setattr(settings, "_backends", set(settings._backends))
    given = named("host")
    register("mine", given)
    assert named("mine") is given
    assert Place.parse("mine:3") == Place(backend="mine", index=3)
    with pytest.raises(ValueError, match="there is a backend 'host' already"):
        register("host", given)


def test_the_lock_of_gpus_is_the_projects_and_others_stand_beside_it():
    lock = Path("pretuned.lock.json")
    assert [lock_path(lock, name).name for name in ("cuda", "host")] == [
        "pretuned.lock.json",
        "pretuned.lock.host.json",
    ]
