"""Recorded spaces, and what a generated package reads: table files and what the environment asks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from builders import H100, rows
from hostile_data import TABLE, TEMPLATE, brief
from pretuned.cli import main
from pretuned.device import probe
from pretuned.errors import Error
from pretuned.exchange import kernel_tuner, t1, t4
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from specs import loaded, write

HOSTILE_T1 = {
    "ConfigurationSpace": {
        "TuningParameters": [{"Name": "x", "Type": "int", "Values": "[1, 2]"}],
        "Conditions": [],
    }
}


@pytest.mark.parametrize(
    ("values", "expression"),
    [
        ("__import__('os').system('touch pwned')", "x > 0"),
        ("[1] * 10**10", "x > 0"),
        ("[" * 100_000, "x > 0"),
        ("[2**10**9]", "x > 0"),
        ("[1, 2]", "__import__('os').system('touch pwned')"),
        ("[1, 2]", "x.__class__"),
        ("[1, 2]", "(" * 100_000 + "x" + ")" * 100_000),
        ("[2, 3]", "x ** 10 ** 9 > 0"),
    ],
    ids=brief,
)
def test_a_space_of_others_is_data(tmp_path, monkeypatch, values, expression):
    monkeypatch.chdir(tmp_path)
    document = json.loads(json.dumps(HOSTILE_T1))
    document["ConfigurationSpace"]["TuningParameters"][0]["Values"] = values
    document["ConfigurationSpace"]["Conditions"] = [{"Parameters": ["x"], "Expression": expression}]
    (tmp_path / "space.json").write_text(json.dumps(document))
    with suppress(Error):  # or nothing fulfils the condition
        assert list(t1.read(tmp_path / "space.json").configurations()) == []
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{", "[]", '{"results": 1}', '{"__class__": {}}', '{"cache": []}'], ids=brief
)
@pytest.mark.parametrize("reader", [t4.read, kernel_tuner.read])
def test_results_of_others_are_data(tmp_path, reader, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(Error):
        reader(tmp_path / "results.json")


ASK = """\
import sys
import demo.tuned as tuned
device, *problem = sys.argv[1:]
try:
    print(tuned.explain("scale", device=device, **{"n": 4096, "T": "float32"}))
except tuned.PretunedError as error:
    print("refused:", error)
"""
TABLES = {
    "brackets": "[" * 100_000,
    "rows of a list": '{"format": 1, "devices": {}, "rows": [[]]}',
    "a kernel of a list": '{"format": 1, "rows": [{"kernel": ["scale"]}]}',
    "digits": '{"format": ' + "9" * 100_000 + "}",
    "no UTF-8": "\udcff",
    "a time of another kind": "time",
    "a size beyond all": "size",
    "a dunder": "dunder",
}


@pytest.fixture(scope="module")
def baked(tmp_path_factory):
    """The folder of a generated package with a lock's rows, and the lock as JSON."""
    root = tmp_path_factory.mktemp("baked")
    (root / "kernels").mkdir()
    (root / "pyproject.toml").write_text(TABLE)
    write(root / "kernels", template=TEMPLATE)
    lock = Lock().updated({H100.name: H100}, rows(loaded(root / "kernels", template=TEMPLATE)))
    lockfile.write(root / "pretuned.lock.json", lock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRETUNED_CACHE_DIR", str(root / "cache"))
        patch.setattr(probe, "gpus", lambda given=None: ())
        patch.setattr(probe, "driver", lambda given=None: None)
        with pytest.raises(SystemExit):
            main(["bake", "--project", str(root)])
    (root / "demo/__init__.py").write_text("")
    return root, json.loads(lockfile.dumps(lock))


def ask(root, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PRETUNED_")}
    done = subprocess.run(
        [sys.executable, "-c", ASK, H100.name],
        cwd=root,
        env=kept | variables | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert not list(root.rglob("pwned*"))
    return done.stdout


def test_the_package_answers_where_nobody_interferes(baked):
    assert "runs    block=256, vec=4" in ask(baked[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PRETUNED_CONFIG", "scale:block=__import__('os').system('touch pwned')"),
        ("PRETUNED_CONFIG", "scale:__class__=1"),
        ("PRETUNED_CONFIG", "scale:block=" + "9" * 10_000),
        ("PRETUNED_CONFIG", "scale:implementation=__init__,block=1"),
        ("PRETUNED_CONFIG", "scale:" + "block=1," * 10_000 + "block"),
        ("PRETUNED_CONFIG", "demo.tuned.__class__:block=1"),
        ("PRETUNED_DEVICE", "';import os;'"),
        ("PRETUNED_DEVICE", "x" * 100_000),
        ("PRETUNED_STRICT", "__import__('os')"),
    ],
    ids=brief,
)
def test_an_override_that_is_none_is_refused(baked, name, value):
    assert ask(baked[0], **{name: value}).startswith("refused: ")


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_of_others_is_data(baked, tmp_path, kind):
    root, document = baked
    document = json.loads(json.dumps(document))
    match kind:
        case "a time of another kind":
            document["rows"][0]["choices"][0]["time_us"] = {"__class__": 1}
        case "a size beyond all":
            document["rows"][0]["problem"] = {"n": -(10**300)}
        case "a dunder":
            document["rows"][0]["choices"][0]["configuration"] = {"__class__": 1}
    text = json.dumps(document) if " " not in kind or kind.startswith(("a time", "a size")) else TABLES[kind]
    text = TABLES[kind] if kind in {"brackets", "digits"} else text
    (tmp_path / "table.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    assert ask(root, PRETUNED_TABLE=str(tmp_path / "table.json")).startswith("refused: ")


def test_no_override_reads_a_folder_or_what_is_not_there(baked, tmp_path):
    for path in (tmp_path, tmp_path / "nowhere", Path("x" * 5000)):
        assert ask(baked[0], PRETUNED_TABLE=str(path)).startswith("refused: ")
