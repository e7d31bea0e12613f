"""Bad candidates beside a good one: the tuning ends, the good one wins, and each bad one has its right outcome."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from killing import within
from leftovers import marked
from pretuned.config import GPU
from pretuned.outcome import CompileError, Crashed, TimedOut, WrongResult
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.tune.events import Failed
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune

pytestmark = pytest.mark.gpu
FOLDER = Path(__file__).parent / "planted"

EXPECTED = {
    1: TimedOut,  # endless loop
    2: Crashed,  # illegal address
    3: WrongResult,
    4: WrongResult,  # one element past the end
    6: CompileError,
    7: WrongResult,  # NaN
}
SOMETIMES = 8  # a race that shows in one call of 16: whoever gets far enough to win is found out


def test_every_planted_bug_has_its_outcome_and_the_good_one_wins(tmp_path, capsys):
    spec = load(FOLDER / "planted.toml")
    target = find_device(GPU, {})
    failures = {}

    def listen(event):
        if isinstance(event, Failed):
            failures.setdefault(dict(event.configuration.values)["bug"], event.failure)

    started = time.monotonic()
    request = TuningRequest(spec=spec, problems=tuple(all_problems(spec)))
    with marked() as living:
        tuned = tune([request], target, cache_folder=tmp_path, listen=listen)
        assert within(5, lambda: not living())
    with capsys.disabled():
        print(f"\nplanted bugs: {time.monotonic() - started:.1f} s")
        for bug, failure in sorted(failures.items()):
            print(f"  {bug}: {failure}")
    (row,) = tuned.rows
    assert dict(row.winner.configuration.values) == {"bug": 0, "block": 256}
    assert dict(row.default.configuration.values) == {"bug": 0, "block": 64}
    assert isinstance(failures.pop(SOMETIMES, None), WrongResult | None)
    assert {bug: type(failure) for bug, failure in failures.items()} == EXPECTED
    assert tuned.spending.pruned["does not fit the device"] == 1  # bug 5: too much shared memory, never launched
    assert failures[4].message == "out: written 1 element past its end"

    again = tune([request], target, cache_folder=tmp_path)
    assert (again.rows, again.spending.compiled, again.spending.launched) == (tuned.rows, 0, 0)


def test_the_gpu_works_afterwards():
    code = "import cupy; x = cupy.arange(1000); assert int(x.sum()) == 499500"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
