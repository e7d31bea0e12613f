"""Children answer, are found out when they do not, and never outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pretuned
from pretuned.child import Child, Died, Expired

PARENT = """
import sys, time
from pretuned.child import Child
child = Child("children:echo")
assert child.ask(1, timeout_s=30) == 1
child.send(("sleep", 600))
print(child.pid, flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]
    except FileNotFoundError:
        return False


def gone(pid: int, within_s: float = 10.0) -> bool:
    end = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(pid)


def test_a_child_answers_in_turn():
    child = Child("children:echo")
    assert [child.ask(number, timeout_s=30) for number in range(3)] == [0, 1, 2]
    child.kill()
    assert gone(child.pid)


def test_an_exit_is_told_with_the_last_line_printed():
    assert Child("children:echo").ask(("exit", 3), timeout_s=30) == Died(reason="exit status 3: the last line")


def test_a_signal_is_told_by_name():
    assert Child("children:echo").ask(("signal", signal.SIGSEGV), timeout_s=30) == Died(reason="ended by SIGSEGV")


def test_a_child_that_hangs_is_ended_at_the_limit():
    child = Child("children:echo")
    assert child.ask(1, timeout_s=30) == 1
    assert child.ask(("sleep", 600), timeout_s=0.2) == Expired(after_s=0.2)
    assert gone(child.pid)


def test_a_target_that_cannot_be_imported_is_told():
    answer = Child("no_such_module:serve").ask(1, timeout_s=30)
    assert answer == Died(reason="exit status 1: ModuleNotFoundError: No module named 'no_such_module'")


def test_a_busy_child_dies_with_its_parent_even_when_that_is_killed():
    path = os.pathsep.join([str(Path(pretuned.__file__).parents[1]), str(Path(__file__).parent / "support")])
    command = [sys.executable, "-c", PARENT]  # a main module without a guard
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(pid)
