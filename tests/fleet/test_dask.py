"""A cluster of Dask's on this machine: who gets what, and what becomes of workers that go, come and lie."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from builders import H100
from pretuned.api import crews
from pretuned.config import Place
from pretuned.errors import DeviceError
from pretuned.fleet import coordinator, dask
from pretuned.fleet.crews import NoWorkerError
from pretuned.fleet.dask import DaskCrew, connected
from pretuned.fleet.harvest import FleetPolicy
from pretuned.fleet.tuning import FleetTerms, FleetWork, tune_with
from pretuned.fleet.units import split
from pretuned.tune.workbench import Demands
from simulated_fleet import DEVICE, LyingAt, SimulatedWorker, requests

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own
L4 = replace(H100, name="NVIDIA L4", sm_count=58, compute_capability=89)


@pytest.fixture(scope="module")
def cluster():
    """Three workers with one thread each, in this process."""
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=False, dashboard_address=None) as found:
        yield found


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as found:
        yield found


def tuned(folder, crew, policy=FleetPolicy(confirms=False)):  # noqa: B008 - a constant
    terms = FleetTerms(cache_folder=None)
    work = FleetWork(device=DEVICE, requests=requests(folder, 4))
    return tune_with([work], crew, terms, policy=policy)


def crew_of(client, work=SimulatedWorker(), kinds=None):  # noqa: B008 - a constant
    """A crew whose workers have H100s, those of `kinds` what that says."""

    def look(_backend, name):
        return SimulatedWorker(device=(kinds or {}).get(name, H100)).evidence(name)

    found = DaskCrew(client, "cuda", work=work, look=look)
    assert len(found.evidence(10)) == 3
    return found


def workers_of(notes):
    return {word.rstrip(":") for word in notes[0].split(" ") if "//" in word}


def test_workers_of_a_kind_share_its_units(tmp_path, client):
    *_, other = client.nthreads()
    crew = crew_of(client, kinds={other: L4})
    found = tuned(tmp_path, crew, FleetPolicy())
    assert (len(found.rows), found.left, found.trouble) == (16, 0, "")
    assert workers_of(found.notes) <= set(client.nthreads()) - {other}
    assert (crew.workers(H100.name), crew.workers(L4.name), crew.workers("NVIDIA B200")) == (2, 1, 0)
    assert all(one.first != one.second for one in found.confirmed)


def test_a_liar_gets_nothing_more(tmp_path, client):
    liar, *_ = client.nthreads()
    work = LyingAt(liars=(liar,), liar=SimulatedWorker(lie="driver of a row"), honest=SimulatedWorker())
    crew = crew_of(client, work)
    found = tuned(tmp_path, crew)
    assert (len(found.rows), found.left) == (16, 0)
    assert any(note.startswith(f"refused: {liar}: its row at ") for note in found.notes)
    assert crew.workers(H100.name) == 2


@dataclass(frozen=True)
class HangingAt:
    """A worker that hangs as long as a file is there."""

    worker: str
    mark: Path

    def __call__(self, unit, worker):
        while worker == self.worker and self.mark.exists():
            time.sleep(0.05)
        return SimulatedWorker(row_s=0.01)(unit, worker)


def test_a_worker_that_hangs_gets_nothing_more(tmp_path, client, monkeypatch):
    monkeypatch.setattr(coordinator, "LEAST_LATE_S", 4.0)
    hangs, mark = min(client.nthreads()), tmp_path / "hangs"
    mark.touch()
    crew = crew_of(client, HangingAt(hangs, mark))
    try:
        found = tuned(tmp_path, crew)
    finally:
        mark.unlink()
    assert (len(found.rows), found.left, found.trouble) == (16, 0, "")
    assert crew.workers(H100.name) == 2
    assert hangs not in workers_of(found.notes)


def test_nobody_waits_for_a_worker_that_does_not_say_what_it_has(tmp_path, client, monkeypatch):
    monkeypatch.setattr(dask, "OTHERS_S", 0.3)
    hangs, mark = min(client.nthreads()), tmp_path / "hangs"
    mark.touch()

    def look(_backend, name):
        while name == hangs and mark.exists():
            time.sleep(0.05)
        return SimulatedWorker().evidence(name)

    crew = DaskCrew(client, "cuda", work=SimulatedWorker(), look=look)
    try:
        assert len(crew.evidence(10)) == 2
        found = tuned(tmp_path, crew)
    finally:
        mark.unlink()
    assert (len(found.rows), found.left, found.trouble) == (16, 0, "")
    assert len(crew.evidence(10)) == 3  # it has come late


def test_rows_that_nobody_else_can_confirm_cost_no_other_unit(tmp_path, client):
    """Two of three workers are gone by the time that rows are to be confirmed."""
    crew = crew_of(client)
    (unit, *_) = split(requests(tmp_path, 1), DEVICE, Demands())
    for worker in sorted(client.nthreads())[1:]:
        crew.dismiss(worker)
    gpu = f"gpu of {min(client.nthreads())}"
    answer = crew.submit(replace(unit, not_on=gpu), lambda _event: None)
    assert isinstance(answer.exception(5), NoWorkerError)


def test_workers_of_another_driver_than_most_are_left_out(tmp_path, client, monkeypatch):
    odd, *_ = client.nthreads()
    monkeypatch.setattr(crews, "COME_S", 5.0)

    def look(_backend, name):
        return replace(SimulatedWorker().evidence(name), driver="999.1" if name == odd else "580.159.04")

    monkeypatch.setattr(dask.DaskCrew.__init__, "__kwdefaults__", {"work": SimulatedWorker(), "look": look})
    events = []
    with crews.of_dask(client.scheduler.address, Place(), {}, events.append) as tuners:
        (device,) = tuners.devices
        found = tuners.tune([FleetWork(device=device, requests=requests(tmp_path, 2))], FleetTerms(cache_folder=None))
    assert device.driver == "580.159.04"
    assert len(found.rows) == 8
    assert odd not in workers_of(found.notes)
    (event,) = events
    assert event.worker == odd
    assert event.reason.startswith("it has driver, compiler and pretuned 999.1 / 13.0.88 / ")


def test_an_address_where_nobody_answers_is_an_error(monkeypatch):
    monkeypatch.setattr(dask, "CONNECT_S", 0.5)
    with pytest.raises(DeviceError, match=r"start a scheduler by `dask scheduler`, and name its address: .*tcp://127"):
        connected("tcp://127.0.0.1:9")
    with pytest.raises(DeviceError, match=r"there is none at 'head' \(missing port number in address 'head'\)"):
        connected("head")


def test_without_dask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DeviceError, match=r"--dask needs Dask: pip install 'pretuned\[dask\]'"):
        connected("tcp://127.0.0.1:8786")
