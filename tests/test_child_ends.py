"""A child that ends in odd ways is told apart, and nothing of it stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pretuned
from leftovers import marked
from pretuned.child import Child, Died

STUCK_PARENT = """
import time
from pretuned.child import Child
child = Child("odd_children:stuck")
print(child.ask("pid", timeout_s=30), flush=True)
child.send("hang")
time.sleep(600)
"""
MAIN_WITHOUT_GUARD = """
import pathlib, sys
with open("started", "a") as file:
    file.write("x")
sys.path.insert(0, "lib")  # which only this process knows
from pretuned.child import Child
child = Child("only_here:serve")
print(child.ask(20, timeout_s=30))
child.kill()
"""


def environment():
    path = os.pathsep.join([str(Path(pretuned.__file__).parents[1]), str(Path(__file__).parent / "support")])
    return {**os.environ, "PYTHONPATH": path}


def state(pid):
    """The process's state letter, or None where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def eventually(condition, within_s=10.0):
    end = time.monotonic() + within_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.fixture
def echo():
    child = Child("children:echo")
    assert child.ask(1, timeout_s=30) == 1
    yield child
    child.kill()


def test_an_oserror_of_the_target_is_no_silent_end():
    answer = Child("odd_children:failing").ask(1, timeout_s=30)
    assert answer == Died(reason="exit status 1: FileNotFoundError: libcuda.so.1 is not here")


def test_a_child_killed_from_outside_while_idle_is_told(echo):
    os.kill(echo.pid, signal.SIGKILL)
    os.waitid(os.P_PID, echo.pid, os.WEXITED | os.WNOWAIT)
    assert echo.send(1) == Died(reason="ended by SIGKILL")
    assert echo.receive() == Died(reason="ended by SIGKILL")
    assert state(echo.pid) is None  # reaped


def test_killing_leaves_no_zombie_and_no_descriptor():
    before = len(list(Path("/proc/self/fd").iterdir()))
    child = Child("children:echo")
    child.send(("sleep", 600))
    child.kill()
    child.kill()
    assert state(child.pid) is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_a_test_has_started_is_seen_until_it_ends():
    earlier = Child("children:echo")
    with marked() as living:
        child = Child("children:echo")
        assert living() == [child.pid]
        child.kill()
        assert living() == []
    earlier.kill()


def test_an_interrupt_from_the_terminal_is_the_parents_to_handle(echo):
    os.kill(echo.pid, signal.SIGINT)
    assert echo.ask(2, timeout_s=30) == 2


def test_a_child_that_hangs_with_the_gil_held_dies_with_its_parent():
    command = [sys.executable, "-c", STUCK_PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as parent:
        pid = int(parent.stdout.readline())
        time.sleep(0.5)  # into the call that holds the GIL
        assert state(pid) is not None
        parent.kill()
    assert eventually(lambda: state(pid) in {None, "Z"})


def test_a_main_without_a_guard_starts_a_target_that_only_its_own_path_reaches(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/only_here.py").write_text("def serve():\n    return lambda number: number + 1\n", encoding="utf-8")
    (tmp_path / "main.py").write_text(MAIN_WITHOUT_GUARD, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("21\n", "")
    assert (tmp_path / "started").read_text(encoding="utf-8") == "x"  # the main ran once


def test_files_of_the_current_folder_do_not_stand_for_the_standard_library(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    child = Child("children:echo")
    assert child.ask(json.dumps(1), timeout_s=30) == "1"
    child.kill()
