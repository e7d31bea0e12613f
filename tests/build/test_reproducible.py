"""`pretuned bake --check`, and that what is baked depends on nothing but sources, lock and versions."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

from builders import H100, rows
from pretuned import __version__
from pretuned.build import core
from pretuned.cli import main
from pretuned.config import read_settings
from pretuned.device import probe
from pretuned.frontends.registry import load_project
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from reported import Reported
from specs import SCALE_TEMPLATE, loaded, write

TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "demo/tuned"\n'
TEMPLATE = "#include <cuda_fp16.h>\n" + SCALE_TEMPLATE
DIGEST = """\
import hashlib, sys
from pathlib import Path
from pretuned.build.core import bake_project
from pretuned.config import read_settings
from pretuned.frontends.registry import load_project
from pretuned.diagnostics import Reporter
class Silent(Reporter):
    def report(self, diagnostic, /):
        pass
(baked,) = bake_project(load_project(Path.cwd()), read_settings(), Silent())
for name, content in baked.files.items():
    print(name, hashlib.sha256(content).hexdigest())
"""


@pytest.fixture
def project(tmp_path, monkeypatch, compiled):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "pyproject.toml").write_text(TABLE)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(compiled))
    monkeypatch.setattr(probe, "gpus", lambda given=None: ())
    monkeypatch.setattr(probe, "driver", lambda given=None: None)
    write(tmp_path / "kernels", template=TEMPLATE)
    spec = loaded(tmp_path / "kernels", template=TEMPLATE)
    lockfile.write(tmp_path / "pretuned.lock.json", Lock().updated({H100.name: H100}, rows(spec)))
    return tmp_path


def baked(root):
    (package,) = core.bake_project(load_project(root), read_settings(), Reported())
    return package.files


def bake(root, capsys, *options):
    with pytest.raises(SystemExit) as end:
        main(["bake", "--project", str(root), *options])
    captured = capsys.readouterr()
    return end.value.code, captured.out, captured.err


def listing(root):
    return {path: path.stat().st_mtime_ns for path in root.rglob("*") if "cache" not in path.parts}


def test_check_compares_and_writes_nothing(project, capsys):
    tuned = project / "demo/tuned"
    status, out, _ = bake(project, capsys, "--check")
    assert status == 8
    assert f"{tuned}/__init__.py: missing\n" in out
    assert not tuned.exists()
    assert bake(project, capsys)[0] == 0
    before = listing(project)
    status, out, _ = bake(project, capsys, "--check")
    assert (status, listing(project)) == (0, before)
    assert out.endswith("files, as they would be baked\n")
    (tuned / "__pycache__").mkdir()
    (tuned / "__pycache__/x.pyc").write_bytes(b"")
    (tuned / "__init__.py").write_text("")
    (tuned / "mine.py").write_text("")
    (tuned / "py.typed").unlink()
    status, out, _ = bake(project, capsys, "--check")
    assert (status, out) == (
        8,
        f"{tuned}/__init__.py: differs\n{tuned}/mine.py: not baked\n{tuned}/py.typed: missing\n",
    )


def test_check_sees_a_changed_lock_and_another_template(project, capsys):
    bake(project, capsys)
    lock = lockfile.read(project / "pretuned.lock.json")
    lockfile.write(project / "pretuned.lock.json", lock.without([lockfile.row_key(lock.rows[0])]))
    out = bake(project, capsys, "--check")[1]
    assert [line.partition("tuned/")[2] for line in out.splitlines()] == [
        "__init__.py: differs",
        "pretuned.json: differs",
    ]


def test_check_of_another_folder_and_with_more_shipped(project, capsys):
    extra = ("--output", str(project / "out"), "--with", "scale:block=128,vec=2")
    assert bake(project, capsys, *extra)[0] == 0
    assert bake(project, capsys, *extra, "--check")[0] == 0
    assert bake(project, capsys, *extra[:2], "--check")[0] == 8


def test_check_never_measures_anew(project, capsys, monkeypatch):
    monkeypatch.setenv("PRETUNED_MODE", "force")
    status, _, err = bake(project, capsys, "--check")
    assert status == 2
    assert "use --check in another mode" in err


def test_the_version_stands_in_the_package(project):
    files = baked(project)
    assert f"Written by pretuned {__version__}; do not edit.".encode() in files["__init__.py"]
    assert json.loads(files["pretuned.json"])["pretuned"] == __version__


def test_the_order_in_files_means_nothing(project):
    """A lock that somebody sorted otherwise, specs and values in another order, other line ends and mtimes."""
    expected = baked(project)
    document = json.loads((project / "pretuned.lock.json").read_text())
    random.Random(1).shuffle(document["rows"])
    document["rows"] = [dict(sorted(row.items(), reverse=True)) for row in document["rows"]]
    (project / "pretuned.lock.json").write_text(json.dumps(document, indent=4))
    spec = project / "kernels/scale.toml"
    spec.write_text(spec.read_text().replace("vec   = [1, 2, 4]\n", "vec   = [4, 1, 2]\n"))
    os.utime(project / "kernels/scale.cu.jinja", (0, 0))
    assert baked(project) == expected


def test_neither_the_environment_nor_the_path_get_into_a_package(project, tmp_path_factory):
    """Each in a process of its own, with a cache of its own: everything is compiled again."""
    found = set()
    for number, changes in enumerate(
        (
            {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC"},
            {"PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8", "TZ": "Pacific/Auckland", "SOURCE_DATE_EPOCH": "1"},
        )
    ):
        root = tmp_path_factory.mktemp("with a space, ünd more " * (number + 1))
        for name in ("pyproject.toml", "pretuned.lock.json", "kernels"):
            subprocess.run(["cp", "-r", project / name, root / name], check=True)
        private = {"PRETUNED_CACHE_DIR": str(root / "cache"), "CUDA_VISIBLE_DEVICES": "", "HOME": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", DIGEST],
            cwd=root,
            env=os.environ | private | changes,
            umask=0o077 if number else 0o022,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ".cubin" in done.stdout
        found.add(done.stdout)
    assert len(found) == 1
