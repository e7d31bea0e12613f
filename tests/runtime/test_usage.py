"""PRETUNED_USAGE: what programs called, counted on every path and written when they end; off, it is not there."""

import importlib
import json
import linecache
import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"
H100 = "NVIDIA H100 80GB HBM3"
START = """\
import ctypes, os, sys, threading
from fake_cuda import FakeCuda
from fake_cupy import FakeCupy
cuda = FakeCuda()
del cuda.devices[int(os.environ.get("GPUS", "1")):]
ctypes.CDLL = lambda _name: cuda
cupy = FakeCupy(cuda)
sys.modules.update({"cupy": cupy, "cupy.cuda": cupy.cuda})
import pkg.tuned as tuned
def affine(cols=1024, **options):
    return tuned.affine(cupy.ndarray((16, cols), "float32"), 1.0, relu=False, **options)
def accumulate(n):
    return tuned.accumulate(cupy.ndarray((2,), "float32"), cupy.ndarray((n, 2), "float32"))
"""


@pytest.fixture
def start(baked, tmp_path):
    """Start a program that uses the package over the fakes; `usage.jsonl` in the test's folder is its usage file."""

    def start(program, usage=tmp_path / "usage.jsonl", **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PRETUNED_")}
        environment |= {"PYTHONPATH": os.pathsep.join([str(SUPPORT), str(baked)]), "PRETUNED_USAGE": str(usage)}
        return subprocess.Popen(
            [sys.executable, "-c", START + program],
            env=environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def end(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out, err


def counted(folder):
    """Return the calls in the usage file, by kernel and sizes."""
    found = {}
    for line in (folder / "usage.jsonl").read_text().splitlines():
        data = json.loads(line)
        key = data["kernel"], *data["dims"].values()
        found[key] = found.get(key, 0) + data["calls"]
    return found


@pytest.mark.parametrize("gpus", ["1", "2"])
@pytest.mark.parametrize("private", ["", "del cupy.cuda.driver.launchKernel\n"])
def test_every_path_of_a_call_is_counted(start, tmp_path, gpus, private):
    program = """
for number in range(7):
    affine()
affine(cols=64)
for number in range(5):
    accumulate(300), accumulate(65536)
bound = tuned.affine.bind(cupy.ndarray((16, 96), "float32"), 1.0, relu=False)
for number in range(4):
    bound()
    threading.Thread(target=bound).start()
with tuned.using(defaults=True):
    for number in range(3):
        affine()
"""
    end(start(private + program, GPUS=gpus))
    assert counted(tmp_path) == {
        ("affine", 1024, 16): 10,
        ("affine", 64, 16): 1,
        ("affine", 96, 16): 8,
        ("accumulate", 2, 300): 5,
        ("accumulate", 2, 65536): 5,
    }


def test_a_line_says_what_was_called(start, tmp_path):
    end(start("affine(); affine(); accumulate(0)"))
    lines = [json.loads(line) for line in (tmp_path / "usage.jsonl").read_text().splitlines()]
    common = {"format": 1, "package": "pkg.tuned", "device": H100}
    assert lines == [
        common | {"kernel": "accumulate", "specialisation": {}, "dims": {"lanes": 2, "n": 0}, "calls": 1},
        common
        | {
            "kernel": "affine",
            "specialisation": {"T": "float32", "relu": False},
            "dims": {"cols": 1024, "rows": 16},
            "calls": 2,
        },
    ]


def test_threads_lose_no_call(start, tmp_path):
    program = """
def work(cols):
    for number in range(200):
        affine(), affine(cols), accumulate(300)
threads = [threading.Thread(target=work, args=(64 * (1 + index % 4),)) for index in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    end(start(program))
    sizes = {("affine", 64 * (1 + index), 16): 400 for index in range(4)}
    assert counted(tmp_path) == {("affine", 1024, 16): 1600, ("accumulate", 2, 300): 1600, **sizes}


def test_processes_may_share_a_file(start, tmp_path):
    program = """
for cols in range(1, 200):
    affine(cols)
"""
    for process in [start(program) for _ in range(4)]:
        end(process)
    assert counted(tmp_path) == {("affine", cols, 16): 4 for cols in range(1, 200)}


def test_what_failed_is_not_counted(start, tmp_path):
    program = """
def refused(call):
    try:
        call()
    except tuned.PretunedError:
        return
    raise AssertionError
bound = tuned.affine.bind(cupy.ndarray((16, 1024), "float32"), 1.0, relu=False)
for before in range(4):
    affine()
    cuda.status = 700
    refused(affine), refused(bound), refused(lambda: affine(cols=0))
    cuda.status = 0
"""
    end(start(program))
    assert counted(tmp_path) == {("affine", 1024, 16): 4}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_does_not_count_its_parents_calls_again(start, tmp_path):
    program = """
affine()
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    end(start(program))
    assert counted(tmp_path) == {("affine", 1024, 16): 1}


def test_a_program_without_calls_writes_nothing(start, tmp_path):
    end(start(""))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_told_and_ends_no_program_in_an_error(start, tmp_path):
    _, err = end(start("affine()", usage=tmp_path / "nowhere" / "usage.jsonl"))
    assert err.startswith("pkg.tuned: PRETUNED_USAGE: [Errno 2] No such file or directory: ")
    assert len(err.splitlines()) == 1


def test_a_program_that_ends_in_an_error_writes_too(start, tmp_path):
    process = start("affine()\nraise SystemExit(3)")
    assert process.wait(timeout=60) == 3
    process.communicate()
    assert counted(tmp_path) == {("affine", 1024, 16): 1}


def test_without_it_nothing_counts(tuned, cupy):
    for _ in range(4):
        tuned.affine(cupy.ndarray((16, 1024), "float32"), 1.0, relu=False)
    assert "counter" not in "".join(linecache.getlines("<pkg.tuned.affine, cupy>"))
    assert "pkg.tuned._runtime.usage" not in sys.modules


def test_it_is_read_once(tuned, cupy, cuda, monkeypatch, tmp_path):
    """As all of the environment: a fast path that was written without a counter goes on without it."""
    for _ in range(3):
        tuned.affine(cupy.ndarray((16, 1024), "float32"), 1.0, relu=False)
    monkeypatch.setenv("PRETUNED_USAGE", str(tmp_path / "usage.jsonl"))
    for cols in (64, 1024):
        for _ in range(4):
            tuned.affine(cupy.ndarray((16, cols), "float32"), 1.0, relu=False)
    assert len(cuda.launches) == 3 + 8
    assert "pkg.tuned._runtime.usage" not in sys.modules


@pytest.mark.usefixtures("fast_path")
def test_counting_stands_in_the_fast_path(load, baked, cupy, monkeypatch, tmp_path):
    monkeypatch.setenv("PRETUNED_USAGE", str(tmp_path / "usage.jsonl"))
    monkeypatch.setattr("atexit.register", lambda *_: None)
    tuned = load(baked)
    for _ in range(3):
        tuned.affine(cupy.ndarray((16, 1024), "float32"), 1.0, relu=False)
    assert "next(counter)\n" in "".join(linecache.getlines("<pkg.tuned.affine, cupy>"))
    usage = importlib.import_module("pkg.tuned._runtime.usage")
    usage._write(str(tmp_path / "usage.jsonl"), os.getpid())
    assert counted(tmp_path) == {("affine", 1024, 16): 3}
