"""A small project through every way of building it with Hatch, in real processes."""

import shutil
import sys
import tarfile

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
    run(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", minimal, cwd=tmp_path)
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

    pip = ("-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path / "pip", minimal)
    run(sys.executable, *pip, cwd=tmp_path)
    (again,) = (tmp_path / "pip").glob("*.whl")
    assert contents(again) == files, "from the tree and by pip it is the same package as from the sdist and by build"


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
        "  pyproject.toml: tool.hatch.build.hooks.pretuned.mode: is 'lock'; "
        "expected 'auto', 'locked', 'force' or 'off'; did you mean 'locked'?\n"
    )
