"""Commands that ask for what is not there, and those that need no project."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pretuned import __version__
from pretuned.cli import main
from pretuned.device import probe
from pretuned.device.probe import DriverVersion, Gpu
from pretuned.errors import Error
from specs import write

TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/nowhere_installed/tuned"\n'


class PackageError(Error):
    pass


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe, "gpus", lambda given=None: ())
    monkeypatch.setattr(probe, "driver", lambda given=None: None)

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return call


@pytest.fixture
def package(monkeypatch):
    """An imported generated package that tells what it was asked."""

    def explain(kernel, device=None, **problem):
        if "rows" in problem:
            raise PackageError("scale has no dim 'rows'")
        return f"{kernel} {device} {problem}"

    monkeypatch.setitem(
        sys.modules,
        "made_up",
        SimpleNamespace(TABLE={"scale": {}, "norm": {}}, explain=explain, PretunedError=PackageError, __file__="/x/y"),
    )


@pytest.mark.parametrize("command", [("check",), ("tune",), ("bake",)])
def test_where_there_is_no_project_the_error_says_so(run, command, tmp_path):
    status, out, err = run(*command)
    assert (status, out) == (3, "")
    assert f"pyproject.toml: does not exist in {tmp_path}" in err


def test_a_project_that_does_not_use_pretuned(run, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    status, _, err = run("check")
    assert status == 3
    assert "has no [tool.hatch.build.hooks.pretuned] table" in err


def test_a_project_elsewhere(run, tmp_path):
    folder = tmp_path / "elsewhere"
    (folder / "kernels").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(TABLE)
    write(folder / "kernels")
    assert run("check", "--project", "elsewhere")[0] == 4
    status, out, _ = run("show", "--project", "elsewhere")
    assert status == 0
    assert out == (
        "pretuned.lock.json (not baked: the project is not installed)\n\n"
        "no rows, so only the defaults run; run `pretuned tune` on a machine with a GPU\n"
    )
    status, _, err = run("explain", "scale", "n=1", "--project", "elsewhere")
    assert (status, err) == (
        2,
        "error: nothing is baked yet; run `pretuned bake`, install the project, or name a --package\n",
    )


def test_show_of_what_is_not_there(run):
    assert run("show", "no.json") == (2, "", "error: there is no lock 'no.json'\n")
    status, _, err = run("show", "no_such_package")
    assert (status, err) == (
        2,
        "error: 'no_such_package' cannot be imported: No module named 'no_such_package'\n",
    )
    assert run("show", "json") == (2, "", "error: 'json' is not a package that pretuned generated\n")


def test_show_of_a_package_that_another_version_wrote(run, monkeypatch):
    row = (("n", 1), "of other parts")
    other = SimpleNamespace(TABLE={"scale": {"GPU": (row,)}}, DEVICES={}, SELECTIONS={}, __name__="made_up")
    monkeypatch.setitem(sys.modules, "made_up", other)
    status, out, err = run("show", "made_up")
    assert (status, out) == (2, "")
    assert err.startswith(
        "error: made_up: bake it again, with `pretuned bake` or by installing its project: the table is not as this "
        "version of pretuned writes it ("
    )


def test_show_of_a_lock_that_is_cut_short(run, tmp_path):
    (tmp_path / "half.json").write_text('{"format": 1, "devices": {')
    status, _, err = run("show", "half.json")
    assert status == 4
    assert re.match(r"error: half\.json: is not JSON \(.+\); it is cut short or was merged by hand", err)


def test_explain_hands_over_numbers_types_and_flags(run, package):
    asked = ("explain", "scale", "n=4096", "T=float32", "causal=true", "shift=-2", "share=1.5", "--package", "made_up")
    assert run(*asked, "--device", "L4") == (
        0,
        "scale L4 {'n': 4096, 'T': 'float32', 'causal': True, 'shift': -2, 'share': 1.5}\n",
        "",
    )


@pytest.mark.parametrize("text", ["n=--5", "n=\N{SUPERSCRIPT TWO}", "n=1.5.2"])
def test_explain_hands_over_as_text_what_is_no_number(run, package, text):
    status, out, _ = run("explain", "scale", text, "--package", "made_up")
    assert (status, out) == (0, f"scale None {dict([text.split('=')])}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("scala",), "there is no kernel 'scala'; did you mean 'scale'?"),
        (("zzz",), "there is no kernel 'zzz'; known are norm, scale"),
        (
            ("scale", "4096"),
            "write each dim and specialisation as NAME=VALUE, as in n=4096 T=float32; '4096' is not that",
        ),
        (("scale", "rows=2"), "scale has no dim 'rows'"),
    ],
)
def test_explain_of_what_is_not_there(run, package, arguments, message):
    assert run("explain", *arguments, "--package", "made_up") == (2, "", f"error: {message}\n")


def test_devices(run, monkeypatch):
    gpu = Gpu(
        index=1,
        name="NVIDIA L4",
        uuid="",
        compute_capability=89,
        sm_count=58,
        l2_bytes=48 << 20,
        shared_bytes=101376,
        memory_bytes=24 << 30,
        memory_gbps=300,
        power_w=72,
    )
    monkeypatch.setattr(probe, "gpus", lambda given=None: (gpu,))
    monkeypatch.setattr(probe, "driver", lambda given=None: DriverVersion(version="580.65.06", cuda=(13, 0)))
    assert run("devices") == (
        0,
        (
            "driver 580.65.06, CUDA 13.0\n"
            "GPU     name       architecture  SMs  memory  bandwidth      L2  power\n"
            "cuda:1  NVIDIA L4  sm_89          58  24 GiB   300 GB/s  48 MiB   72 W\n"
        ),
        "",
    )
    found = json.loads(run("devices", "--json")[1])
    assert found["driver"] == {"version": "580.65.06", "cuda": [13, 0]}
    assert [(one["index"], one["name"], one["sm_count"]) for one in found["gpus"]] == [(1, "NVIDIA L4", 58)]


def test_the_version(run):
    assert run("--version") == (0, f"pretuned {__version__}\n", "")


def test_a_bad_environment_variable_is_named(run, tmp_path, monkeypatch):
    (tmp_path / "kernels").mkdir()
    write(tmp_path / "kernels")
    (tmp_path / "pyproject.toml").write_text(TABLE)
    monkeypatch.setenv("PRETUNED_BUDGET", "soon")
    status, _, err = run("tune")
    assert status == 3
    assert "PRETUNED_BUDGET: is \"soon\"; expected seconds, such as '60'" in err


def test_commands_that_measure_nothing_need_no_numpy(tmp_path):
    (tmp_path / "kernels").mkdir()
    write(tmp_path / "kernels")
    (tmp_path / "pyproject.toml").write_text(TABLE)
    code = "import sys; sys.modules |= {'numpy': None, 'cupy': None}; from pretuned.cli import main; main(sys.argv[1:])"
    for command, status in (("check", 4), ("devices", 0), ("tune", 5)):
        line = [sys.executable, "-c", code, command]
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
        ran = subprocess.run(line, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert (ran.returncode, "Traceback" in ran.stderr) == (status, False), ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "pretuned needs COMMAND; see `pretuned --help`"),
        ("tun", "there is no command 'tun'; did you mean 'tune'?"),
        ("tune x", "`pretuned tune` takes no 'x' there; see `pretuned tune --help`"),
        ("tune --effort slow", "--effort: is 'slow'; expected fast, default or thorough"),
        (
            "tune --budget nan",
            "--budget: 'nan' is not a number of seconds; write `--budget 60`, or `--budget none` for no limit",
        ),
        (
            "tune --budget -1",
            "--budget: '-1' is not a number of seconds; write `--budget 60`, or `--budget none` for no limit",
        ),
        ("check --at", "--at: expected one argument; see `pretuned check --help`"),
        ("check --at n=4 T=float16", "`pretuned check` takes no 'T=float16' there; see `pretuned check --help`"),
        ("check --sample 2", "--sample says what to execute; add --execute, or --sanitize"),
        ("check --budget 9", "--budget says what to execute; add --execute, or --sanitize"),
        ("check --execute --drift", "`--drift` measures this device's rows; leave out --execute and --sanitize"),
        ("report --onn host", "`pretuned report` has no option --onn; did you mean '--on'?"),
        ("show --on host x.json", "`--on` shows the project's lock of that device; leave out 'x.json'"),
        ("schema", "pretuned schema needs spec or project; see `pretuned schema --help`"),
        ("merge", "pretuned merge needs LOCK; see `pretuned merge --help`"),
        ("cache clea", "there is no action 'clea'; did you mean 'clear'?"),
        ("schema foo", "there is no schema 'foo'; known are project, spec"),
    ],
)
def test_what_cannot_be_read_of_a_command_line_is_reported_in_one_line(run, words, said):
    assert run(*words.split()) == (2, "", f"error: {said}\n")
