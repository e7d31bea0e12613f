"""`pretuned.tune`, `check` and `bake`: what they return and raise, and that nothing is printed unless asked for."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import replace

import pytest

import pretuned
from builders import H100, row
from declaring import SCALE_MODULE, write_module
from fake_runner import ROWS_ALONE
from pretuned.api import crews, tuning
from pretuned.fleet import tuning as fleet
from pretuned.tune import request
from pretuned.tune.events import Planned
from pretuned.tune.request import TuningDevice
from pretuned.tune.session import Tuned
from pretuned.tune.spending import Spending
from project_home import TABLE, Home

GPU = TuningDevice(record=H100, driver="580.159.04", effort=ROWS_ALONE)
PLANNED = Planned(kernels=1, rows=4, configurations=6, sources=12, seconds=1.0, budget_s=None)


@pytest.fixture
def home(tmp_path, monkeypatch, capsys, compiled):
    found = Home(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(compiled))
    return found


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that finds every row at once; `ending` is how it ends."""
    ending = {}

    def tune(requests, device, *, listen, **given):
        ending["given"] = given
        listen(PLANNED)
        found = tuple(row(one.spec, problem) for one in requests for problem in one.problems)
        how = {name: value for name, value in ending.items() if name != "given"}
        return Tuned(device=device, rows=found, skipped=(), left=0, spending=Spending(), **how)

    monkeypatch.setattr(crews, "find_device", lambda place, known: GPU)
    monkeypatch.setattr(crews, "devices_here", lambda backend, known, first: [GPU])
    monkeypatch.setattr(fleet, "tune", tune)
    return ending


def test_a_project_is_tuned_checked_and_baked(home, gpu, capsys):
    events, found = [], []
    result = pretuned.tune(home.root, kernels=["scale"], budget_s=30.0, listen=events.append, report=found.append)
    assert (result.lock, result.changed, result.idle, result.left) == (home.lock, True, False, 0)
    assert result.device == H100.name
    assert [line.kernel for line in result.rows] == ["scale"] * 4
    assert gpu["given"]["budget_s"] == 30.0
    assert [pretuned.describe(event) for event in events] == [pretuned.describe(PLANNED)]
    assert result.to_json()["device"] == H100.name

    again = pretuned.tune(home.root)
    assert (again.idle, again.changed, again.rows) == (True, False, ())

    checked = pretuned.check(home.root, report=found.append)
    assert checked.fresh
    assert list(checked.specs) == ["scale"]

    (package,) = pretuned.bake(home.root, output=home.root / "out", report=found.append)
    assert package.folder == home.root / "out" / "src" / "demo" / "tuned"
    assert sorted(package.files) == sorted(
        file.relative_to(package.folder).as_posix() for file in package.folder.rglob("*") if file.is_file()
    )
    assert all(isinstance(one, pretuned.Diagnostic) for one in found)
    assert "no GPU here: baking 4 rows of pretuned.lock.json for NVIDIA H100 80GB HBM3" in map(str, found)
    assert capsys.readouterr() == ("", "")


def test_the_current_folder_is_the_project(home, gpu):
    assert pretuned.tune().changed
    assert pretuned.check().fresh
    assert pretuned.bake()[0].folder == home.root / "src" / "demo" / "tuned"


def test_a_lock_that_is_not_fresh_is_a_result(home):
    home.write([replace(one, verification="of yesterday") for one in home.rows()])
    checked = pretuned.check(home.root)
    assert not checked.fresh
    assert {finding.word for finding in checked.found} == {"unverified"}
    assert not checked.to_json()["fresh"]


def test_what_the_command_prints_the_function_returns(home, gpu):
    pretuned.tune(home.root)
    from_function = home.lock.read_bytes()
    home.lock.unlink()
    assert home.run("tune")[0] == 0
    assert home.lock.read_bytes() == from_function


