"""All devices of a machine tune, one process each, through real sessions; a formula says what things take."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

import pretuned
from pretuned.config import settings
from pretuned.fleet import worker
from pretuned.fleet.machine import MachineCrew, devices_here
from pretuned.record import lock as lockfile
from project_home import Home

ENTRY_POINT = "[pretuned.backends]\narithmetic = arithmetic_devices:BACKEND\n"


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    """A project, and an installed backend whose devices are those of ARITHMETIC_DEVICES."""
    installed = tmp_path / "site-packages" / "arithmetic-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Name: arithmetic\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINT)
    monkeypatch.syspath_prepend(installed.parent)
    monkeypatch.setenv("ARITHMETIC_LOCKS", str(os.getpid()))
    settings._installed.cache_clear()
    (tmp_path / "project").mkdir()
    yield Home(tmp_path / "project", monkeypatch, capsys)
    settings._installed.cache_clear()


def every(backend="arithmetic"):
    return settings.Place(backend=backend, every=True)


def tuned(home, monkeypatch, devices, **given):
    monkeypatch.setenv("ARITHMETIC_DEVICES", devices)
    events = []
    result = pretuned.tune(home.root, on=every(), listen=events.append, **given)
    return result, events


def lock_of(home):
    return (home.root / "pretuned.lock.arithmetic.json").read_bytes()


def forgotten(home):
    (home.root / "pretuned.lock.arithmetic.json").unlink()
    for file in (home.root / "cache").iterdir():
        file.unlink()


def test_two_devices_of_a_kind_find_what_one_finds_even_where_a_process_dies(home, monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        patched.setattr(MachineCrew, "__init__", refuse)
        alone, _ = tuned(home, monkeypatch, "a")
    expected = lock_of(home)
    assert alone.tuned.notes == ()
    forgotten(home)
    monkeypatch.setenv("ARITHMETIC_DEADLY", str(tmp_path / "died"))
    result, events = tuned(home, monkeypatch, "a,a")
    assert lock_of(home) == expected
    assert (tmp_path / "died").exists()
    assert (result.left, result.tuned.trouble, result.device) == (0, "", "arithmetic:0")
    lines = [pretuned.describe(event) for event in events]
    assert lines[0] == "arithmetic:0: 2 units for 2 workers"
    (again,) = [line for line in lines if "attempt 2" in line]
    assert again.startswith("scale: given to a worker again (attempt 2): WorkerLostError: arithmetic device 1: ended")
    of_devices = [line for line in lines[1:] if line is not again]
    assert {line.partition(":")[0] for line in of_devices} == {"arithmetic device 0", "arithmetic device 1"}
    assert sum(line.endswith("scale: n=1024, T=float32: block=128, vec=4, 3.92x") for line in lines) == 1
    (note,) = result.tuned.notes
    assert note.startswith("settled by arithmetic device ")
    assert result.tuned.spending.launched == alone.tuned.spending.launched
    assert tuned(home, monkeypatch, "a,a")[0].idle
    again = ["scale:T=float16"]
    monkeypatch.setattr(MachineCrew, "__init__", refuse)  # which one unit does not need
    assert len(tuned(home, monkeypatch, "a,a", again=again)[0].rows) == 2


def test_a_device_that_cannot_be_used_costs_no_unit_where_another_can(home, monkeypatch):
    monkeypatch.setenv("ARITHMETIC_BUSY", "1")
    result, events = tuned(home, monkeypatch, "a,a")
    assert (result.left, result.tuned.trouble) == (0, "")
    (note,) = result.tuned.notes
    assert note == "settled by arithmetic device 0: 2 units"
    lines = [pretuned.describe(event) for event in events]
    assert any(line.endswith("(attempt 2): arithmetic device 1 is out of memory") for line in lines)


def refuse(*_, **__):
    raise AssertionError("a process was to be started for each device")


def test_kinds_of_devices_tune_side_by_side_into_one_lock(home, monkeypatch):
    result, _ = tuned(home, monkeypatch, "a,b")
    lock = lockfile.read(home.root / "pretuned.lock.arithmetic.json")
    assert sorted(lock.devices) == ["arithmetic:0", "arithmetic:1"]
    assert [row.device for row in lock.rows] == ["arithmetic:0"] * 4 + ["arithmetic:1"] * 4
    assert result.device == "arithmetic:0, arithmetic:1"


def test_devices_are_those_of_one_machine_by_number(home, monkeypatch):
    monkeypatch.setenv("ARITHMETIC_DEVICES", "a,b,a")
    found = list(devices_here("arithmetic", {}))
    assert [(one.name, one.place.index) for one in found] == [
        ("arithmetic:0", 0),
        ("arithmetic:1", 1),
        ("arithmetic:0", 2),
    ]
    assert not any(one.place.every for one in found)


def test_any_executors_workers_tune(home, monkeypatch):
    """The worker's own cache, kernels sent along, and the answer of a child process."""
    monkeypatch.setenv("PRETUNED_TUNE_ON", "arithmetic")
    result, _ = tuned(home, monkeypatch, "a")
    expected = lock_of(home)
    forgotten(home)
    with ThreadPoolExecutor(1) as executor:
        result, events = tuned(home, monkeypatch, "a", executor=executor)
    worker._desk._idle()
    assert lock_of(home) == expected
    assert pretuned.describe(events[0]) == "arithmetic:0: 2 units for 1 worker"
    assert len(result.rows) == 4
