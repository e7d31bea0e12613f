"""A small project in real processes, and the examples that have a front end of their own."""

import shutil
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = (Path(sys.executable).with_name("uv"),)

IMPORT = """\
import sys
import minimal.tuned
heavy = {"pretuned", "cupy", "numpy", "json", "dataclasses"} & sys.modules.keys()
assert not heavy, heavy
print(minimal.tuned.scale.__name__)
"""


def names(files, suffix):
    return sorted(name for name in files if name.endswith(suffix))


def test_an_isolated_build_gives_an_sdist_and_a_package_that_stands_alone(
    minimal, run, contents, bare_python, tmp_path
):
    """uv fills the environments, in a tenth of the time that pip takes; test_init_layouts.py has pip."""
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", tmp_path / "dist", minimal, cwd=tmp_path)
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = {name.removeprefix("minimal-1.0/") for name in archive.getnames()}
    assert {"kernels/scale.toml", "kernels/scale.cu.jinja", "kernels/reference.py"} <= members
    assert not [name for name in members if name.startswith("src/minimal/tuned")]

    (wheel,) = (tmp_path / "dist").glob("*.whl")
    files = contents(wheel)
    assert "minimal/tuned/__init__.py" in files
    assert names(files, ".cubin")
    assert wheel.name == "minimal-1.0-py3-none-any.whl"
    assert run(bare_python(wheel), "-I", "-c", IMPORT, cwd=tmp_path) == "scale\n"

    run(*UV, "build", "--wheel", "--python", sys.executable, "--out-dir", tmp_path / "uv", minimal, cwd=tmp_path)
    (again,) = (tmp_path / "uv").glob("*.whl")
    assert contents(again) == files, "from the tree and by uv it is the same package as from the sdist and by build"


DECLARED = """\
import tomllib
from pathlib import Path

import pretuned

document = tomllib.loads(Path("scale.in").read_text())
kernels = [pretuned.kernel("scale", **document)]
"""


@pytest.mark.slow
def test_a_kernel_that_is_declared_in_python_gives_the_same_wheel_in_an_isolated_build(
    minimal, hatchling, run, contents, tmp_path
):
    from_file = contents(hatchling(minimal, "wheel", tmp_path / "file"))
    (minimal / "kernels" / "scale.toml").rename(minimal / "kernels" / "scale.in")
    (minimal / "kernels" / "declared.py").write_text(DECLARED)
    table = minimal / "pyproject.toml"
    table.write_text(table.read_text() + 'declarations = "kernels/declared.py"\n')

    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", tmp_path / "dist", minimal, cwd=tmp_path)
    (sdist,), (wheel,) = (tmp_path / "dist").glob("*.tar.gz"), (tmp_path / "dist").glob("*.whl")
    with tarfile.open(sdist) as archive:
        assert {"minimal-1.0/kernels/declared.py", "minimal-1.0/kernels/scale.in"} <= set(archive.getnames())
    assert contents(wheel) == from_file
    assert not list(minimal.rglob("__pycache__"))

    editable = "import hatchling.build; hatchling.build.build_editable('../editable')"
    (tmp_path / "editable").mkdir()
    run(sys.executable, "-c", editable, cwd=minimal)
    assert (minimal / "src" / "minimal" / "tuned" / "__init__.py").read_bytes() == from_file[
        "minimal/tuned/__init__.py"
    ]


def test_an_editable_install_and_the_wheel_after_it(minimal, hatchling, run, contents, tmp_path):
    wheel = contents(hatchling(minimal, "wheel", tmp_path / "before"))
    assert not (minimal / "src" / "minimal" / "tuned").exists(), "building a wheel writes nothing into the sources"

    editable = "import hatchling.build; print(hatchling.build.build_editable('../editable'))"
    (tmp_path / "editable").mkdir()
    run(sys.executable, "-c", editable, cwd=minimal)
    package = {
        f"minimal/{file.relative_to(minimal / 'src' / 'minimal').as_posix()}": file.read_bytes()
        for file in (minimal / "src" / "minimal").rglob("*")
        if file.is_file()
    }
    assert package == wheel
    imported = "import minimal.tuned; print(minimal.tuned.__file__)"
    assert str(minimal) in run(sys.executable, "-c", imported, cwd=minimal / "src")

    shutil.rmtree(minimal / "src" / "minimal" / "__pycache__", ignore_errors=True)
    assert contents(hatchling(minimal, "wheel", tmp_path / "after")) == wheel


