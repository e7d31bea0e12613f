"""All devices of a machine tune, one process each, through real sessions; a formula says what things take."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import pretuned
from arithmetic_devices import ArithmeticDevices
from pretuned.config import settings
from pretuned.errors import DeviceError, UsageError
from pretuned.fleet import worker
from pretuned.fleet.crews import WorkerLostError
from pretuned.fleet.harvest import FleetPolicy
from pretuned.fleet.machine import MachineCrew, devices_here
from pretuned.fleet.serving import Seat
from pretuned.fleet.tuning import FleetTerms, FleetWork, tune_here, tune_with
from pretuned.fleet.units import split
from pretuned.fleet.worker import Settler
from pretuned.record import lock as lockfile
from pretuned.record.cache import Cache
from pretuned.tune.events import GivenAgain, Waiting, innermost
from pretuned.tune.session import device_lock
from pretuned.tune.workbench import Demands
from project_home import Home
from simulated_fleet import requests

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
    assert again.endswith("): given to a worker again (attempt 2): arithmetic device 1: ended by SIGKILL")
    assert again.startswith("scale (T=float")
    of_devices = [line for line in lines[1:] if line is not again]
    assert {line.partition(":")[0] for line in of_devices} >= {"arithmetic device 0"}
    assert sum(line.endswith("scale: n=1024, T=float32: block=128, vec=4, 3.92x") for line in lines) == 1
    (note,) = result.tuned.notes
    assert note.startswith("settled by arithmetic device ")
    assert result.tuned.spending.launched == alone.tuned.spending.launched
    assert tuned(home, monkeypatch, "a,a")[0].idle
    again = ["scale:T=float16"]
    monkeypatch.setattr(MachineCrew, "__init__", refuse)  # which one unit does not need
    assert len(tuned(home, monkeypatch, "a,a", again=again)[0].rows) == 2


def test_processes_of_a_device_take_turns_at_it_and_find_what_one_finds(home, monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        patched.setattr(MachineCrew, "__init__", refuse)
        alone, _ = tuned(home, monkeypatch, "a")
    expected = lock_of(home)
    forgotten(home)
    monkeypatch.setenv("ARITHMETIC_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("ARITHMETIC_S", "0.1")
    result, events = tuned(home, monkeypatch, "a", processes=3)
    assert lock_of(home) == expected
    assert (result.left, result.tuned.trouble, result.device) == (0, "", "arithmetic:0")
    assert pretuned.describe(events[0]) == "arithmetic:0: 2 units for 2 workers"  # a third would have nothing to do
    assert not any(isinstance(innermost(event), Waiting) for event in events)
    (note,) = result.tuned.notes
    assert re.fullmatch(r"settled by (arithmetic device 0, process [12]: 1 unit in \d+ s(, )?){2}", note)
    assert (result.tuned.spending.launched, result.tuned.confirmed) == (alone.tuned.spending.launched, ())
    looks = [tuple(line.split()) for line in (tmp_path / "log").read_text().splitlines()]
    assert len({process for _, process in looks}) == 2
    assert [what for what, _ in looks] == ["begin", "end"] * (len(looks) // 2)
    assert all(begun[1] == ended[1] for begun, ended in zip(looks[::2], looks[1::2], strict=True))


def test_processes_of_a_device_wait_for_another_tuning_together(home, monkeypatch):
    (device,) = devices_here("arithmetic", {})
    with ExitStack() as other:
        other.enter_context(device_lock(device))
        threading.Timer(1.0, other.close).start()
        result, events = tuned(home, monkeypatch, "a", processes=2)
    assert (result.left, len(result.rows)) == (0, 4)
    waits = [event for event in events if isinstance(innermost(event), Waiting)]
    assert len(waits) == 1  # whoever has a unit first says so
    with device_lock(device, refuse):
        pass  # it is free again


def test_processes_of_a_device_lose_patience_together(home, monkeypatch):
    (device,) = devices_here("arithmetic", {})
    work = FleetWork(device=device, requests=requests(home.root, 2))
    with device_lock(device), pytest.raises(DeviceError, match=r"another tuning has used arithmetic:0 for 0\.2 s"):
        tune_here([work], [device], FleetTerms(cache_folder=None, patience_s=0.2, processes=2))


def test_a_tuning_that_waits_for_another_one_is_over_at_once_when_it_is_ended(home, simulated):
    (device,) = devices_here("arithmetic", {})
    unit = split(requests(home.root, 1), device, Demands())[0]
    with device_lock(device):
        waits = threading.Event()
        with MachineCrew([device], target="simulated_fleet:serve", processes=2) as crew:
            answer = crew.submit(unit, lambda _event: waits.set())
            assert waits.wait(30)
            began = time.monotonic()
        assert time.monotonic() - began < 5
    assert answer.done()
    with device_lock(device, refuse):
        pass


@pytest.mark.parametrize("processes", [0, 17])
def test_a_device_has_as_many_processes_as_is_sensible(home, processes):
    with pytest.raises(UsageError, match=f"processes is {processes}; write 1 to 16, or leave it out"):
        pretuned.tune(home.root, processes=processes)


def test_a_device_that_cannot_be_used_costs_no_unit_where_another_can(home, monkeypatch):
    monkeypatch.setenv("ARITHMETIC_BUSY", "1")
    result, events = tuned(home, monkeypatch, "a,a")
    assert (result.left, result.tuned.trouble) == (0, "")
    (note,) = result.tuned.notes
    assert re.fullmatch(r"settled by arithmetic device 0: 2 units in \d+ s", note)
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
    with monkeypatch.context() as patched:
        asked = []
        patched.setattr(ArithmeticDevices, "find", lambda _self, index: asked.append(index))
        assert list(devices_here("arithmetic", {}, found[0])) == [found[0]]
    assert asked == [1]  # one question where there is one device


@pytest.mark.parametrize(("silent", "others"), [(0, [1, 2]), (1, [0, 2])])
def test_a_device_that_answers_nothing_hides_no_other_and_is_named(home, monkeypatch, silent, others):
    monkeypatch.setenv("ARITHMETIC_SILENT", str(silent))
    said = []
    result, _ = tuned(home, monkeypatch, "a,a,a", report=said.append)
    assert (result.left, result.device) == (0, "arithmetic:0")
    assert [one.place.index for one in devices_here("arithmetic", {})] == others
    assert [one.text for one in said] == [
        f"arithmetic device {silent} does not answer, and is left out: it fell off the bus"
    ]


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


@pytest.fixture
def simulated(tmp_path, monkeypatch):
    """What tunes `kernels` on devices whose processes are `simulated_fleet:serve`."""

    def tuned_by(devices, kernels, policy=FleetPolicy(confirms=False), **environment):  # noqa: B008 - a constant
        for name, value in {"ROW_S": "0", "ARITHMETIC_DEVICES": devices, **environment}.items():
            monkeypatch.setenv(name, value)
        found, events = list(devices_here("arithmetic", {})), []
        kinds = {device.name: device for device in reversed(found)}
        works = [FleetWork(device=kind, requests=requests(tmp_path, kernels)) for kind in kinds.values()]
        terms = FleetTerms(cache_folder=None, listen=events.append)
        with MachineCrew(found, target="simulated_fleet:serve") as crew:
            return tune_with(works, crew, terms, elsewhere=False, policy=policy), events, crew

    return tuned_by


def test_a_process_that_hangs_is_ended_and_its_device_goes_on(home, simulated, tmp_path):
    (tmp_path / "hang").touch()
    policy = FleetPolicy(confirms=False, late_s=8.0)  # a process takes a second to start, and more on a busy machine
    found, events, _ = simulated("a", 2, policy, HANGING=str(tmp_path / "hang"))
    assert (len(found.rows), found.left, found.trouble) == (8, 0, "")
    (again,) = [event for event in events if isinstance(event, GivenAgain)]
    assert again.reason == "no sign of life for 8 s"


def test_a_kernel_that_ends_every_process_costs_no_device(home, simulated):
    found, events, crew = simulated("a,a", 3, DEADLY="scale000")
    assert {row.kernel for row in found.rows} == {"scale001", "scale002"}
    assert re.fullmatch(r"not tuned: scale000: arithmetic device \d: ended by SIGKILL, and 1 other unit", found.trouble)
    assert crew.workers("arithmetic:0") == 2
    assert sum(isinstance(event, GivenAgain) for event in events) == 4


def test_where_no_device_of_a_kind_is_left_the_tuning_ends(home, simulated):
    with pytest.raises(DeviceError, match="not tuned: scale000: no arithmetic:0 is left"):
        simulated("a", 2, LYING="reference")


def test_no_process_is_started_for_a_tuning_that_is_over(home):
    settler = Settler(Seat(worker="w"))
    settler.close()
    with pytest.raises(WorkerLostError, match="w: the tuning is over"):
        settler.ask("arithmetic", lambda _event: None)


SCRIPT = """
import signal
import sys
import pretuned
from pretuned.config import Place

