"""`pretuned init` in projects as they are found: what a user types, from a clean environment to an imported kernel."""

import sys
import time
from pathlib import Path

import pytest

UV = Path(sys.executable).with_name("uv")
HATCH = """\
[build-system]
requires = ["hatchling>=1.27"]  # the back end
build-backend = "hatchling.build"

[project]
name = "demo-project"
version = "1.0"
requires-python = ">=3.11"
"""
SETUP_CFG = """\
[metadata]
name = demo-project
version = 1.0

[options]
package_dir =
    =src
packages = find:

[options.packages.find]
where = src
"""
SYSTEM = '[build-system]\nrequires = [\n    "setuptools>=64",\n    "wheel",\n]\n'
# Files of a project by its layout, its package, and how it is installed: from a flat layout's folder Python imports the
# sources themselves, which only an editable install completes.
LAYOUTS = {
    "hatch flat": ({"pyproject.toml": HATCH, "demo_project/__init__.py": ""}, "demo_project", ("-e", ".")),
    "hatch src": ({"pyproject.toml": HATCH, "src/demo_project/__init__.py": ""}, "src/demo_project", (".",)),
    "setuptools setup.cfg": (
        {"pyproject.toml": SYSTEM, "setup.cfg": SETUP_CFG, "src/demo_project/__init__.py": ""},
        "src/demo_project",
        (".",),
    ),
}
ALWAYS = "hatch src"  # each build takes a whole CUDA compiler from the index
IMPORT = "from demo_project.tuned import axpy; print(axpy.__doc__.splitlines()[0])"


@pytest.fixture
def venv(run, own_wheel, offline, once, tmp_path_factory):
    """The commands of a new virtual environment with pip and pretuned; its files are unpacked once a session."""
    cache = once("user-environments", lambda _folder: None)
    folder = tmp_path_factory.mktemp("user")
    variables = offline | {"UV_CACHE_DIR": str(cache)}
    run(UV, "venv", "--python", sys.executable, "venv", cwd=folder, **variables)
    python = ("--python", folder / "venv" / "bin" / "python")
    run(UV, "pip", "install", *python, own_wheel, "pip", cwd=folder, **variables)
    return folder / "venv" / "bin"


@pytest.mark.skipif(sys.platform == "win32", reason="commands as they are typed on Linux")
@pytest.mark.parametrize(
    "layout", [ALWAYS, *(pytest.param(name, marks=pytest.mark.slow) for name in LAYOUTS if name != ALWAYS)]
)
def test_from_init_to_an_import(layout, venv, run, tmp_path, record_property):
    files, package, what = LAYOUTS[layout]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    changes = {"PATH": f"{venv}:/usr/bin:/bin"}

    def typed(*command):
        begin = time.monotonic()
        said = run(*command, cwd=tmp_path, **changes)
        record_property("figure", f"init, {layout}: {' '.join(command)}: {time.monotonic() - begin:.1f} s")
        return said

    said = typed("pretuned", "init")
    assert f'module = "{package}/tuned"' in (tmp_path / "pyproject.toml").read_text()
    assert "cannot be edited" not in said
    typed("pip", "install", *what)
    assert typed("python", "-c", IMPORT) == "out = a * x + y.\n"
    found = run("pretuned", "inspect", "demo_project.tuned", cwd=tmp_path, **changes)
    assert "every file is as it was baked" in found
    assert "compute_80 ptx" in found
    assert (tmp_path / package / "tuned").exists() == (what[0] == "-e"), "only an editable install is in the sources"
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert "kernels/: has specs (axpy.toml)" in run("pretuned", "init", cwd=tmp_path, **changes)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
