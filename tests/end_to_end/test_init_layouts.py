"""`pretuned init` in projects as they are found: what a user types, from a clean environment to an imported kernel."""

import sys
import time

import pytest

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
IMPORT = "from demo_project.tuned import axpy; print(axpy.__doc__.splitlines()[0])"


@pytest.fixture(scope="module")
def venv(run, own_wheel, tmp_path_factory):
    """The commands of a new virtual environment with pretuned, and how long it took to make."""
    folder = tmp_path_factory.mktemp("user") / "venv"
    begin = time.monotonic()
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    run(folder / "bin" / "pip", "install", own_wheel, cwd=folder.parent)
    return folder / "bin", time.monotonic() - begin


@pytest.mark.skipif(sys.platform == "win32", reason="commands as they are typed on Linux")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_from_init_to_an_import(layout, venv, run, tmp_path, record_property):
    files, package, what = LAYOUTS[layout]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    folder, made_s = venv
    record_property("figure", f"init, environment with pretuned: {made_s:.1f} s")
    changes = {"PATH": f"{folder}:/usr/bin:/bin"}

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
    assert "left: kernels/ has specs (axpy.toml)" in run("pretuned", "init", cwd=tmp_path, **changes)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    run("pip", "uninstall", "--yes", "demo-project", cwd=tmp_path, **changes)
