"""What people read: the table, the steps of a tuning, and where its time went."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import H100, choice, row
from pretuned.outcome import TimedOut, WrongResult
from pretuned.record.rows import Skipped
from pretuned.report.effort import describe, stages
from pretuned.report.lines import of_rows
from pretuned.report.text import table
from pretuned.spec import space
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.events import (
    AtProblem,
    ByNumpy,
    CandidatesScreened,
    Compiling,
    Decided,
    Failed,
    Measuring,
    OnDevice,
    OutOfBudget,
    Passed,
    Racing,
    SourcesCompiled,
)
from pretuned.tune.spending import Spending
from specs import SEVERAL, loaded

FLOAT = (("T", "float32"),)
PROBLEM = Problem(specialisation=FLOAT, dims=(("n", 1024),))


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


@pytest.fixture
def won(spec):
    return row(spec, PROBLEM)


def test_the_table_by_device(spec, won, tmp_path):
    default = replace(won, problem=replace(PROBLEM, dims=(("n", 65536),)), choices=won.choices[1:])
    middle = choice(spec, PROBLEM, Configuration(implementation="main", values=(("block", 256), ("vec", 2))), 9.0)
    three = replace(won, choices=(won.choices[0], middle, won.choices[1]), device="NVIDIA L4", driver="580.65.06")
    (tmp_path / "several").mkdir()
    several = loaded(tmp_path / "several", toml=SEVERAL)
    other = replace(row(several, PROBLEM), kernel="several", device="NVIDIA L4")
    assert table(of_rows([three, won, default, other])) == (
        "NVIDIA H100 80GB HBM3: 2 rows, 1 faster than the default (driver 580.159.04, NVRTC 13.0.88, 2026-11-21)\n"
        "kernel  problem             default us  winner us  faster  configuration\n"
        "scale   n=1024, T=float32        10.00       8.00   1.25x  block=256, vec=4\n"
        "scale   n=65536, T=float32       10.00      10.00   1.00x  default\n"
        "\n"
        "NVIDIA L4: 2 rows, 2 faster than the default (driver 580.159.04, NVRTC 13.0.88, 2026-11-21; "
        "driver 580.65.06, NVRTC 13.0.88, 2026-11-21)\n"
        "kernel   problem            default us  winner us  faster  configuration\n"
        "scale    n=1024, T=float32       10.00       8.00   1.25x  block=256, vec=4  (+1)\n"
        "several  n=1024, T=float32       10.00       8.00   1.25x  vectors: vec=4\n"
    ).rstrip("\n")


def test_a_kernel_without_specialisations_has_its_dims_alone(won):
    plain = replace(won, problem=Problem(specialisation=(), dims=(("cols", 3), ("rows", 4))))
    assert "scale   cols=3, rows=4  " in table(of_rows([plain]))


def test_a_line_as_data(won):
    (line,) = of_rows([won])
    found = line.to_json()
    assert (found["problem"], found["specialisation"], found["speedup"]) == ("n=1024", "T=float32", 1.25)
    assert (found["ratio"], found["is_default"], found["date"]) == ((0.8, 0.9), False, "2026-11-21")
    assert (found["winner_spread_us"], found["default_spread_us"]) == (None, None)
    spread = replace(won, choices=(replace(won.winner, spread_us=(7.5, 8.0, 9.0)), won.default))
    (line,) = of_rows([spread])
    assert line.to_json()["winner_spread_us"] == (7.5, 8.0, 9.0)


def test_the_steps_of_a_tuning(spec, won):
    fast = won.winner.configuration
    default = replace(won, choices=won.choices[1:])
    skipped = Skipped(kernel="scale", device=H100.name, problem=PROBLEM, reason="takes 99.0 GB")
    wrong = WrongResult(argument="y", message="y: 3 of 8 elements are off")
    events = {
        Compiling(kernel="scale", sources=6): "scale: compiling 6 sources",
        Measuring(kernel="scale", problem=PROBLEM, candidates=6, done=1, rows=4): (
            "scale: n=1024, T=float32: 6 candidates (row 2 of 4)"
        ),
        Failed(kernel="scale", configuration=fast, problem=PROBLEM, failure=wrong): (
            "scale: n=1024, T=float32: block=256, vec=4: wrong result: y: 3 of 8 elements are off"
        ),
        Failed(kernel="scale", configuration=fast, problem=PROBLEM, failure=TimedOut(limit_s=10.0)): (
            "scale: n=1024, T=float32: block=256, vec=4: timed out: no answer within 10 s"
        ),
        Decided(row=won, cached=False): "scale: n=1024, T=float32: block=256, vec=4, 1.25x",
        Decided(row=default, cached=True): "scale: n=1024, T=float32: default (measured before)",
        Passed(entry=skipped): "scale: n=1024, T=float32: skipped: takes 99.0 GB",
        OutOfBudget(rows=3): "the budget is spent; 3 rows not reached",
        SourcesCompiled(done=2, asked=6, workers=4): "compiled 2 of 6 sources",
        CandidatesScreened(
            kernel="scale",
            problem=PROBLEM,
            problems=2,
            seen=3,
            wanted=6,
            best=fast,
            best_us=8.0,
            default_us=10.0,
        ): "scale: n=1024, T=float32: screened 3 of 6 configurations",
        AtProblem(kernel="scale", stage="certifying", problem=PROBLEM, done=4, problems=20): (
            "scale: n=1024, T=float32: certifying, problem 5 of 20"
        ),
        Racing(kernel="scale", problem=PROBLEM, contenders=((fast, 8.0),), default=fast): (
            "scale: n=1024, T=float32: 1 candidate racing"
        ),
        Racing(kernel="scale", problem=PROBLEM, contenders=((fast, 8.0),), default=fast, place=3): (
            "scale: n=1024, T=float32: 1 candidate left in the duel, at place 3"
        ),
        ByNumpy(kernel="scale", reason="out of memory at n=1024, T=float32"): (
            "scale: gpu-reference is not used, NumPy computes what is right: out of memory at n=1024, T=float32"
        ),
        OnDevice(device="cuda:1", event=OutOfBudget(rows=1)): "cuda:1: the budget is spent; 1 row not reached",
    }
    assert {event: describe(event) for event in events} == events


def test_seconds_by_stage_the_longest_first():
    spending = Spending(compiled=6, launched=20, device_s=0.75)
    spending.seconds |= {"screening": 1.25, "waiting for compilers": 2.5}
    spending.pruned["spills registers"] = 3
    for limit_s in (2.0, 3.0):
        failure, slow = TimedOut(limit_s=limit_s), Configuration(implementation="main", values=(("block", 256),))
        spending.count_failure(Failed(kernel="scale", configuration=slow, problem=PROBLEM, failure=failure))
    assert list(stages(spending)) == [
        "waiting for compilers     2.50 s",
        "screening                 1.25 s",
        "in all                    3.75 s (20% of them with candidates on the device)",
        "6 sources compiled, 20 measurements",
        "not launched: 3 (spills registers)",
        "failed: 2 (timed out)",
        "first: scale: n=1024, T=float32: block=256: timed out: no answer within 2 s",
    ]


def test_a_stage_inside_another_is_counted_once(monkeypatch):
    ticks = iter([0.0, 1.0, 4.0, 10.0])
    monkeypatch.setattr("pretuned.tune.spending.time.perf_counter", lambda: next(ticks))
    spending = Spending()
    with spending.stage("outer"), spending.stage("inner"):
        pass
    assert dict(spending.seconds) == {"inner": 3.0, "outer": 7.0}


def test_every_configuration_of_the_table_is_one_of_the_spec(spec, won):
    (line,) = of_rows([won])
    assert line.configuration in {str(one) for one in space.configurations(spec, PROBLEM)}


def test_a_noisy_row_is_marked(won):
    assert "[noisy]" in table(of_rows([replace(won, noise="another process ran on the GPU")]))
    assert "[noisy]" not in table(of_rows([won]))