ENDINGS = {
    "wrong": ({"wrong": "scale: its default is wrong"}, pretuned.TuningError, "its default is wrong"),
    "lost": ({"trouble": "the GPU fell off the bus"}, pretuned.DeviceError, "fell off"),
    "interrupted": ({"interrupted": True}, KeyboardInterrupt, "^$"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_what_ends_a_tuning_is_raised_when_the_lock_is_written(home, gpu, name):
    ending, error, text = ENDINGS[name]
    gpu.update(ending)
    with pytest.raises(error, match=text):
        pretuned.tune(home.root)
    assert len(home.read().rows) == 4


WRONG = {
    "a kernel": (
        lambda: pretuned.tune(kernels=["scal"]),
        pretuned.UsageError,
        "there is no kernel 'scal'; did you mean 'scale'?",
    ),
    "a device": (lambda: pretuned.tune(on="gpu"), pretuned.UsageError, "on: is \"gpu\"; expected 'auto', 'cuda'"),
    "a budget": (
        lambda: pretuned.tune(budget_s=-1),
        pretuned.UsageError,
        "budget_s is -1; write seconds, 0 or more, or math.inf for no limit",
    ),
    "certify and force": (
        lambda: pretuned.tune(certify=8, force=True),
        pretuned.UsageError,
        "certify tunes nothing; leave out force, and write usage in place of from_usage",
    ),
    "a usage file": (
        lambda: pretuned.tune(usage="calls.jsonl"),
        pretuned.UsageError,
        "'calls.jsonl' cannot be read: No such file or directory",
    ),
    "a strategy": (lambda: pretuned.tune(strategy="luck"), pretuned.Error, "luck"),
    "a configuration": (
        lambda: pretuned.bake(extra=["scale:block"]),
        pretuned.UsageError,
        "--with scale:block: 'block' is not a k=v",
    ),
    "a folder": (lambda: pretuned.check("nowhere"), pretuned.ConfigError, "pyproject.toml: does not exist in"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_asked_for_wrongly(home, gpu, name):
    call, error, text = WRONG[name]
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    assert isinstance(caught.value, pretuned.Error)


def test_without_a_gpu_tuning_is_refused(home, monkeypatch):
    monkeypatch.setattr(crews, "find_device", lambda place, known: None)
    with pytest.raises(pretuned.DeviceError, match="there is no GPU 0 here to tune on"):
        pretuned.tune(home.root)


@pytest.mark.parametrize("function", [pretuned.tune, pretuned.bake, pretuned.check, pretuned.report])
def test_every_parameter_is_described(function):
    described = inspect.getdoc(inspect.unwrap(function))
    for name in inspect.signature(function).parameters:
        assert f"\n    {name}: " in described


@pytest.mark.parametrize(
    "first", ["import pretuned", "import pretuned.tune.events, pretuned.bake.plan, pretuned.report.text"]
)
def test_folders_are_called_whatever_was_imported_before(first, tmp_path):
    code = (
        f"{first}\nimport pretuned\nfor call in (pretuned.tune, pretuned.bake, pretuned.report):\n    try: call('.')\n"
    )
    code += "    except pretuned.ConfigError: print('called')\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "called\n" * 3


def test_the_same_kernel_in_a_file_and_in_python_gives_the_same_lock(tmp_path, monkeypatch, capsys):
    """On the host device, whose times come from one user cache: the second tuning asks for the same measurements."""
    monkeypatch.setattr(request, "TRIAL_PROFILE", ROWS_ALONE)
    home = Home(tmp_path, monkeypatch, capsys)
    small = {"[1024, 65536]": "[64]", '["float32", "float16"]': '["float32"]', "[128, 256]": "[256]"}
    text, module = (home.root / "kernels" / "scale.toml").read_text(), SCALE_MODULE
    for old, new in small.items():
        text, module = text.replace(old, new), module.replace(old, new)
    (home.root / "kernels" / "scale.toml").write_text(text)
    from_file = pretuned.tune(on="host")
    assert len(from_file.rows) == 1
    lock = from_file.lock.read_bytes()
    (package,) = pretuned.bake(on="host", output="file")

    from_file.lock.unlink()
    write_module(home.root / "kernels", module)
    (home.root / "kernels" / "scale.cu.jinja").write_text(home.template)
    (home.root / "pyproject.toml").write_text(TABLE + 'declarations = "kernels/declared.py"\n')
    declared = pretuned.tune(on="host")
    assert declared.tuned.spending.launched == 0, "all of it was measured before"
    assert declared.lock.read_bytes() == lock
    (other,) = pretuned.bake(on="host", output="python")
    assert other.files == package.files
    assert [(other.folder / name).read_bytes() for name in other.files] == [
        (package.folder / name).read_bytes() for name in package.files
    ]
    assert pretuned.check(on="host").fresh


def test_options_are_those_of_the_command():
    names = set(inspect.signature(pretuned.tune).parameters)
    assert names >= set(inspect.signature(tuning.TuningOptions).parameters)
    assert replace(tuning.TuningOptions(), force=True).force
