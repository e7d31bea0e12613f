"""A project to attack, on a machine without a GPU."""

import pytest

from hostile_data import Area
from pretuned.device import probe


@pytest.fixture
def area(tmp_path, monkeypatch, capsys):
    """The project is the current folder; the cache is elsewhere."""
    found = Area(tmp_path / "area", capsys)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(probe, "gpus", lambda given=None: ())
    monkeypatch.setattr(probe, "driver", lambda given=None: None)
    monkeypatch.chdir(found.project)
    return found
