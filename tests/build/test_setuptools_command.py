"""The setuptools adapter in real setuptools builds; what it adapts to, the core, is replaced by canned packages."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from setuptools import Distribution, build_meta

from pretuned import backend
from pretuned.build import core
from pretuned.build.requirements import Installed, Needs
from pretuned.config.project import import_path
from pretuned.device.probe import DriverVersion
from pretuned.errors import DeviceError, LockError
from pretuned.frontends import setuptools_entry as entry_point
from progress_events import planned

PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "1.0"
"""
TABLE = """\
[tool.pretuned]
module = "src/demo/tuned"
"""
GENERATED = {
    "__init__.py": b"FRESH = True\n",
    "_runtime/__init__.py": b"",
    "kernels/sm_90/one.cubin": b"\x7fELF\0",
}
SOURCES = {
    "kernels/one.toml": "format = 1\n",
    "kernels/one.cu.jinja": "",
    "kernels/parts/two.cuh.jinja": "",
    "pretuned.lock.json": "{}\n",
}
SRC_LAYOUT = {"src/demo/__init__.py": "", "src/demo/data.txt": "", "src/demo/sub/__init__.py": ""}
SETUP_CFG = "[metadata]\nname = demo\nversion = 1.0\n[options]\npackage_dir =\n    = src\npackages = find:\n"
SETUP_CFG += "[options.packages.find]\nwhere = src\n"
SETUP_PY = "from setuptools import setup\n"
SETUP_PY += "setup(name='demo', version='1.0', packages=['demo', 'demo.sub'], package_dir={'demo': 'src/demo'})\n"
LAYOUTS = {
    "pyproject.toml": {**SRC_LAYOUT, "pyproject.toml": PROJECT + TABLE},
    "setup.cfg": {**SRC_LAYOUT, "setup.cfg": SETUP_CFG, "pyproject.toml": TABLE},
    "setup.py": {**SRC_LAYOUT, "setup.py": SETUP_PY, "pyproject.toml": TABLE},
}


def write(root, files):
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())


def bake(monkeypatch, *packages):
    monkeypatch.setattr(core, "bake_project", lambda project, settings, reporter, listen: packages)


@pytest.fixture
def project(tmp_path, monkeypatch):
    root = tmp_path / "project"
    write(root, {**SOURCES, **LAYOUTS["pyproject.toml"]})
    (tmp_path / "dist").mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / "cache"))
    bake(monkeypatch, core.Baked(module="src/demo/tuned", files=GENERATED))
    return root


def wheel(build=build_meta.build_wheel, **settings):
    name = build("../dist", **settings)
    assert name.endswith("demo-1.0-py3-none-any.whl") or "editable" in name
    with zipfile.ZipFile(Path("../dist", name)) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def sdist():
    with tarfile.open(Path("../dist", build_meta.build_sdist("../dist"))) as archive:
        return {name.removeprefix("demo-1.0/") for name in archive.getnames()}


def moved(root, monkeypatch):
    """Go on in a copy of the project: setuptools remembers which folders it has made, as long as a process lives."""
    other = root.with_name("elsewhere")
    shutil.copytree(root, other)
    monkeypatch.chdir(other)


def in_source_tree(root):
    folder = root / "src" / "demo" / "tuned"
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


