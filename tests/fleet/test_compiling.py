"""Workers of a Dask cluster that have no device: they compile for those that have one, and change nothing else."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass

import pytest

from arithmetic_devices import COMPILER
from pretuned.compile.nvrtc import NVRTC, compile_source
from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.config import settings
from pretuned.errors import DeviceError
from pretuned.fleet import compiling, worker
from pretuned.fleet.answers import WorkerEvidence
from pretuned.fleet.compiling import CompilerEvidence
from pretuned.fleet.dask import DaskCrew
from pretuned.fleet.harvest import FleetPolicy
from pretuned.fleet.tuning import FleetTerms, FleetWork, tune_with
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.render import Source
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.tune.events import AnswerRefused
from pretuned.tune.request import TuningRequest, find_device
from pretuned.version import __version__
from specs import SCALE, SCALE_TEMPLATE, edited, write

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own
ENTRY_POINT = "[pretuned.backends]\narithmetic = arithmetic_devices:BACKEND\n"
POLICY = FleetPolicy(confirms=False)
ALONE: list[str] = []


@dataclass(frozen=True)
class Look:
    """Says that the worker at one address has a device, and others a compiler of some version."""

    device: str
    compiler: str = COMPILER

    def __call__(self, backend, name):
        if name == self.device:
            return worker.survey(backend, name)
        return CompilerEvidence(worker=name, compiler=self.compiler, version=__version__)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The backend whose devices are a formula, for the processes of a cluster too; to compile takes a fifth second."""
    folder = tmp_path / "site-packages" / "arithmetic-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Name: arithmetic\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(ENTRY_POINT)
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.setenv("ARITHMETIC_COMPILE_S", "0.2")
    settings._installed.cache_clear()
    yield
    settings._installed.cache_clear()


@pytest.fixture
def cluster(installed, tmp_path, monkeypatch):
    """Return a started cluster of workers in processes of their own, which measure anew each time."""
    opened = []

    def start(workers):
        own = f"{os.getpid()}-{len(opened)}"  # a session holds its device for a minute
        monkeypatch.setenv("ARITHMETIC_LOCKS", own)
        monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / own))
        found = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="CRITICAL"
        )
        opened.append(found)
        client = distributed.Client(found, set_as_default=False)
        opened.append(client)
        client.wait_for_workers(workers)
        return client

    yield start
    for one in reversed(opened):
        one.close()


def request_in(folder):
    """A kernel with 60 configurations, of one specialisation."""
    fewer = ('dtypes = ["float32", "float16"]', 'dtypes = ["float32"]')
    more = ("block = [128, 256]", f"block = {list(range(32, 672, 32))}")
    spec = load(
        write(folder, edited(SCALE, fewer, more), template="constexpr int block = {{ block }};\n" + SCALE_TEMPLATE)
    )
    return TuningRequest(spec=spec, problems=tuple(all_problems(spec)))


def tuned(client, folder, *, compiler=COMPILER, before=lambda _crew: None):
    """Tune with the first worker of a cluster, and the others as compilers: the lock, the notes, the events."""
    device = find_device(settings.Place(backend="arithmetic"), {})
    events = []
    crew = DaskCrew(client, "arithmetic", look=Look(min(client.nthreads()), compiler))
    (evidence,) = crew.evidence(30)
    crew.lend([evidence.compiler], events.append)
    before(crew)
    work = FleetWork(device=device, requests=[request_in(folder)])
    terms = FleetTerms(cache_folder=None, listen=events.append)
    found = tune_with([work], crew, terms, compilers={device.name: evidence.compiler}, policy=POLICY)
    crew.withdraw()
    assert (found.left, found.trouble) == (0, "")
    return lockfile.dumps(Lock().updated(found.devices, found.rows, found.skipped, found.selections)), found, events


