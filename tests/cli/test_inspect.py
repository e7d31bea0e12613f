"""`pretuned inspect` of wheels, folders and installed packages, sound ones and others, without executing any of it."""

from __future__ import annotations

import json
import sys
import zipfile
from dataclasses import replace

import pytest

from builders import H100, rows, selections
from pretuned.cli import main
from pretuned.device import probe
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from specs import SCALE_TEMPLATE, loaded, write

TEMPLATE = "#include <cuda_fp16.h>\n" + SCALE_TEMPLATE
TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\n'
PREFIX = "demo/tuned/"


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return end.value.code, captured.out, captured.err


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a lock of the H100, whose package is baked in the source tree."""
    root = tmp_path_factory.mktemp("project")
    (root / "kernels").mkdir()
    (root / "pyproject.toml").write_text(TABLE)
    write(root / "kernels", template=TEMPLATE)
    spec = loaded(root / "kernels", template=TEMPLATE)
    found = [*selections(spec)[:1], replace(selections(spec)[1], certificate=None)]
    lockfile.write(root / "pretuned.lock.json", Lock().updated({H100.name: H100}, rows(spec), (), found))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRETUNED_CACHE_DIR", str(root / "cache"))
        patch.setattr(probe, "gpus", lambda given=None: ())
        patch.setattr(probe, "driver", lambda given=None: None)
        with pytest.raises(SystemExit) as end:
            main(["bake", "--project", str(root)])
    assert end.value.code == 0
    (root / "src/demo/__init__.py").write_text("raise SystemExit('imported')\n")
    return root


@pytest.fixture
def wheel(project, tmp_path):
    """Pack the package as a wheel does; `changes` are contents by name (None leaves the file out)."""

    def pack(changes=(), compression=zipfile.ZIP_DEFLATED):
        path, source = tmp_path / "demo-1.0-py3-none-any.whl", project / "src"
        files = {file.relative_to(source).as_posix(): file.read_bytes() for file in source.rglob("*") if file.is_file()}
        files |= {"demo-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n"} | dict(changes)
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in files.items():
                if content is not None:
                    archive.writestr(name, content)
        return path

    return pack


def test_a_wheel_tells_what_it_was_tuned_for(wheel, capsys):
    status, out, _ = run(capsys, "inspect", wheel())
    head, _, title, by, *rest = out.splitlines()
    assert status == 0
    assert head == "demo-1.0-py3-none-any.whl: py3-none-any"
    assert title.startswith("demo.tuned: ")
    assert "; 2 compute_90 ptx, 4 sm_90 cubin (" in title
    assert by.startswith("baked by pretuned ")
    *rest, certified, bare, end = rest
    assert certified == (
        "1 selection certified at 32 problems: mean 0.6%, worst 4.3% (scale (T=float16) on NVIDIA H100 80GB HBM3 at "
        "n=1024), none slower than the default"
    )
    assert (bare, end) == ("1 selection not certified", "every file is as it was baked")
    assert [line.split() for line in rest] == [
        ["kernel", "device", "rows", "faster", "recompiled", "noisy", "tuned", "driver", "NVRTC"],
        ["scale", *H100.name.split(), "4", "4", "4", "0", "2026-11-21", "580.159.04", "13.0.88"],
    ]


def test_as_json_of_a_folder_and_of_an_installed_package(project, wheel, capsys, monkeypatch):
    of_wheel = json.loads(run(capsys, "inspect", wheel(), "--json")[1])
    of_folder = json.loads(run(capsys, "inspect", project / "src", "--json")[1])
    assert of_wheel["packages"] == of_folder["packages"]
    assert (of_wheel["tags"], of_folder["tags"]) == (["py3-none-any"], [])
    monkeypatch.syspath_prepend(str(project / "src"))
    for name in ("demo", "demo.tuned"):
        (found,) = json.loads(run(capsys, "inspect", name, "--json")[1])["packages"]
        assert found | {"folder": "demo/tuned"} == of_wheel["packages"][0]
    assert not [name for name in sys.modules if name.partition(".")[0] == "demo"], "looked at, not imported"


def test_a_folder_names_paths_and_a_wheel_packages(project, wheel, capsys):
    assert run(capsys, "inspect", project)[1].startswith("src/demo/tuned: ")
    assert "\ndemo.tuned: " in run(capsys, "inspect", wheel({}))[1]


def test_what_differs_is_named(wheel, capsys, project):
    cubin = next(file.name for file in sorted((project / "src/demo/tuned/kernels").glob("*.cubin")))
    source = (project / "src/demo/tuned/__init__.py").read_bytes()
    changes = {
        f"{PREFIX}kernels/{cubin}": None,
        f"{PREFIX}__init__.py": source.replace(b"GPU", b"CPU"),
        f"{PREFIX}py.typed": b"partial\n",
        f"{PREFIX}kernels/more.cubin": b"",
    }
    status, out, _ = run(capsys, "inspect", wheel(changes))
    assert status == 8
    assert out.partition("not as it was baked:\n")[2].splitlines()[1:] == [
        f"  kernels/{cubin}: is missing",
        "  py.typed: has 8 bytes, and had 0 when it was baked",
        "  kernels/more.cubin: was not baked",
    ]
    assert "  __init__.py: is not what was baked (its SHA-256 is " in out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "it has no pretuned.json: another tool or an older pretuned baked it"),
        (b"{", "pretuned.json is not JSON"),
        (b"[" * 200_000, "pretuned.json is not JSON"),
        (b"[]", "pretuned.json has format None"),
        (b'{"format": 2}', "pretuned.json has format 2, and this pretuned reads format 1"),
        (b'{"format": 1, "pretuned": 1}', "pretuned.json: pretuned: expected a string, found 1"),
        (b'{"format": 1}', "pretuned.json: pretuned: Field required"),
    ],
)
def test_metadata_that_cannot_be_read(wheel, capsys, content, message):
    status, out, _ = run(capsys, "inspect", wheel({f"{PREFIX}pretuned.json": content}))
    assert status == 8
    assert message in out


def test_nothing_of_a_wheel_reaches_the_terminal_unescaped(wheel, capsys, project):
    told = json.loads((project / "src/demo/tuned/pretuned.json").read_bytes())
    told["rows"][0]["device"] = "GPU\x1b[2J\x07\u202e"
    told["pretuned"] = "1\r\nevery file is as it was baked"
    changes = {f"{PREFIX}pretuned.json": json.dumps(told), f"{PREFIX}\x1b[31mx": b""}
    status, out, _ = run(capsys, "inspect", wheel(changes))
    assert status == 8
    assert all(char.isprintable() or char == "\n" for char in out)
    assert "baked by pretuned 1 every file is as it was baked" in out


def test_a_name_that_stands_twice_is_told(wheel, capsys):
    path = wheel()
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{PREFIX}py.typed", b"")
    status, out, _ = run(capsys, "inspect", path)
    assert status == 8
    assert "  py.typed: is in the wheel twice" in out


def test_a_wheel_that_unpacks_to_much_is_not_unpacked(wheel, capsys, monkeypatch):
    monkeypatch.setattr("pretuned.build.inspection.MAX_BYTES", 1 << 20)
    status, out, _ = run(capsys, "inspect", wheel({f"{PREFIX}kernels/bomb.cubin": bytes(2 << 20)}))
    assert status == 8
    assert "it unpacks to more than 1048576 bytes; its digests were not looked at" in out


def test_a_damaged_archive(wheel, capsys):
    path = wheel(compression=zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"GPU kernels, tuned", b"GPU kernels, tunes"))
    status, out, _ = run(capsys, "inspect", path)
    assert status == 8
    assert "__init__.py: is not what was baked (its SHA-256 is unknown: Bad CRC-32" in out


@pytest.mark.parametrize(
    ("source", "status", "message"),
    [
        ("nowhere", 2, "there is no file or folder 'nowhere', and no installed package of that name"),
        ("nowhere.whl", 2, "there is no file or folder 'nowhere.whl', and no installed package of that name"),
        ("../../etc", 2, "and that is not the name of a package"),
        ("json", 2, "json does not hold a package that pretuned generated"),
        ("note.whl", 6, "note.whl cannot be read as a wheel: File is not a zip file"),
    ],
)
def test_what_is_no_package(tmp_path, monkeypatch, capsys, source, status, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.whl").write_text("not a wheel")
    found, _, err = run(capsys, "inspect", source)
    assert (found, err) == (status, f"error: {err.removeprefix('error: ')}")
    assert message in err
