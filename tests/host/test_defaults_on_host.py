"""A default that depends on the problem, from the spec to the table: executed, tuned and baked on the host device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pretuned.cli import main
from pretuned.compile.host import compiler

KERNELS = Path(__file__).parents[1] / "data" / "defaults"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")]


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def test_every_configuration_executes(project, capsys):
    at = [word for d in (12, 1028, 1030) for word in ("--at", f"tokens=3,d={d}")]
    status, out, _ = run(capsys, "check", "--execute", "--json", "--budget", "none", *at)
    assert (status, json.loads(out)["findings"]) == (0, [])


def test_each_row_has_the_default_of_its_problem(project, capsys):
    spec = project / "kernels" / "scale_rows.toml"
    text = spec.read_text().replace("sizes = [16, 4096]", "sizes = [2]")
    spec.write_text(text.replace("sizes = [512, 4096]", "sizes = [512, 1030]"))
    status, _, err = run(capsys, "tune", "--on", "host", "--budget", "30")
    assert status == 0, err
    (lock,) = project.glob("*lock*.json")
    rows = json.loads(lock.read_text())["rows"]
    found = {row["problem"]["d"]: row["choices"][-1]["configuration"] for row in rows}
    assert found == {512: {"block": 64, "items": 4}, 1030: {"block": 128, "items": 1}}
