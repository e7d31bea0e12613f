"""Diagnostics: the line that a user sees, and its place among what a command prints."""

import subprocess
import sys

import pytest

from pretuned.diagnostics import Diagnostic, Severity
from reported import Reported


@pytest.mark.parametrize(
    ("diagnostic", "line"),
    [
        (Diagnostic(text="all fresh"), "all fresh"),
        (Diagnostic(place="a.lock", text="2 rows stale", remedy="tune again"), "a.lock: 2 rows stale; tune again"),
        (Diagnostic(severity=Severity.WARNING, text="no GPU here"), "warning: no GPU here"),
        (Diagnostic(severity=Severity.ERROR, place="x", text="is wrong"), "error: x: is wrong"),
    ],
)
def test_a_diagnostic_is_one_line(diagnostic, line):
    assert str(diagnostic) == line


def test_a_reporter_gets_a_diagnostic_with_its_severity():
    reported = Reported()
    reported.info("baked")
    reported.warning("stale", place="lock", remedy="tune")
    assert reported == ["baked", "warning: lock: stale; tune"]


def test_in_a_pipe_a_summary_comes_behind_the_table_that_it_sums_up():
    code = "print('table'); from pretuned.cli.project import console; console.info('summary'); print('more')"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    assert done.stdout == "table\nsummary\nmore\n"