def test_the_same_sources_give_the_same_bytes(minimal, hatchling, tmp_path):
    elsewhere = tmp_path / "else" / "where"
    shutil.copytree(minimal, elsewhere)
    one = hatchling(minimal, "wheel", tmp_path / "one", PYTHONHASHSEED="1")
    two = hatchling(elsewhere, "wheel", tmp_path / "two", PYTHONHASHSEED="2")
    assert one.read_bytes() == two.read_bytes()


def test_locked_without_a_lock_ends_the_build_with_our_message(minimal, run, tmp_path):
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist")
    output = run(*command, cwd=minimal, status=4, PRETUNED_MODE="locked")
    assert "pretuned.lock.json" in output
    assert "Traceback" not in output


def test_a_bad_table_ends_the_build_with_our_message(minimal, run, tmp_path):
    table = minimal / "pyproject.toml"
    table.write_text(table.read_text() + 'mode = "lock"\n')
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist")
    assert run(*command, cwd=minimal, status=3) == (
        "invalid configuration (1 problem):\n"
        '  pyproject.toml: tool.hatch.build.hooks.pretuned.mode: is "lock"; '
        "expected 'auto', 'locked', 'force' or 'off'; did you mean 'locked'?\n"
    )


def copied(name, folder):
    """Copy an example, but for what a build of it may have left there."""
    left = shutil.ignore_patterns("tuned", "build", "dist", "*.egg-info", ".venv", "uv.lock", "__pycache__")
    return shutil.copytree(ROOT / "examples" / name, folder / name, ignore=left)


DEVICE = "import sys; from {0} import tuned; assert 'pretuned' not in sys.modules; print(*tuned.DEVICES)"


def test_the_setuptools_example(run, contents, bare_python, tmp_path):
    """Locked: every row is fresh, and every cubin the one that was measured."""
    example = copied("setuptools", tmp_path)
    pip = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path / "dist")
    run(*pip, example, cwd=tmp_path, PRETUNED_MODE="locked")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.name == "blend-0.1.0-py3-none-any.whl"
    files = contents(wheel)
    assert {"blend/__main__.py", "blend/tuned/__init__.py"} <= files.keys()
    assert names(files, ".sm_90.cubin")
    assert names(files, ".sm_80.cubin")
    assert run(bare_python(wheel), "-I", "-c", DEVICE.format("blend"), cwd=tmp_path) == "NVIDIA H100 80GB HBM3\n"
    assert not (example / "src" / "blend" / "tuned").exists()


@pytest.mark.slow
def test_the_uv_workspace(run, own_wheel, offline, contents, tmp_path):
    """What compiles the kernels is here, but not for uv: it needs nothing of that, once they are in the user cache."""
    example = copied("uv-workspace", tmp_path)
    table = example / "pyproject.toml"
    assert '{ path = "../.." }' in table.read_text()
    table.write_text(table.read_text().replace("../..", str(own_wheel)))
    matrices = example / "packages" / "matrices"
    variables = offline | {"UV_CACHE_DIR": str(tmp_path / "uv"), "PRETUNED_CACHE_DIR": str(tmp_path / "cache")}
    run(
        sys.executable,
        "-m",
        "pretuned",
        "bake",
        "--output",
        tmp_path,
        cwd=matrices,
        **variables,
        PRETUNED_MODE="locked",
    )
    baked = inside(tmp_path / "src" / "matrices" / "tuned")

    python = ("--python", sys.executable)
    run(*UV, "sync", "--all-packages", *python, cwd=example, **variables)
    synced = inside(matrices / "src" / "matrices" / "tuned")
    assert {name for name in synced if name.startswith("kernels/")} == {n for n in baked if n.startswith("kernels/")}
    code = "import app; " + DEVICE.format("matrices")
    assert run(example / ".venv" / "bin" / "python", "-I", "-c", code, cwd=tmp_path) == "NVIDIA H100 80GB HBM3\n"

    told = run(*UV, "sync", "--all-packages", *python, cwd=example, **variables)
    assert "matrices" not in told, "nothing has changed"
    spec = matrices / "kernels" / "transpose.toml"
    spec.write_text(spec.read_text() + "# changed\n")
    told = run(*UV, "sync", "--all-packages", *python, cwd=example, **variables)
    assert "~ matrices==0.1.0" in told

    run(*UV, "build", "--package", "matrices", *python, cwd=example, **variables)
    (wheel,) = (example / "dist").glob("*.whl")
    built = {name: content for name, content in contents(wheel).items() if name.startswith("matrices/tuned/")}
    assert built == {f"matrices/tuned/{name}": content for name, content in synced.items()}


def inside(folder):
    files = [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
