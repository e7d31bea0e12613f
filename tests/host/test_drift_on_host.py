"""`check --drift` through real processes: what was just tuned on the host device is measured again there."""

from __future__ import annotations

import json

import pytest

from pretuned.compile.host import compiler
from pretuned.config import Place
from pretuned.record.lock import read
from pretuned.spec.loader import load_folder
from pretuned.tune.events import AtProblem
from pretuned.tune.request import find_device
from pretuned.tune.session import remeasure
from project_home import Home

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    return Home(tmp_path, monkeypatch, capsys)


def test_every_row_is_measured_again_and_right_and_reported(home):
    assert home.run("tune", "--on", "host")[0] == 0
    lock = home.root / "pretuned.lock.host.json"
    before = lock.read_bytes()
    status, out, _ = home.run("check", "--drift", "--on", "host", "--json")
    found = json.loads(out)
    assert (found["device"], len(found["rows"])) == ("host", 4)
    assert status in {0, 9}  # a processor's times mean little
    assert {row["verdict"] for row in found["rows"]} <= {"holds", "moved", "slower"}
    assert all(row["default_us"][1] > 0 and row["winner_us"][1] > 0 and not row["recompiled"] for row in found["rows"])
    assert lock.read_bytes() == before

    rows = read(lock).rows
    events = []
    device, specs = find_device(Place.parse("host"), {}), load_folder(home.root / "kernels")
    found = list(remeasure(rows, specs, device, cache_folder=None, listen=events.append))
    told = [event for event in events if isinstance(event, AtProblem)]
    assert [drift.row for drift in found] == list(rows)
    assert [(event.stage, event.done, event.problems) for event in told] == [
        ("measuring again", place, len(rows)) for place in range(len(rows))
    ]
