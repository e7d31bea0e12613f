"""`pretuned bake --layout hf-kernel`: a kernel repository, whole, the same every time, or what is lacking for one."""

import base64
import hashlib
import json
import subprocess
import sys

import pytest

import pretuned
from project_home import TABLE, Home

PROJECT = '[project]\nname = "My.Scaling"\nversion = "3.2.1"\nlicense = "MIT"\n\n'
VARIANT = ("my-scaling", "build", "torch-cuda")


@pytest.fixture
def home(tmp_path, monkeypatch, capsys, compiled):
    found = Home(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(compiled))
    monkeypatch.setenv("PRETUNED_MODE", "off")
    (found.root / "pyproject.toml").write_text(PROJECT + TABLE)
    return found


def baked(home, output="out"):
    status, out, _ = home.run("bake", "--layout", "hf-kernel", "--output", output)
    folder = home.root.joinpath(output, *VARIANT)
    assert status == 0
    assert out.startswith(f"{'/'.join((output, *VARIANT))}: ")
    return folder, json.loads((folder / "metadata.json").read_text())


def test_the_metadata_says_what_the_files_are(home):
    folder, said = baked(home)
    assert {name: said[name] for name in ("name", "version", "license", "python-depends", "backend")} == {
        "name": "my-scaling",
        "version": 3,
        "license": "MIT",
        "python-depends": [],
        "backend": {"type": "cuda"},  # the project bakes no machine code
    }
    there = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    assert said["digest"]["files"] == {
        name: base64.b64encode(hashlib.sha256(file.read_bytes()).digest()).decode()
        for name, file in there.items()
        if name != "metadata.json"
    }
    assert home.run("inspect", folder)[0] == 0
    assert not (home.root / "src" / "demo" / "tuned").exists()


def test_the_bytes_are_the_same_every_time_and_an_id_is_that_of_the_files(home):
    folder, said = baked(home)
    again, _ = baked(home, "again")
    for file in folder.rglob("*"):
        assert file.is_dir() or file.read_bytes() == again.joinpath(file.relative_to(folder)).read_bytes()
    assert home.run("bake", "--layout", "hf-kernel", "--output", "out", "--check")[0] == 0
    assert said["id"].isidentifier()
    assert said["id"].startswith("_my_scaling_cuda_")
    spec = home.root / "kernels" / "scale.toml"
    spec.write_text(spec.read_text() + "# another\n")
    template = home.root / "kernels" / "scale.cu.jinja"
    template.write_text(template.read_text() + "// another\n")
    assert baked(home, "other")[1]["id"] != said["id"]
    assert home.run("bake", "--layout", "hf-kernel", "--output", "out", "--check")[0] == 8


def test_architectures_are_as_the_hub_writes_them(home):
    table = TABLE.replace("cubins = false\n", 'architectures = ["sm_80", "sm_100", "sm_90"]\n')
    (home.root / "pyproject.toml").write_text(PROJECT + table)
    pytest.importorskip("cupy")
    assert baked(home)[1]["backend"] == {"type": "cuda", "archs": ["8.0", "8.0+PTX", "9.0", "10.0"]}


def test_operators_are_in_the_namespace_of_the_id(home):
    _, plain = baked(home)
    (home.root / "pyproject.toml").write_text(PROJECT + TABLE + 'torch = "demo"\n')
    folder, said = baked(home, "operators")
    assert said["id"] != plain["id"]
    assert f'"{said["id"]}"' in (folder / "torch.py").read_text()
    assert "from . import torch " in (folder / "__init__.py").read_text()


@pytest.mark.parametrize("path", [".", "my_scaling"])
def test_it_is_loaded_from_its_path_twice_and_without_any_library(home, path):
    """As `kernels` does it, and as its versions do it that look for a folder of the repository's name."""
    folder, _ = baked(home)
    code = f"""
import importlib.util, sys
from pathlib import Path
sys.modules["cupy"] = sys.modules["torch"] = None
for name in ("first", "second"):
    spec = importlib.util.spec_from_file_location(name, Path({str(folder)!r}, {path!r}, "__init__.py"))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.scale.__name__ == "scale", module.scale
    assert set(module.__all__) >= {{"scale", "prepare", "explain"}}
    assert set(module.__all__) <= set(vars(module))
"""
    subprocess.run([sys.executable, "-I", "-c", code], check=True, cwd=home.root)


@pytest.mark.parametrize(
    ("project", "arguments", "status", "message"),
    [
        (
            PROJECT,
            ["--layout", "hf-kernel"],
            2,
            "name the folder to write below (--output); the source tree is no place",
        ),
        (PROJECT, ["--layout", "hf-kernels", "--output", "o"], 2, "there is no layout 'hf-kernels'; did you mean"),
        ("", ["--layout", "hf-kernel", "--output", "o"], 3, "project.name: a kernel repository is named by lower-case"),
        (
            '[project]\nname = "demo"\n',
            ["--layout", "hf-kernel", "--output", "o"],
            3,
            "project.license: a kernel repository says its license; write an identifier of SPDX, such as license =",
        ),
        (
            '[project]\nname = "kernels"\nlicense = "MIT"\n',
            ["--layout", "hf-kernel", "--output", "o"],
            None,
            "a kernel repository cannot be named 'kernels'",
        ),
    ],
)
def test_what_is_lacking_is_said(home, project, arguments, status, message):
    (home.root / "pyproject.toml").write_text(project + TABLE)
    found, _, printed = home.run("bake", *arguments)
    assert message in printed
    assert found == status or (status is None and found)
    assert not (home.root / "o").exists()


def test_the_function_writes_what_the_command_does(home):
    folder, _ = baked(home)
    (package,) = pretuned.bake(home.root, output="python", layout="hf-kernel")
    assert package.folder == home.root.joinpath("python", *VARIANT).relative_to(home.root)
    assert set(package.files) == {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(pretuned.UsageError, match="layout hf-kernel: name the folder to write below"):
        pretuned.bake(home.root, layout="hf-kernel")


def test_several_modules_are_several_repositories(home):
    table = "[tool.hatch.build.hooks.pretuned]\ncubins = false\n"
    for name in ("one", "two_more"):
        table += f'[[tool.hatch.build.hooks.pretuned.modules]]\nmodule = "src/demo/{name}"\nkernels = "{name}"\n'
    (home.root / "pyproject.toml").write_text(PROJECT + table)
    for name, kernel in (("one", "scale"), ("two_more", "double")):
        (home.root / name).mkdir()
        for file in (home.root / "kernels").iterdir():
            text = file.read_text().replace('name = "scale"', f'name = "{kernel}"')
            (home.root / name / file.name.replace("scale", kernel)).write_text(text)
    assert home.run("bake", "--layout", "hf-kernel", "--output", "out")[0] == 0
    assert sorted(one.name for one in (home.root / "out").iterdir()) == ["my-scaling-one", "my-scaling-two-more"]