BAKED = {f"demo/tuned/{name}": content for name, content in GENERATED.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_wheel_has_the_package_and_the_source_tree_does_not(project, layout):
    (project / "pyproject.toml").unlink()
    write(project, LAYOUTS[layout])
    files = wheel()
    assert {name: content for name, content in files.items() if name.startswith("demo/tuned/")} == BAKED
    assert {"demo/__init__.py", "demo/sub/__init__.py"} <= files.keys()
    assert not (project / "src" / "demo" / "tuned").exists()
    assert {*SOURCES, "src/demo/__init__.py"} <= sdist()


def test_a_flat_layout(project, monkeypatch):
    flat = 'packages = ["demo"]\n'
    write(project, {"pyproject.toml": f'{PROJECT}[tool.setuptools]\n{flat}[tool.pretuned]\nmodule = "demo/tuned"\n'})
    write(project, {"demo/__init__.py": ""})
    bake(monkeypatch, core.Baked(module="demo/tuned", files=GENERATED))
    assert wheel() == {"demo/__init__.py": b"", **BAKED}


def test_several_modules_go_into_one_wheel(project, monkeypatch):
    table = '[[tool.pretuned.modules]]\nmodule = "src/demo/{}"\n'
    write(project, {"pyproject.toml": PROJECT + table.format("one") + table.format("two")})
    bake(monkeypatch, *(core.Baked(module=f"src/demo/{name}", files=GENERATED) for name in ("one", "two")))
    assert {name for name in wheel() if name.endswith(".cubin")} == {
        "demo/one/kernels/sm_90/one.cubin",
        "demo/two/kernels/sm_90/one.cubin",
    }


@pytest.mark.filterwarnings("ignore:Editable installation")  # how setuptools tells where its links are
@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_an_editable_install_has_the_package_in_the_source_tree(project, mode):
    wheel(build_meta.build_editable, config_settings={"editable_mode": mode})
    assert in_source_tree(project) == GENERATED
    if mode == "strict":
        (linked,) = project.glob("build/__editable__*/demo/tuned")
        assert {file.relative_to(linked).as_posix() for file in linked.rglob("*") if file.is_file()} == set(GENERATED)
        assert (linked / "__init__.py").samefile(project / "src/demo/tuned/__init__.py")


def test_a_package_of_an_editable_install_does_not_reach_a_wheel_or_an_sdist(project):
    write(project, {"src/demo/tuned/__init__.py": "STALE = True\n", "src/demo/tuned/_runtime/stale.py": ""})
    write(project, {"src/demo/tuned/py.typed": ""})
    write(project, {"MANIFEST.in": "include src/demo/data.txt\n"})
    assert not [name for name in sdist() if "/tuned" in name]
    files = wheel()
    assert {name: content for name, content in files.items() if name.startswith("demo/tuned/")} == BAKED
    assert "demo/data.txt" in files, "other data is still collected"


def test_a_second_build_replaces_the_package_in_the_build_folder(project, monkeypatch):
    bake(monkeypatch, core.Baked(module="src/demo/tuned", files={**GENERATED, "kernels/old.cubin": b""}))
    assert "demo/tuned/kernels/old.cubin" in wheel()
    moved(project, monkeypatch)
    bake(monkeypatch, core.Baked(module="src/demo/tuned", files=GENERATED))
    assert "demo/tuned/kernels/old.cubin" not in wheel()


COMMANDS = """\
from pathlib import Path

from setuptools.command.build import build


class Build(build):
    def run(self):
        super().run()
        Path("build", "ran").touch()
"""


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": f'{PROJECT}[tool.setuptools.cmdclass]\nbuild = "demo.commands.Build"\n{TABLE}'},
        {
            "pyproject.toml": TABLE,
            "setup.py": (
                "import runpy\nbuild = runpy.run_path('src/demo/commands.py')['Build']\n"
                f"{SETUP_PY[:-2]}, cmdclass={{'build': build}})\n"
            ),
        },
    ],
    ids=["pyproject.toml", "setup.py"],
)
def test_a_project_with_a_build_command_of_its_own(project, files):
    write(project, {"src/demo/commands.py": COMMANDS, **files})
    assert wheel().items() >= BAKED.items()
    assert (project / "build" / "ran").exists(), "its own command has run too"


def test_preparing_metadata_bakes_nothing(project, monkeypatch, tmp_path):
    monkeypatch.delattr(core, "bake_project")
    (tmp_path / "metadata").mkdir()
    assert build_meta.prepare_metadata_for_build_wheel("../metadata") == "demo-1.0.dist-info"
    assert build_meta.prepare_metadata_for_build_editable("../metadata") == "demo-1.0.dist-info"
    assert "pretuned.lock.json" in sdist()


def test_a_tuning_in_a_build_logs_its_progress(project, monkeypatch, caplog):
    def tuning(project, settings, reporter, listen):
        listen(planned())
        return ()

    monkeypatch.setattr(core, "bake_project", tuning)
    with caplog.at_level("INFO"):
        wheel()
    assert any(message.startswith("4 rows of 2 kernels to tune") for message in caplog.messages)


