"""What a tuning shows on a terminal, as the terminal shows it, and what stands in its place elsewhere."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys

import pytest
from rich.console import Console

from documents import ROOT
from pretuned.cli import display
from pretuned.report.progress_log import IN_BUILDS, SETTLING
from pretuned.tune.events import OutOfBudget
from progress_events import STREAM, TIMED_OUT
from screens import TerminalScreen, run_on_terminal

LABELS = ["rows", "kernel", "step", "compiled", "screened", "best"]
REPLAY = """
import sys, time
from progress_events import STREAM
from pretuned.cli.display import shown

with shown("auto") as listen:
    for _, event in STREAM:
        listen(event)
        time.sleep(0.06)
    time.sleep(float(sys.argv[1]))
print("over")
"""


def environment(**given):
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
    support = os.pathsep.join(str(ROOT / "tests" / part) for part in ("support",))
    return {**kept, "TERM": "xterm-256color", "PYTHONPATH": support, "LANG": "C.UTF-8", **given}


def labels(lines):
    """The first words of the display's lines, which stand at the screen's end."""
    return [line.split(" ", 1)[0] for line in lines[-len(LABELS) :]]


def replay(screen, folder, *, rest_s=0.6, look=lambda _seconds: None, **given):
    command = [sys.executable, "-c", REPLAY, str(rest_s)]
    return run_on_terminal(command, screen, environment=environment(**given), folder=folder, look=look)


@pytest.mark.parametrize("columns", [80, 40])
def test_a_terminal_shows_one_display_in_place_and_removes_it_at_the_end(columns, tmp_path):
    screen, seen = TerminalScreen(columns), []
    assert replay(screen, tmp_path, look=lambda _: seen.append(screen.lines())) == 0
    displays = [lines for lines in seen if labels(lines) == LABELS]
    assert len(displays) >= 3
    last = displays[-1]
    assert last[-4] == "step      certifying, problem 5 of 20"
    assert "12 of 12 sources" in last[-3]
    assert sum(line.startswith("compiled") for line in last) == 1
    after = " ".join(screen.lines())
    assert "timed out: no answer within 2 s" in re.sub(r"\s+", " ", after)
    assert after.endswith("over")
    assert "screened" not in after


def test_a_build_on_a_terminal_prints_nothing_that_it_reports_itself(capsys, monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(display, "_terminal", lambda: Console(file=file, width=80, color_system=None))
    for kinds, shown in ((IN_BUILDS, False), (SETTLING, True)):
        with display.shown("auto", kinds=kinds) as listen:
            listen(OutOfBudget(rows=3))
        assert ("3 rows not reached" in file.getvalue()) == shown


def test_no_color_takes_the_colour_and_leaves_the_display(tmp_path):
    coloured, plain = TerminalScreen(80), TerminalScreen(80)
    replay(coloured, tmp_path, rest_s=0.1)
    replay(plain, tmp_path, rest_s=0.1, NO_COLOR="1")
    assert b"\x1b[32m" in coloured.written
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", plain.written)
    assert b"compiled" in plain.written


def test_a_terminal_whose_cursor_cannot_be_moved_gets_lines(tmp_path):
    screen = TerminalScreen(200)
    assert replay(screen, tmp_path, rest_s=0.0, TERM="dumb") == 0
    assert screen.lines()[0].startswith("4 rows of 2 kernels to tune")
    assert b"\x1b" not in screen.written


def test_a_terminal_that_becomes_narrower_has_the_display_in_its_new_width(tmp_path):
    screen, narrow = TerminalScreen(80), []

    def look(_seconds):
        if screen.screen.columns == 80:
            return 48 if labels(screen.lines()) == LABELS else None
        narrow.append(screen.lines())
        return None

    assert replay(screen, tmp_path, look=look) == 0
    last = [lines for lines in narrow if labels(lines) == LABELS][-1]
    assert last[-4] == "step      certifying, problem 5 of 20"
    assert last[-3] == "compiled  ████████  12 of 12 sources"  # of 80 columns the bar would have 13


def test_where_stderr_is_no_terminal_there_are_lines(capsys):
    with display.shown("auto") as listen:
        for _, event in STREAM[:6]:
            listen(event)
    assert capsys.readouterr() == (
        "",
        "4 rows of 2 kernels to tune: 12 configurations, at most 12 sources, about 40 s of a budget of 60 s\n",
    )


def test_verbose_prints_a_line_for_each_step_whatever_the_environment_says(capsys):
    with display.shown("off", verbose=True) as listen:
        listen(TIMED_OUT)
        listen(STREAM[2][1])
    assert capsys.readouterr().err.splitlines()[1] == "compiled 0 of 12 sources"


def test_off_shows_nothing(capsys):
    with display.shown("off") as listen:
        for _, event in STREAM:
            listen(event)
    assert capsys.readouterr() == ("", "")


def tuned_on_terminal(folder, example, columns, *options):
    """The displays that were seen while an example was tuned on the host device, and the screen at the end."""
    shutil.copytree(ROOT / example, folder / "project", ignore=shutil.ignore_patterns("tuned", "dist"))
    screen, seen = TerminalScreen(columns, 60), []
    status = run_on_terminal(
        [sys.executable, "-m", "pretuned", "tune", "--on", "host", *options],
        screen,
        environment=environment(PRETUNED_CACHE_DIR=str(folder / "cache")),
        folder=folder / "project",
        look=lambda _: seen.append(screen.lines()),
        limit_s=400.0,
    )
    assert status == 0, "\n".join(screen.lines())
    return [lines for lines in seen if labels(lines) == LABELS], screen.lines()


def test_a_real_tuning_on_a_terminal(tmp_path):
    displays, end = tuned_on_terminal(tmp_path, "tests/projects/minimal", 80, "--budget", "3")
    assert {line.partition(":")[0] for lines in displays for line in lines if line.startswith("kernel  ")} >= {
        "kernel    scale"
    }
    assert any(re.fullmatch(r"compiled  \S+  \d+ of \d+ sources?(, \d at work)?", line) for line in displays[-1])
    assert max(len(line) for lines in displays for line in lines) <= 80
    assert any(line.startswith("pretuned.lock.host.json: written") for line in end)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 40])
def test_the_quickstart_tuned_on_a_terminal(columns, tmp_path):
    displays, end = tuned_on_terminal(tmp_path, "examples/quickstart", columns, "--budget", "30")
    shown = [line for lines in displays for line in lines]
    steps = {line.split(maxsplit=1)[-1].partition(",")[0] for line in shown if "step " in line}
    assert len(steps & {"beginning", "preparing", "screening", "racing", "choosing", "deciding"}) >= 2
    # which configuration is the fastest, and by how much, is the machine's affair
    assert any(re.match(r"best      [\d.]+ (us|ms)[,:]", line) for line in shown)
    assert any(line.startswith("pretuned.lock.host.json: written") for line in end)
