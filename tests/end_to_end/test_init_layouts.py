"""`pretuned init` in projects as they are found: what a user types, from a clean environment to an imported kernel."""

import sys
import time
import zipfile
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
NAMED = 'build-backend = "setuptools.build_meta"\n\n'
PROJECT = HATCH[HATCH.index("[project]") :]
# Files of a project by its layout, its package, and how it is installed: from a flat layout's folder Python imports the
# sources themselves, which only an editable install completes.
LAYOUTS = {
    "hatch src": ({"pyproject.toml": HATCH, "src/demo_project/__init__.py": ""}, "src/demo_project", (".",)),
    "setuptools flat": (
        {
            "pyproject.toml": SYSTEM + NAMED + PROJECT,
            "demo_project/__init__.py": "",
        },
        "demo_project",
        ("-e", "."),
    ),
    "setuptools setup.cfg": (
        {"pyproject.toml": SYSTEM, "setup.cfg": SETUP_CFG, "src/demo_project/__init__.py": ""},
        "src/demo_project",
        (".",),
    ),
}
# The same without a compiler: what a wheel has at its top.
WHEELS = {
    "setuptools flat": ({"pyproject.toml": SYSTEM + PROJECT, "demo_project/__init__.py": ""}, {"demo_project"}),
    "setuptools flat, packages.find": (
        {
            "pyproject.toml": f"{SYSTEM}{PROJECT}[tool.setuptools.packages.find]\n",
            "demo_project/__init__.py": "",
        },
        {"demo_project"},
    ),
    "setuptools src": ({"pyproject.toml": SYSTEM + PROJECT, "src/demo_project/__init__.py": ""}, {"demo_project"}),
    "setuptools module": (
        {"pyproject.toml": SYSTEM + PROJECT, "demo_project.py": ""},
        {"demo_project.py", "demo_project_tuned"},
    ),
    "setuptools module in src": (
        {"pyproject.toml": SYSTEM + PROJECT, "src/demo_project.py": ""},
        {"demo_project.py", "demo_project_tuned"},
    ),
    "no build system": ({"pyproject.toml": PROJECT, "demo_project/__init__.py": ""}, {"demo_project"}),
    "hatch flat": ({"pyproject.toml": HATCH, "demo_project/__init__.py": ""}, {"demo_project"}),
    "hatch module": ({"pyproject.toml": HATCH, "demo_project.py": ""}, {"demo_project.py", "demo_project_tuned"}),
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


@pytest.mark.slow
@pytest.mark.parametrize("layout", WHEELS)
def test_a_wheel_is_built_after_init_without_any_edit_by_hand(
    layout, own_python, run, offline, once, fake_driver, tmp_path
):
    """The driver is too old for CuPy, so that nothing is compiled and the isolated build needs pretuned alone.

    uv makes the environment of a build in a tenth of the time that pip takes; the tests above have pip.
    """
    files, expected = WHEELS[layout]
    project = tmp_path / "project"
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    cache = once("user-environments", lambda _folder: None)
    changes = {"FAKE_CUDA_VERSION": "11080", "UV_CACHE_DIR": str(cache), **fake_driver, **offline}
    said = run(own_python, "-m", "pretuned", "init", cwd=project, **changes)
    assert "cannot be edited" not in said
    run(UV, "build", "--wheel", "--python", sys.executable, "--out-dir", tmp_path, cwd=project, **changes)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == expected
    assert any("/kernels/axpy-" in name for name in names), "the generated package"