def test_our_errors_end_the_build_without_a_traceback(project, monkeypatch):
    def fail(project, settings, reporter, listen):
        raise LockError("pretuned.lock.json: row 3 is stale")

    monkeypatch.setattr(core, "bake_project", fail)
    for build in (build_meta.build_wheel, build_meta.build_editable):
        with pytest.raises(SystemExit, match=r"^error: pretuned\.lock\.json: row 3 is stale$"):
            wheel(build)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "setuptools.build_meta",
            '; with `build-backend = "pretuned.backend"` a build asks for what it needs by itself',
        ),
        ("pretuned.backend", ""),
    ],
)
def test_a_missing_compiler_names_the_back_end_that_asks_for_it(project, monkeypatch, name, hint):
    def fail(project, settings, reporter, listen):
        raise DeviceError("compiling needs CuPy and NVRTC")

    write(project, {"pyproject.toml": PROJECT.replace("setuptools.build_meta", name) + TABLE})
    monkeypatch.setattr(core, "bake_project", fail)
    with pytest.raises(SystemExit) as caught:
        wheel()
    assert str(caught.value) == f"error: compiling needs CuPy and NVRTC{hint}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            TABLE + 'mode = "lock"\n',
            (
                'invalid configuration (1 problem):\n  pyproject.toml: tool.pretuned.mode: is "lock"; '
                "expected 'auto', 'locked', 'force' or 'off'; did you mean 'locked'?"
            ),
        ),
        (
            TABLE.replace("src/demo", "demo"),
            None,
        ),
        (
            TABLE.replace("src/demo", "source/demo"),
            (
                "pyproject.toml: tool.pretuned: the module 'source/demo/tuned' would be installed into 'source.demo', "
                "which is not one of the packages that setuptools builds here (demo, demo.sub); correct `module`, or "
                "what [tool.setuptools] says of packages"
            ),
        ),
        (
            TABLE + '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\n',
            (
                "invalid configuration (1 problem):\n  pyproject.toml: tool.hatch.build.hooks.pretuned: "
                "[tool.pretuned] is here too, and a project has one of the two: keep "
                "[tool.hatch.build.hooks.pretuned] with Hatch, [tool.pretuned] with setuptools"
            ),
        ),
    ],
    ids=["a bad value", "a path that is installed as it is", "no package", "two tables"],
)
def test_a_table_with_faults(project, table, message):
    write(project, {"pyproject.toml": PROJECT + table})
    if message is None:
        assert wheel().keys() >= BAKED.keys()
        return
    with pytest.raises(SystemExit) as caught:
        wheel()
    assert str(caught.value) == f"error: {message}"


def test_a_module_over_hand_written_files_ends_the_build(project):
    write(project, {"src/demo/tuned/__init__.py": "mine = True\n"})
    for build in (build_meta.build_wheel, build_meta.build_editable):
        with pytest.raises(SystemExit, match="holds files that pretuned did not generate"):
            wheel(build)
    assert in_source_tree(project) == {"__init__.py": b"mine = True\n"}


def test_what_must_be_installed_first(project, monkeypatch):
    monkeypatch.setattr(core, "compile_needs", lambda project, settings: Needs(compile=True, compiler="13.0.88"))
    monkeypatch.setattr(core.probe, "driver", lambda: DriverVersion(version="580.159.04", cuda=(13, 0)))
    monkeypatch.setattr(core, "installed", lambda _packages=(): Installed(distributions={}))
    expected = ["cupy-cuda13x>=14", "nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.*"]
    assert backend.get_requires_for_build_wheel() == expected
    assert backend.get_requires_for_build_editable() == expected
    assert backend.get_requires_for_build_sdist() == []
    write(project, {"pyproject.toml": PROJECT})
    with pytest.raises(SystemExit, match=r"^error: invalid configuration"):
        backend.get_requires_for_build_wheel()


def test_the_back_end_builds_as_setuptools_does(project, monkeypatch):
    files = wheel(build_meta.build_wheel)
    moved(project, monkeypatch)
    assert wheel(backend.build_wheel) == files
    assert {name for name in dir(backend) if name.startswith(("build_", "get_req", "prepare_"))} - {
        "build_meta",
        "build_requirements",
    } == {name for name in dir(build_meta) if name.startswith(("build_", "get_req", "prepare_"))}


@pytest.mark.parametrize("table", ["", "[tool.pretune]\nx = 1\n", "# pretuned\n", "[tool", 'tool = "pretuned"\n'])
def test_nothing_happens_to_a_project_without_the_table(project, table):
    write(project, {"pyproject.toml": table})
    distribution = Distribution()
    assert "get_command_class" not in vars(distribution)
    entry_point.finalize(distribution)
    assert "get_command_class" not in vars(distribution)


def test_a_project_without_the_table_pays_for_nothing(tmp_path):
    """A setuptools project in an environment with pretuned: neither slower imports nor another command."""
    write(tmp_path, {"pyproject.toml": PROJECT, "src/demo/__init__.py": ""})
    code = (
        "import sys, setuptools; from pretuned.frontends.setuptools_entry import finalize\n"
        "distribution = setuptools.Distribution(); finalize(distribution)\n"
        "assert 'build_pretuned' not in distribution.get_command_class('build')(distribution).get_sub_commands()\n"
        "heavy = {'pydantic', 'jinja2', 'pretuned.build.core', 'cupy', 'numpy'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout == "[]\n"


@pytest.mark.parametrize(
    ("module", "package_dir", "expected"),
    [
        ("src/a/tuned", {"": "src"}, "a/tuned"),
        ("a/tuned", {}, "a/tuned"),
        ("a/tuned", {"": "."}, "a/tuned"),
        ("lib/tuned", {"a.b": "lib"}, "a/b/tuned"),
        ("lib/python/a/tuned", {"": "lib", "a": "lib/python/a"}, "a/tuned"),
        ("source/tuned", {"": "src"}, "source/tuned"),
    ],
)
def test_where_a_module_is_installed(module, package_dir, expected):
    assert import_path(module, package_dir).as_posix() == expected
