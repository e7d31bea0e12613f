"""The Hatch adapter in real Hatch builds; what it adapts to, the core, is replaced by canned packages."""

import gc
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from pretuned.build import core
from pretuned.build.requirements import Installed, Needs
from pretuned.device.probe import DriverVersion
from pretuned.errors import LockError
from pretuned.files import temporary
from pretuned.tune.events import Waiting
from progress_events import DEVICE, KERNEL, SMALL, passed, planned

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "demo"
version = "1.0"
requires-python = ">=3.11"

[tool.hatch.build]
exclude = ["/secret.txt"]
dev-mode-dirs = ["src"]

[tool.hatch.build.hooks.custom]
module = "src/demo/tuned"
"""
SCRIPT = """\
from pretuned.frontends.hatch_hook import PretunedBuildHook


def get_build_hook():
    return PretunedBuildHook
"""
GENERATED = {
    "__init__.py": b"FRESH = True\n",
    "_runtime/__init__.py": b"",
    "kernels/sm_90/one.cubin": b"\x7fELF\0",
}
IN_WHEEL = {f"demo/tuned/{name}": content for name, content in GENERATED.items()}
IN_SOURCES = {f"src/demo/tuned/{name}": content for name, content in GENERATED.items()}


def write(root, files):
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())


def read(root):
    """The files of a project, without what Python keeps of `hatch_build.py`, which Hatch imports."""
    files = [file for file in root.rglob("*") if file.is_file() and file.parent != root / "__pycache__"]
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


@pytest.fixture
def project(tmp_path, monkeypatch):
    root = tmp_path / "project"
    write(
        root,
        {
            "pyproject.toml": PYPROJECT,
            "hatch_build.py": SCRIPT,
            "secret.txt": "",
            "src/demo/__init__.py": "",
            "kernels/one.toml": "format = 1\n",
            "kernels/one.cu.jinja": "",
            "kernels/parts/two.cuh.jinja": "",
            "kernels/__pycache__/reference.cpython-311.pyc": b"",
            "pretuned.lock.json": "{}\n",
        },
    )
    bake(monkeypatch, core.Baked(module="src/demo/tuned", files=GENERATED))
    return root


def bake(monkeypatch, *packages):
    monkeypatch.setattr(core, "bake_project", lambda project, settings, reporter, listen: packages)


def wheel(root, version="standard"):
    (artifact,) = WheelBuilder(str(root)).build(directory=str(root.parent / "dist"), versions=[version])
    with zipfile.ZipFile(artifact) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}, Path(artifact)


def sdist(root):
    (artifact,) = SdistBuilder(str(root)).build(directory=str(root.parent / "dist"))
    with tarfile.open(artifact) as archive:
        return [name.removeprefix("demo-1.0/") for name in archive.getnames()]


def test_a_wheel_has_the_package_and_the_source_tree_does_not(project):
    before = read(project)
    files, artifact = wheel(project)
    assert files == {"demo/__init__.py": b"", **IN_WHEEL}
    assert artifact.name == "demo-1.0-py3-none-any.whl"
    assert read(project) == before


def test_several_modules_go_into_one_wheel(project, monkeypatch):
    table = '[[tool.hatch.build.hooks.custom.modules]]\nmodule = "src/demo/{}"\n'
    text = PYPROJECT.partition("[tool.hatch.build.hooks.custom]")[0] + table.format("one") + table.format("two")
    write(project, {"pyproject.toml": text})
    bake(monkeypatch, *(core.Baked(module=f"src/demo/{name}", files=GENERATED) for name in ("one", "two")))
    files, _ = wheel(project)
    assert {name for name in files if name.endswith(".cubin")} == {
        "demo/one/kernels/sm_90/one.cubin",
        "demo/two/kernels/sm_90/one.cubin",
    }


def with_table(project, text):
    """Have the entry point's hook in place of the project's own."""
    write(project, {"pyproject.toml": PYPROJECT.partition("[tool.hatch.build.hooks.custom]")[0] + text})


def test_a_table_of_one_target_goes_before_the_common_one(project, capsys):
    common = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\nmode = "locked"\n'
    own = '[tool.hatch.build.targets.wheel.hooks.pretuned]\nmodule = "src/demo/tuned"\n'
    with_table(project, common + own)
    assert wheel(project)[0] == {"demo/__init__.py": b"", **IN_WHEEL}
    with_table(project, common + own + 'mode = "lock"\n')
    with pytest.raises(SystemExit):
        wheel(project)
    assert 'pyproject.toml: tool.hatch.build.targets.wheel.hooks.pretuned.mode: is "lock"' in capsys.readouterr().err


def test_a_table_of_the_wheel_alone_leaves_the_sdist_to_hatch(project, monkeypatch):
    with_table(project, '[tool.hatch.build.targets.wheel.hooks.pretuned]\nmodule = "src/demo/tuned"\n')
    write(project, {".gitignore": "/kernels/parts/\n"})
    names = sdist(project)
    assert "kernels/one.toml" in names
    assert "kernels/parts/two.cuh.jinja" not in names


def test_a_hook_that_is_off_by_default_is_switched_on_by_the_environment(project, monkeypatch):
    with_table(project, '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\nenable-by-default = false\n')
    assert wheel(project)[0] == {"demo/__init__.py": b""}
    monkeypatch.setenv("HATCH_BUILD_HOOK_ENABLE_PRETUNED", "true")
    assert wheel(project)[0] == {"demo/__init__.py": b"", **IN_WHEEL}


def test_two_tables_end_the_build(project, capsys):
    with_table(project, '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\n[tool.pretuned]\nmodule = "a"\n')
    with pytest.raises(SystemExit):
        wheel(project)
    assert "[tool.pretuned] is here too, and a project has one of the two" in capsys.readouterr().err


def test_the_same_project_gives_the_same_bytes(project):
    assert wheel(project)[1].read_bytes() == wheel(project)[1].read_bytes()


def test_no_temporary_folder_outlives_a_build(project, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    wheel(project)
    gc.collect()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_editable_install_has_the_package_in_the_source_tree(project):
    before = read(project)
    wheel(project, "editable")
    assert read(project) == {**before, **IN_SOURCES}


def test_a_package_of_an_editable_install_does_not_reach_a_wheel_or_an_sdist(project):
    write(project, {"src/demo/tuned/__init__.py": "STALE = True\n", "src/demo/tuned/_runtime/stale.py": ""})
    assert wheel(project)[0] == {"demo/__init__.py": b"", **IN_WHEEL}
    assert not [name for name in sdist(project) if "/tuned/" in name]


@pytest.mark.parametrize(
    "selection", ["", '[tool.hatch.build.targets.sdist]\nonly-include = ["src", "kernels"]\n', "ignored"]
)
def test_an_sdist_has_once_all_that_a_wheel_is_built_from(project, selection, monkeypatch):
    if selection == "ignored":
        write(project, {".gitignore": "/kernels/\n*.json\n"})
    else:
        write(project, {"pyproject.toml": PYPROJECT + selection})
    monkeypatch.delattr(core, "bake_project")  # which an sdist never needs
    names = sdist(project)
    assert len(names) == len(set(names))
    assert {
        "hatch_build.py",
        "kernels/one.toml",
        "kernels/one.cu.jinja",
        "kernels/parts/two.cuh.jinja",
        "pretuned.lock.json",
        "src/demo/__init__.py",
    } <= set(names)
    assert not [name for name in names if name.endswith(".pyc")]
    assert "secret.txt" not in names, "the project's own exclude still holds"


def test_what_bakes_have_half_written_ships_with_nothing(project):
    left = project / "src" / "demo" / ".tuned.writing-12345678"  # by one that was killed
    write(left, {"new/kernels/one.cubin": b"half"})
    with temporary(project / "src" / "demo" / "tuned", folder=True) as beside:  # by one that is at work
        write(beside, {"new/kernels/one.cubin": b"half"})
        assert not [name for name in [*sdist(project), *wheel(project)[0]] if "writing" in name]
        assert (left.exists(), beside.exists()) == (False, True)


def test_what_must_be_installed_first(project, monkeypatch):
    monkeypatch.setattr(core, "compile_needs", lambda project, settings: Needs(compile=True, compiler="13.0.88"))
    monkeypatch.setattr(core.probe, "driver", lambda: DriverVersion(version="580.159.04", cuda=(13, 0)))
    monkeypatch.setattr(core, "installed", lambda _packages=(): Installed(distributions={}))
    assert WheelBuilder(str(project)).config.dependencies == [
        "cupy-cuda13x>=14",
        "nvidia-cuda-nvrtc==13.0.88",
        "nvidia-cuda-runtime==13.0.*",
    ]
    assert SdistBuilder(str(project)).config.dependencies == []


@pytest.mark.parametrize(("asked", "shown"), [("", True), ("plain", True), ("off", False)])
def test_a_tuning_in_a_build_shows_its_progress_in_lines(project, monkeypatch, capsys, asked, shown):
    def tuning(project, settings, reporter, listen):
        for event in (Waiting(device=DEVICE), planned(), passed(SMALL)):
            listen(event)
        return ()

    monkeypatch.setattr(core, "bake_project", tuning)
    monkeypatch.setenv("PRETUNED_PROGRESS", asked)
    wheel(project)
    plan = "4 rows of 2 kernels to tune: 12 configurations, at most 12 sources, about 40 s of a budget of 60 s\n"
    line = f"{KERNEL}: cols=1024, rows=4096, T=float32: skipped: takes 99 GB\n"
    assert capsys.readouterr().err == (plan + line if shown else "")  # that it waits, the build reports itself


def test_our_errors_end_the_build_without_a_traceback(project, monkeypatch, capsys):
    def fail(project, settings, reporter, listen):
        reporter.info("tuning one")
        raise LockError("pretuned.lock.json: row 3 is stale")

    monkeypatch.setattr(core, "bake_project", fail)
    with pytest.raises(SystemExit) as caught:
        wheel(project)
    assert caught.value.code == 4
    assert capsys.readouterr().err == "tuning one\npretuned.lock.json: row 3 is stale\n"


def test_a_bad_table_ends_the_build_before_anything_is_installed(project, capsys):
    write(project, {"pyproject.toml": PYPROJECT + 'mode = "lock"\n'})
    with pytest.raises(SystemExit) as caught:
        _ = WheelBuilder(str(project)).config.dependencies
    assert caught.value.code == 3
    assert capsys.readouterr().err == (
        "invalid configuration (1 problem):\n"
        '  pyproject.toml: tool.hatch.build.hooks.custom.mode: is "lock"; '
        "expected 'auto', 'locked', 'force' or 'off'; did you mean 'locked'?\n"
    )


def test_a_module_over_hand_written_files_ends_the_build(project, capsys):
    write(project, {"src/demo/tuned/__init__.py": "mine = True\n"})
    for version in ("standard", "editable"):
        with pytest.raises(SystemExit):
            wheel(project, version)
        assert "holds files that pretuned did not generate" in capsys.readouterr().err
    assert (project / "src/demo/tuned/__init__.py").read_text() == "mine = True\n"


def test_the_hook_runs_before_its_dependencies_are_installed():
    code = (
        "import sys, pretuned.frontends.hatch_hook\n"
        "assert not {'cupy', 'numpy', 'ml_dtypes', 'rich', 'cuda'} & sys.modules.keys(), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
