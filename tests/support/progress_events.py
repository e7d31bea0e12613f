"""What a tuning of two kernels sends, with the seconds at which it does: for clocks and displays that replay it."""

from __future__ import annotations

from pretuned.outcome import TimedOut
from pretuned.record.rows import Skipped
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.events import (
    AtProblem,
    CandidatesScreened,
    Failed,
    Measuring,
    Passed,
    Planned,
    Racing,
    SourcesCompiled,
)

DEVICE = "NVIDIA H100 80GB HBM3"
KERNEL = "fused_add_rms_norm_backward_with_weights"
FLOAT = (("T", "float32"),)
SMALL, LARGE = (Problem(specialisation=FLOAT, dims=(("cols", cols), ("rows", 4096))) for cols in (1024, 8192))


def configuration(block, vec):
    return Configuration(implementation="main", values=(("block", block), ("vec", vec)))


DEFAULT, WIDE, LARGER, SLOW = (configuration(*pair) for pair in ((256, 1), (256, 4), (512, 4), (32, 1)))
TIMED_OUT = Failed(kernel=KERNEL, configuration=SLOW, problem=SMALL, failure=TimedOut(limit_s=2.0))


def planned(**given):
    usual = {"kernels": 2, "rows": 4, "configurations": 12, "sources": 12, "seconds": 40.0, "budget_s": 60.0}
    return Planned(device=DEVICE, **usual | given)


def measuring(kernel, problem, *, done=0, seconds=20.0):
    return Measuring(kernel=kernel, problem=problem, candidates=6, done=done, rows=4, seconds=seconds)


def screened(seen, problem=SMALL, *, default_us=16.4, best_us=12.42):
    return CandidatesScreened(
        kernel=KERNEL,
        problem=problem,
        problems=2,
        seen=seen,
        wanted=6,
        best=WIDE,
        best_us=best_us,
        default_us=default_us,
    )


def racing(*contenders, place=0, problem=SMALL):
    return Racing(kernel=KERNEL, problem=problem, contenders=contenders, default=DEFAULT, place=place)


def at(stage, done, problems, problem=SMALL):
    return AtProblem(kernel=KERNEL, stage=stage, problem=problem, done=done, problems=problems)


def passed(problem):
    return Passed(entry=Skipped(kernel=KERNEL, device=DEVICE, problem=problem, reason="takes 99 GB"))


RACED = ((DEFAULT, 16.4), (WIDE, 12.42), (LARGER, 12.5))
STREAM = [
    (0.5, planned(spent_s=0.5)),
    (0.6, measuring(KERNEL, SMALL)),
    (0.7, SourcesCompiled(done=0, asked=12, workers=2)),
    (2.0, SourcesCompiled(done=3, asked=12, workers=2)),
    (2.1, screened(3)),
    (2.2, TIMED_OUT),
    (4.0, SourcesCompiled(done=12, asked=12, workers=2)),
    (4.1, screened(6)),
    (6.0, screened(6, LARGE)),
    (8.0, at("surveying", 0, 4)),
    (10.0, at("deciding", 0, 2)),
    (10.2, racing(*RACED)),
    (11.0, racing(*RACED, place=1)),
    (12.0, racing(*RACED[:2], place=3)),
    (14.0, passed(LARGE)),
    (16.0, at("certifying", 4, 20)),
]
