"""Several builds at once on one GPU, made of arithmetic: they measure in turn, and nothing twice."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specs import SCALE, edited, write

SUPPORT = Path(__file__).parents[1] / "support"
TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\ncubins = false\n'
WAITING = "another tuning is using NVIDIA H100 80GB HBM3; waiting up to 300 s for it to end"


@pytest.fixture
def project(tmp_path):
    """Return a project of a name with the kernel `scale`, measured at these sizes."""

    def make(name, sizes):
        folder = tmp_path / name
        (folder / "kernels").mkdir(parents=True)
        (folder / "pyproject.toml").write_text(TABLE)
        write(folder / "kernels", edited(SCALE, ("[1024, 65536]", sizes)))
        return folder

    return make


@pytest.fixture
def build(tmp_path):
    """Start a build of a project on the GPU that CUDA shows it at `index`, and return how to wait for its report."""

    def start(folder, name, *, index=0):
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]),
            "PRETUNED_CACHE_DIR": str(tmp_path / "cache"),
            "PRETUNED_TUNE_ON": f"cuda:{index}",
            "TMPDIR": str(tmp_path),
            "TUNER_LOG": str(tmp_path / "log"),
            "TUNER_RUN": name,
        }
        command = [sys.executable, str(SUPPORT / "shared_build.py"), str(folder), str(index)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

        def report():
            out, _ = process.communicate(timeout=240)
            assert process.returncode == 0
            return json.loads(out)

        return report

    return start


def measured(folder):
    """Who measured what, in order."""
    return [tuple(line.split("\t")[:3]) for line in (folder / "log").read_text().splitlines()]


def test_two_builds_of_one_project_measure_each_candidate_once_in_all(project, build, tmp_path):
    folder = project("one", "[1024, 4096, 65536]")
    first, second = build(folder, "first"), build(folder, "second", index=1)  # two numbers of the same GPU
    reports = first(), second()
    third = build(folder, "third")()
    candidates = [entry[1:] for entry in measured(tmp_path)]
    assert len(candidates) == len(set(candidates)) == 6 * 3 * 2
    assert len({run for run, *_ in measured(tmp_path)}) == 1
    assert reports[0]["rows"] == reports[1]["rows"] == third["rows"]
    assert len(third["rows"]) == 6
    assert sorted(report["launched"] > 0 for report in reports) == [False, True]
    assert (third["compiled"], third["launched"]) == (0, 0)
    assert WAITING not in third["said"]


def test_builds_of_two_projects_measure_in_turn(project, build, tmp_path):
    ours, theirs = project("ours", "[1024, 4096, 65536]"), project("theirs", "[2048, 8192, 131072]")
    reports = [report() for report in [build(ours, "ours"), build(theirs, "theirs")]]
    turns = [run for run, _ in itertools.groupby(run for run, *_ in measured(tmp_path))]
    assert sorted(turns) == ["ours", "theirs"]
    assert [len(report["rows"]) for report in reports] == [6, 6]
    assert all(report["launched"] > 0 for report in reports)
