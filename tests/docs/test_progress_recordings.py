"""The recordings that the guide on progress shows are of displays as they are made now."""

from __future__ import annotations

import itertools
import re

import pytest

from documents import ROOT
from pretuned.report.progress import ProgressView
from pretuned.report.progress_lines import display_lines
from record_progress import COMMAND, PIP, RECORDINGS

LOG_LINE = re.compile(
    r"\d+ s of \d+ s(, about \d+ s left|, a few seconds left|, finishing)?: \d+ of \d+ rows; rms_norm: .*"
)


def frames(columns):
    """The displays of a recording, as lists of lines."""
    text = (RECORDINGS / f"progress_{columns}.txt").read_text()
    assert text.startswith(f"$ {COMMAND}\n")
    parts = re.split(r"^--- .*\n", text, flags=re.MULTILINE)[1:]
    return [part.splitlines()[-7:] for part in parts[:-1]]


@pytest.mark.parametrize("columns", [80, 40])
def test_each_recorded_display_has_the_lines_of_a_display(columns):
    _, *lines = display_lines([ProgressView()], columns)
    found = frames(columns)
    assert len(found) >= 3
    for _, *frame in found:
        assert [line[:10].rstrip() for line in frame] == [line.label.rstrip() for line in lines]
        assert max(map(len, frame)) <= columns
    steps = {frame[3].split(maxsplit=1)[1].partition(",")[0] for frame in found}
    assert len(steps) >= 2, "a recording of more than one stage shows more"


def test_the_recorded_log_has_a_line_about_all_every_few_seconds():
    command, plan, *lines = (RECORDINGS / "progress_log.txt").read_text().splitlines()
    assert command == f"$ {COMMAND} 2>&1 | cat"
    assert plan.startswith("12 rows of 1 kernel to tune: 35 configurations, at most 35 sources, about ")
    progress = [int(line.split()[0]) for line in lines if LOG_LINE.fullmatch(line)]
    assert len(progress) >= 3
    assert all(after - before >= 5 for before, after in itertools.pairwise(progress))
    assert any(re.fullmatch(r"rms_norm: cols=\d+, rows=\d+, T=float\d+: .*", line) for line in lines)


def test_the_recorded_build_says_how_far_its_tuning_is():
    text = (RECORDINGS / "progress_pip.txt").read_text()
    assert text.startswith(f"$ PRETUNED_TUNE_ON=host {PIP}\n")
    lines = [line.strip() for line in text.splitlines()]
    assert sum(bool(LOG_LINE.fullmatch(line)) for line in lines) >= 2
    assert sum(bool(re.fullmatch(r"rms_norm: cols=\d+, rows=\d+, T=float\d+: .*", line)) for line in lines) == 12
    assert any(line.startswith("host: tuned 12 rows and 2 selections") for line in lines)


def test_the_page_shows_all_recordings():
    page = (ROOT / "docs" / "guide" / "progress.md").read_text()
    assert {file.name for file in RECORDINGS.iterdir()} == set(re.findall(r"recordings/(\w+\.txt)", page))
