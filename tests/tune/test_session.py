"""A session: which GPU it is, which session may use it, and what is missing to begin."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from contextlib import contextmanager

import pytest

from builders import H100
from fake_runner import ROWS_ALONE
from fake_session import DRIVER, PROBED, Held, install
from pretuned.backends import cuda
from pretuned.config import GPU, Place
from pretuned.device import probe
from pretuned.device.probe import Gpu
from pretuned.errors import DeviceError
from pretuned.spec.space import all_problems
from pretuned.tune import screening, session
from pretuned.tune.request import TuningDevice, TuningRequest, find_device
from specs import loaded


@pytest.fixture
def gpus(monkeypatch):
    def show(*found, driver=DRIVER):
        monkeypatch.setattr(probe, "gpus", lambda given=None: found)
        monkeypatch.setattr(probe, "driver", lambda given=None: driver)

    return show


def changed(gpu, **values):
    return Gpu(**{name: getattr(gpu, name) for name in Gpu.__slots__} | values)


def test_a_gpu_goes_by_its_name(gpus):
    gpus(PROBED)
    for known in ({}, {H100.name: H100}):
        assert find_device(GPU, known) == TuningDevice(record=H100, driver="580.65.06")


def test_a_gpu_that_shares_only_its_name_gets_one_of_its_own(gpus):
    gpus(changed(PROBED, sm_count=114))
    device = find_device(GPU, {H100.name: H100})
    assert (device.name, device.record.sm_count) == ("NVIDIA H100 80GB HBM3 (114 SMs)", 114)
    assert find_device(GPU, {}).name == H100.name


def test_another_power_limit_is_no_other_device(gpus):
    gpus(changed(PROBED, power_w=350))
    assert find_device(GPU, {H100.name: H100}).name == H100.name


def test_the_ordinal_is_cudas(gpus):
    gpus(PROBED, changed(PROBED, index=1, name="NVIDIA L4", compute_capability=89))
    assert find_device(Place(index=1), {}).name == "NVIDIA L4"
    assert find_device(Place(index=2), {}) is None


def test_without_gpu_or_driver_no_device_is_found(gpus):
    gpus()
    assert find_device(GPU, {}) is None
    gpus(PROBED, driver=None)
    assert find_device(GPU, {}) is None


@pytest.fixture
def wanted(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path)
    spec = loaded(tmp_path)
    return TuningRequest(spec=spec, problems=tuple(all_problems(spec)))


DEVICE = TuningDevice(record=H100, driver="580", effort=ROWS_ALONE)
SECOND = TuningDevice(record=H100, driver="580", place=Place(index=1), effort=ROWS_ALONE)


def test_rows_come_with_what_they_cost(wanted):
    tuned = session.tune([wanted], DEVICE, cache_folder=None)
    assert (len(tuned.rows), tuned.left, tuned.skipped) == (4, 0, ())
    assert tuned.spending.launched > 0
    assert session.tune([wanted], DEVICE, cache_folder=None, budget_s=0.0).left == 4


def test_waiting_for_the_device_costs_none_of_the_budget(wanted, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    @contextmanager
    def lock(*_):
        now[0] += 1000.0
        yield

    monkeypatch.setattr(session, "device_lock", lock)
    assert len(session.tune([wanted], DEVICE, cache_folder=None, budget_s=60.0).rows) == 4


def test_one_session_at_a_time_measures_on_a_gpu(wanted):
    done = []
    waiting = threading.Thread(target=lambda: done.append(session.tune([wanted], DEVICE, cache_folder=None)))
    with session.device_lock(DEVICE):
        waiting.start()
        waiting.join(0.3)
        assert done == []
        assert len(session.tune([wanted], SECOND, cache_folder=None).rows) == 4
        assert done == []
    waiting.join()
    assert len(done[0].rows) == 4


def test_users_with_other_folders_and_modes_take_turns_on_a_gpu(wanted, tmp_path, monkeypatch):
    shared, other = tmp_path / "shared", tmp_path / "other"
    shared.mkdir()
    other.mkdir()
    monkeypatch.setattr(session, "SHARED", shared)
    before = os.umask(0o077)
    try:
        with session.device_lock(DEVICE):
            (file,) = shared.iterdir()
            assert file.stat().st_mode & 0o777 == 0o666
            monkeypatch.setattr(os, "getuid", lambda: 4321)
            monkeypatch.setattr(tempfile, "tempdir", str(other))
            with pytest.raises(DeviceError, match="another tuning has used"):
                session.tune([wanted], DEVICE, cache_folder=None, patience_s=0.0)
    finally:
        os.umask(before)


@pytest.mark.parametrize("trap", ["a link", "no folder"])
def test_a_lock_that_cannot_be_shared_is_the_users_own(tmp_path, monkeypatch, trap):
    shared, own = tmp_path / "shared", tmp_path / "own"
    own.mkdir()
    monkeypatch.setattr(session, "SHARED", shared)
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    name = f"pretuned-{DEVICE.backend.lock_name(DEVICE.place.index)}"
    if trap == "a link":
        shared.mkdir()
        (tmp_path / "precious").write_text("kept")
        (shared / f"{name}.lock").symlink_to(tmp_path / "precious")
    with session.device_lock(DEVICE):
        assert [file.name for file in own.iterdir()] == [f"{name}-{os.getuid()}.lock"]
    if trap == "a link":
        assert (tmp_path / "precious").read_text() == "kept"


def test_patience_with_others_ends(wanted):
    with session.device_lock(DEVICE), pytest.raises(DeviceError) as error:
        session.tune([wanted], DEVICE, cache_folder=None, patience_s=0.05)
    assert str(error.value) == "another tuning has used NVIDIA H100 80GB HBM3 for 0.05 s"


def test_a_session_that_finds_everything_measured_does_not_wait(wanted, tmp_path, monkeypatch):
    found = session.tune([wanted], DEVICE, cache_folder=tmp_path / "cache")
    monkeypatch.setattr(Held, "prepare", None)  # nothing is asked of the device
    with session.device_lock(DEVICE):
        again = session.tune([wanted], DEVICE, cache_folder=tmp_path / "cache", patience_s=0.0)
    assert (again.rows, again.spending.launched) == (found.rows, 0)


def test_a_lock_is_a_gpus_however_it_is_numbered(wanted, gpus):
    gpus(changed(PROBED, uuid="aa"), changed(PROBED, index=1, uuid="bb"))
    with session.device_lock(DEVICE):
        gpus(changed(PROBED, uuid="bb"), changed(PROBED, index=1, uuid="aa"))
        with pytest.raises(DeviceError, match="another tuning has used NVIDIA H100"):
            session.tune([wanted], SECOND, cache_folder=None, patience_s=0.0)
        assert len(session.tune([wanted], DEVICE, cache_folder=None).rows) == 4


def test_without_cupy_the_error_says_what_to_install(wanted, monkeypatch):
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError) as error:
        session.tune([wanted], DEVICE, cache_folder=None)
    assert str(error.value) == (
        "tuning needs CuPy: install pretuned[cuda13], or pretuned[cuda12] for a driver older than 580"
    )


class Interrupted(Held):
    def screened(self, entry, *, verify):
        if self.requests.count("race") >= 4:
            os.kill(os.getpid(), self.signal)
        return super().screened(entry, verify=verify)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_keep_what_was_settled(wanted, monkeypatch, number):
    before = signal.getsignal(signal.SIGTERM)
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    monkeypatch.setattr(cuda, "Runner", Interrupted)
    monkeypatch.setattr(Interrupted, "signal", number, raising=False)
    monkeypatch.setattr(screening, "CARRIED", 0)
    try:
        tuned = session.tune([wanted], DEVICE, cache_folder=None)
    finally:
        signal.signal(signal.SIGINT, ours)
    assert tuned.interrupted
    assert 0 < len(tuned.rows) < 4
    assert tuned.left == 4 - len(tuned.rows)
    assert signal.getsignal(signal.SIGTERM) is before