def listen(event):
    line = pretuned.describe(event)
    if "measured before" in line or "screened" in line:
        print(line, flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
print("started", flush=True)
pretuned.tune(sys.argv[1], on=Place(backend="arithmetic", every=True), listen=listen)
"""  # without a main guard


@pytest.mark.parametrize(
    ("lines", "signals"),
    [
        (1, [signal.SIGINT] * 2),
        pytest.param(2, [signal.SIGINT], marks=pytest.mark.slow),
        (2, [signal.SIGINT] * 2),
        (2, [signal.SIGTERM]),
    ],
    ids=["twice while starting", "while measuring", "twice while measuring", "SIGTERM while measuring"],
)
def test_a_signal_at_any_moment_leaves_no_process_and_a_whole_lock(home, tmp_path, lines, signals):
    path = os.pathsep.join(map(str, (tmp_path / "site-packages", *sys.path)))
    environment = os.environ | {"PYTHONPATH": path, "ARITHMETIC_DEVICES": "a,a", "ARITHMETIC_S": "0.2"}
    command = [sys.executable, "-c", SCRIPT, str(home.root)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as found:
        for _ in range(lines):
            found.stdout.readline()
        started = len(processes_of(home.root))
        for one in signals:
            found.send_signal(one)
            time.sleep(0.05)
        assert found.wait(30) != 0
    assert started > 2 or lines == 1  # a process for each device, and its own
    ends = time.monotonic() + 10
    while left := processes_of(home.root):
        assert time.monotonic() < ends, left
        time.sleep(0.05)
    lock = home.root / "pretuned.lock.arithmetic.json"
    assert not lock.exists() or lockfile.read(lock) is not None
    if lines == 2:
        with Cache(home.root / "cache") as cache:
            assert sum(one.values for one in cache.holdings()) > 0


def processes_of(root):
    """The processes that have the cache of a project in their environment, without this one."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                int(place.name) != os.getpid()
                and f"PRETUNED_CACHE_DIR={root}".encode() in (place / "environ").read_bytes()
            ):
                found.append((place.name, (place / "cmdline").read_bytes()[-60:]))
    return found