@pytest.fixture
def alone(cluster, tmp_path):
    """The lock that a worker tunes alone: once for all tests, since it takes many seconds."""
    if not ALONE:
        lock, found, _ = tuned(cluster(1), tmp_path)
        assert found.spending.elsewhere == {}
        ALONE.append(lock)
    return ALONE[0]


def test_the_lock_is_the_same_with_workers_that_compile(cluster, alone, tmp_path):
    client = cluster(3)
    helped, found, events = tuned(client, tmp_path)
    assert helped == alone
    assert found.spending.elsewhere.keys() <= set(client.nthreads()) - {min(client.nthreads())}
    assert 0 < found.spending.elsewhere.total() < found.spending.compiled
    assert any(note.startswith("compiled by workers without a device: tcp://") for note in found.notes)
    assert not [event for event in events if isinstance(event, AnswerRefused)]


def test_a_worker_that_compiles_may_be_killed(cluster, alone, tmp_path):
    client = cluster(2)
    pid = client.run(os.getpid)[max(client.nthreads())]
    timer = threading.Timer(2.0, os.kill, (pid, signal.SIGKILL))
    timer.start()
    found, _, _ = tuned(client, tmp_path)
    timer.join()
    assert found == alone


def test_a_worker_of_another_compiler_is_refused(cluster, tmp_path):
    _, found, events = tuned(cluster(2), tmp_path, compiler="arithmetic 0.9")
    assert found.spending.elsewhere == {}
    (event,) = [event for event in events if isinstance(event, AnswerRefused)]
    assert event.reason == f"it compiles with arithmetic 0.9, not {COMPILER}"


def test_a_worker_that_says_what_it_has_and_is_another_is_refused(cluster, tmp_path, monkeypatch):
    """Its own compiler is not the one that it names: the first binary shows that."""
    client = cluster(2)
    helper = max(client.nthreads())
    client.run(_pretend, workers=[helper])
    _, found, events = tuned(client, tmp_path)
    assert found.spending.elsewhere == {}
    (event,) = [event for event in events if isinstance(event, AnswerRefused)]
    assert (event.worker, event.reason) == (helper, f"its compiler is arithmetic 0.8, not {COMPILER}")
    assert f"refused: {helper}: its compiler is arithmetic 0.8, not {COMPILER}" in found.notes


def _pretend():
    os.environ["ARITHMETIC_RELEASE"] = "arithmetic 0.8"


def test_a_worker_that_never_answers_keeps_nobody_waiting(cluster, alone, tmp_path):
    client = cluster(2)
    busy = []

    def occupy(_crew):
        busy.append(client.submit(time.sleep, 600, workers=[max(client.nthreads())], pure=False))

    began = time.monotonic()
    found, _, _ = tuned(client, tmp_path, before=occupy)
    assert found == alone
    assert time.monotonic() - began < 60


def test_what_compiles_elsewhere_is_what_compiles_here():
    source = Source(
        text='#include <cuda_fp16.h>\nextern "C" __global__ void f(__half* x) { x[0] = __hadd(x[0], x[1]); }\n',
        options=(),
        functions=("f",),
    )
    (here,) = compile_all([source], "sm_90", workers=1, toolchain=NVRTC).values()
    elsewhere = compiling.compiled("cuda", (source, "sm_90"))
    assert isinstance(here, Binary)
    assert elsewhere == here
    assert compiling.compiled("cuda", (Source(text="int", options=(), functions=("f",)), "sm_90")) is None
    assert compile_source(source, "sm_90").image == here.image


def test_a_worker_without_a_device_says_with_what_it_compiles(installed, monkeypatch):
    monkeypatch.setattr(worker, "survey", refuse)
    assert worker.survey_all("arithmetic", "w") == CompilerEvidence(worker="w", compiler=COMPILER, version=__version__)
    monkeypatch.undo()


def test_a_worker_with_a_device_says_which(installed):
    assert isinstance(worker.survey_all("arithmetic", "w"), WorkerEvidence)


def refuse(*_):
    raise DeviceError("it has no GPU")
