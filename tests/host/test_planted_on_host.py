"""Twelve mistakes in a template: each is found on the host device, by what it should be, with a message that helps."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from pretuned.compile.host import compiler
from pretuned.spec.loader import load
from pretuned.tune.execute import execute
from pretuned.tune.modes import MEMORY, PLAIN, SANITIZERS

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")

# By bug: its name, and who finds it with what words.
EXPECTED = {
    1: ("write past the end by one", "memory", "write of 4 bytes, 0 bytes past the end of 'out'"),
    2: ("read before the start", "memory", "read of 4 bytes, 4 bytes before 'x'"),
    3: ("uninitialised shared memory", "races", "uninitialised: thread (58, 0, 0) reads byte 20 of tile"),
    4: ("missing barrier", "races", "race: thread (32, 0, 0) writes byte 128 of tile, which thread (31, 0, 0) read"),
    5: ("divergent barrier", "memory", "divergent barrier: thread (0, 0, 0) waits in __syncthreads()"),
    6: ("wrong tail", "host", "out: 1 of 100,003 elements are off, first at [100002]: nan"),
    7: ("wrong vector alignment", "memory", "misaligned address"),
    8: ("off-by-one grid", "host", "out: 35 of 100,003 elements are off, first at [99968]: nan"),
    9: ("int32 overflow of an index", "far", "signed integer overflow: 33554432 * 64"),
    10: ("wrong shuffle mask", "host", "__shfl_sync(0x0000ffff)"),
    11: ("maximum of what was there", "host", "; right where outputs and scratch held NaN before the call"),
    12: ("minimum of what was there", "host", "; right where outputs and scratch held NaN before the call"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The messages by bug and way: of each way, those that it is to find, and of the right configuration."""
    messages = defaultdict(list)
    for mode in (PLAIN, *SANITIZERS):
        bugs = [0, *(bug for bug, (_, way, _) in EXPECTED.items() if way == mode.name)]
        folder = tmp_path_factory.mktemp(mode.name)
        shutil.copytree(Path(__file__).parent / "planted", folder, dirs_exist_ok=True)
        text = (folder / "planted.toml").read_text()
        (folder / "planted.toml").write_text(re.sub(r"^bug = \[.*\]", f"bug = {bugs}", text, flags=re.MULTILINE))
        spec = load(folder / "planted.toml")
        assert len(bugs) > 1
        # Each write out of bounds ends a process that is slow to start: one problem shows them all.
        chosen = {spec.name: [{"n": 100_003}]} if mode is MEMORY else None
        (report,) = execute({spec.name: spec}, (mode,), cache_folder=folder / "cache", chosen=chosen)
        assert report.configurations == len(bugs)
        for finding in report.findings:
            bug = dict(finding.configuration.values)["bug"]
            messages[bug, finding.mode].append(finding.detail)
    return messages


@pytest.mark.parametrize("bug", EXPECTED)
def test_a_planted_mistake_is_found(found, bug):
    _, way, words = EXPECTED[bug]
    assert any(words in message for message in found[bug, way]), found[bug, way]


def test_the_right_configuration_is_found_right(found):
    assert set(found) == {(bug, way) for bug, (_, way, _) in EXPECTED.items()}


@pytest.mark.parametrize("sample", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_a_sound_kernel_with_atomics_in_shared_memory_is_left_alone(tmp_path, sample):
    spec = load(Path(__file__).parent / "sound" / "histogram.toml")
    reports = list(execute({spec.name: spec}, (PLAIN, *SANITIZERS), cache_folder=tmp_path, sample=sample))
    assert [(report.mode, report.findings) for report in reports] == [(w.name, []) for w in (PLAIN, *SANITIZERS)]
    assert all(report.executions for report in reports[:3])


def test_sanitizers_name_the_line_the_block_and_the_thread(found):
    where = "planted.cu.jinja:34 (block (1562, 0, 0), thread (35, 0, 0))"
    assert any(message.endswith(where) for message in found[1, "memory"]), found[1, "memory"]
