"""The whole path on the host device: tune, look, bake; and its rows stay out of packages unless asked for by name."""

from __future__ import annotations

import json
import math

import pytest

from pretuned.cli import main
from pretuned.compile.host import compiler
from pretuned.record import lock as lockfile
from pretuned.tune import duel
from pretuned.tune.workbench import NoiseWatch
from specs import SCALE_TEMPLATE, loaded

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")

PYPROJECT = """
[tool.hatch.build.hooks.pretuned]
module = "src/mypkg/tuned"
cubins = false
"""


FEW = (("block = [128, 256]", "block = [256]"), ("vec   = [1, 2, 4]", "vec   = [1, 2]"))  # configurations


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache folder: what one test has tuned, those behind it find."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def project(tmp_path, monkeypatch, cache):
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "kernels").mkdir()
    loaded(tmp_path / "kernels", *FEW, template="#include <cuda_fp16.h>\n" + SCALE_TEMPLATE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(cache))
    return tmp_path


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def table(project):
    return (project / "src" / "mypkg" / "tuned" / "__init__.py").read_text()


def test_tuning_writes_a_lock_of_its_own_and_a_second_time_measures_nothing(project, capsys, monkeypatch):
    monkeypatch.setattr(duel, "HELD_UP", math.inf)  # what the machine has disturbed would be measured again
    monkeypatch.setattr(NoiseWatch, "reason", lambda *_: None)
    assert run(capsys, "tune", "--on", "host")[0] == 0
    lock = lockfile.read(project / "pretuned.lock.host.json")
    assert set(lock.devices) == {"host"}
    assert lock.rows
    assert not (project / "pretuned.lock.json").exists()
    assert "is fresh; nothing to tune" in run(capsys, "tune", "--on", "host")[2]
    assert run(capsys, "check", "--on", "host")[0] == 0
    (project / "pretuned.lock.host.json").unlink()
    status, out, _ = run(capsys, "tune", "--on", "host", "--json")
    assert (status, json.loads(out)["compiled"], json.loads(out)["launched"]) == (0, 0, 0)
    status, out, _ = run(capsys, "show", "pretuned.lock.host.json", "--json")
    assert (status, len(json.loads(out)["rows"])) == (0, len(lock.rows))


def test_a_build_never_bakes_rows_of_the_host(project, capsys, monkeypatch):
    run(capsys, "tune", "--on", "host")
    monkeypatch.setenv("PRETUNED_TUNE_ON", "host")
    status, _, err = run(capsys, "bake")
    assert status == 0
    assert '"host"' not in table(project)
    assert "rows of the device host left out" in err
    # not even where somebody has put them into the lock of the project
    (project / "pretuned.lock.host.json").rename(project / "pretuned.lock.json")
    monkeypatch.delenv("PRETUNED_TUNE_ON")
    assert run(capsys, "bake")[0] == 0
    assert '"host"' not in table(project)


def test_they_are_baked_when_asked_for_by_name(project, capsys):
    run(capsys, "tune", "--on", "host")
    (project / "pyproject.toml").write_text(PYPROJECT.replace("cubins = false\n", ""))
    status, _, err = run(capsys, "bake", "--on", "host")
    assert status == 0
    assert "arch-specific" not in err  # what nothing here compiles for a GPU may be the host's winners
    assert table(project).count('"host": (') == 2, "rows and a selection"


def test_a_kernel_for_gpus_only_is_skipped_with_its_line(project, capsys):
    template = project / "kernels" / "scale.cu.jinja"
    text = template.read_text()
    template.write_text(text.replace("{\n", '{\n    asm volatile("membar.gl;");\n', 1))
    line = template.read_text().split("asm")[0].count("\n") + 1
    status, _, err = run(capsys, "tune", "--on", "host")
    assert status == 0
    assert f"skipped: scale.cu.jinja:{line}: for GPUs only: inline PTX" in err
    assert not lockfile.read(project / "pretuned.lock.host.json").rows


def test_a_wrong_template_is_found_by_check(project, capsys):
    template = project / "kernels" / "scale.cu.jinja"
    text = template.read_text()
    assert "min(begin + vec, n)" in text
    template.write_text(text.replace("min(begin + vec, n)", "min(begin + vec, n + 1)"))
    spec = project / "kernels" / "scale.toml"
    spec.write_text(
        spec.read_text().replace('"float32", "float16"', '"float32"').replace("vec   = [1, 2]", "vec   = [1]")
    )
    status, out, _ = run(capsys, "check", "--sanitize", "--sample", "1", "--budget", "none", "--at", "n=1000")
    assert status == 8
    assert "past the end of" in out
    status, out, _ = run(capsys, "check", "--execute", "--json", "--budget", "none")
    assert (status, json.loads(out)["findings"][0]["outcome"]) == (8, "wrong result")
