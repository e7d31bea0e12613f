"""kill -9 of a tuning at random moments: its children die with it, the cache stays whole, nothing is measured twice."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from pretuned.record.cache import FILE
from specs import SCALE, edited, write

TESTS = Path(__file__).parents[1]
KILLS = 50
EARLY = 5  # every so manyth is killed while it starts, the others after they have begun to measure
LOST_S = 1.0  # how old a measurement may be that a kill costs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def start(spec, folder, run):
    environment = os.environ | {
        "PYTHONPATH": str(TESTS),
        "TUNER_LOG": str(folder / "log"),
        "TUNER_RUN": str(run),
        "PRETUNED_CACHE_DIR": str(folder),
    }
    command = [sys.executable, str(TESTS / "killed_tuner.py"), str(spec), str(folder / "cache")]
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


def test_a_killed_tuning_loses_at_most_a_second(tmp_path):
    wide = edited(
        SCALE, ("[1024, 65536]", "[1024, 2048, 65536, 99999999]"), ("[128, 256]", f"{list(range(32, 1025, 32))}")
    )
    spec = write(tmp_path, wide)
    draw, log = random.Random(5), tmp_path / "log"
    killed: dict[str, float] = {}
    for run in range(KILLS):
        tuning = start(spec, tmp_path, run)
        ended = partial(lambda tuning: tuning.poll() is not None, tuning)
        if run % EARLY:
            size = log.stat().st_size if log.exists() else 0
            within(30, lambda size=size, ended=ended: ended() or (log.exists() and log.stat().st_size > size))
        within(draw.uniform(0, 0.6), ended)
        children = children_of(tuning.pid)
        tuning.kill()
        killed[str(run)] = time.time()
        tuning.communicate()
        assert within(5, lambda children=children: not any(map(alive, children)))
        assert whole(tmp_path / "cache" / FILE)
    last = start(spec, tmp_path, "last")
    out, _ = last.communicate(timeout=120)
    assert (last.returncode, out.split()[0]) == (0, "8")

    measured: dict[tuple[str, str], tuple[str, float]] = {}
    for line in log.read_text().splitlines():
        run, configuration, problem, moment = line.split("\t")
        if (configuration, problem) in measured:
            before, taken = measured[configuration, problem]
            assert killed[before] - taken < LOST_S, f"{problem} was measured in runs {before} and {run}"
        measured[configuration, problem] = (run, float(moment))
    assert len({run for run, _ in measured.values()}) > KILLS // 5  # they were killed while they measured
