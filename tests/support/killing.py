"""kill -9 of a tuning at random moments, for tests: what must be dead, whole and not repeated afterwards."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pretuned.record.cache import FILE

SUPPORT = Path(__file__).parent
EARLY = 5  # every so manyth is killed while it starts, the others after they have begun to measure
LOST_S = 1.0  # how old a measurement may be that a kill costs
WITHIN_S = 0.6  # after its first measurement a tuning is killed
STARTS_S = 60.0


def start(spec, folder, run, device):
    """Start a tuning of `spec` on `device`, "fake" or "gpu", with its cache and its log in `folder`."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]),
        "TUNER_LOG": str(folder / "log"),
        "TUNER_RUN": str(run),
        "PRETUNED_CACHE_DIR": str(folder),
    }
    command = [sys.executable, str(SUPPORT / "killed_tuner.py"), str(spec), str(folder / "cache"), device]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def children_of(pid):
    tasks = Path(f"/proc/{pid}/task")
    try:
        return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    except OSError:
        return []


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def within(seconds, condition):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def whole(cache):
    if not cache.is_file():
        return True
    connection = sqlite3.connect(cache)
    try:
        return connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        connection.close()


def kill_and_resume(spec, folder, device, kills, *, after: Callable[[], None] = lambda: None):
    """Kill `kills` tunings of `spec` and let one more end; return what it printed.

    Each time the children must be dead within 5 s and the cache whole, and `after()` is called; nothing that was
    measured a second before a kill may be measured again.
    """
    draw, log = random.Random(5), folder / "log"
    killed: dict[str, float] = {}
    for run in range(kills):
        tuning = start(spec, folder, run, device)
        ended = partial(lambda tuning: tuning.poll() is not None, tuning)
        if run % EARLY:
            size = log.stat().st_size if log.exists() else 0
            within(STARTS_S, lambda size=size, ended=ended: ended() or (log.exists() and log.stat().st_size > size))
        within(draw.uniform(0, WITHIN_S), ended)
        children = children_of(tuning.pid)
        tuning.kill()
        killed[str(run)] = time.time()
        tuning.communicate()
        assert within(5, lambda children=children: not any(map(alive, children)))
        assert whole(folder / "cache" / FILE)
        after()
    last = start(spec, folder, "last", device)
    out, _ = last.communicate(timeout=240)
    assert last.returncode == 0

    measured: dict[tuple[str, str], tuple[str, float]] = {}
    for line in log.read_text().splitlines():
        run, configuration, problem, moment = line.split("\t")
        if (configuration, problem) in measured:
            before, taken = measured[configuration, problem]
            assert killed[before] - taken < LOST_S, f"{problem} was measured in runs {before} and {run}"
        measured[configuration, problem] = (run, float(moment))
    assert len({run for run, _ in measured.values()}) > kills // 5  # they were killed while they measured
    return out
