"""Kernels that a module declares, in builds: the same package and lock as from a file, and what keeps a lock fresh."""

from __future__ import annotations

from dataclasses import replace

import pytest

from declaring import SCALE_MODULE, write_module
from pretuned.build.core import bake_project, sources
from pretuned.config import read_settings
from pretuned.errors import LockError, SpecError
from pretuned.frontends.registry import load_project
from project_home import TABLE, Home
from reported import Reported
from specs import write

DECLARED = TABLE + 'declarations = "kernels/declared.py"\n'


@pytest.fixture
def home(tmp_path, monkeypatch, capsys, compiled):
    """The project of `scale`, declared in Python, with the lock of the same kernel in a file."""
    found = Home(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(compiled))
    found.write(found.rows())
    return found


def declare(home, text=SCALE_MODULE):
    template = (home.root / "kernels" / "scale.cu.jinja").read_text()
    write_module(home.root / "kernels", text)
    (home.root / "kernels" / "scale.cu.jinja").write_text(template)
    (home.root / "pyproject.toml").write_text(DECLARED)


def baked(home, **changed):
    project = replace(load_project(home.root), **changed)
    (package,) = bake_project(project, read_settings(), Reported())
    return package.files


def test_a_declared_kernel_bakes_the_same_package_from_the_same_lock(home):
    from_file = baked(home, mode="locked")
    declare(home)
    assert baked(home, mode="locked") == from_file


def test_commands_take_declared_kernels(home):
    declare(home)
    status, out, _ = home.run("check", "--kernel", "scale")
    assert (status, out) == (0, "pretuned.lock.json: 4 rows for NVIDIA H100 80GB HBM3, all fresh\n")
    assert home.run("check", "--kernel", "scal")[2] == "error: there is no kernel 'scal'; did you mean 'scale'?\n"
    assert home.run("bake", "--output", "out")[0] == 0
    assert home.run("bake", "--output", "out", "--check")[0] == 0
    (home.root / "src" / "demo").mkdir(parents=True)
    (home.root / "src" / "demo" / "__init__.py").touch()
    assert "kernels/: has specs (declared.py), so no kernel was added" in home.run("init")[2]


def test_a_change_of_the_module_that_changes_no_kernel_makes_nothing_stale(home):
    before = baked(home, mode="locked")
    declare(home, "# another comment\n" + SCALE_MODULE.replace("1 << i for i in range(3)", "2**i for i in range(3)"))
    assert baked(home, mode="locked") == before


def test_a_space_that_another_machine_computes_otherwise_is_refused_by_mode_locked(home):
    assert dict(home.rows()[0].winner.configuration.values)["vec"] > 1
    declare(home, "import os\n" + SCALE_MODULE.replace("range(3)", "range(min(os.cpu_count(), 1))"))
    with pytest.raises(LockError, match="stale"):
        baked(home, mode="locked")


def test_check_refuses_a_module_that_declares_something_else_each_time(home):
    declare(home, "import random\n" + SCALE_MODULE.replace("[128, 256]", "[random.randrange(32, 128), 256]"))
    status, _, err = home.run("check")
    assert status == 2
    assert "declared.py:9 (scale): space.block[0]: is another one each time that the module is executed" in err


def test_faults_of_a_module_stop_a_build(home):
    declare(home, "kernels = []\n")
    with pytest.raises(SpecError, match="`kernels` is empty"):
        baked(home)


def test_an_sdist_carries_the_module_and_what_it_imports(home):
    declare(home, "import blocks\n" + SCALE_MODULE.replace("[128, 256]", "blocks.BLOCKS"))
    (home.root / "kernels" / "blocks.py").write_text("BLOCKS = [128, 256]\n")
    assert baked(home, mode="locked")
    names = {file.relative_to(home.root).as_posix() for file in sources(load_project(home.root))}
    assert {"kernels/declared.py", "kernels/blocks.py", "kernels/reference.py"} <= names


def test_a_name_in_another_module_of_the_project(home):
    declare(home)
    (home.root / "more").mkdir()
    write(home.root / "more")
    (home.root / "pyproject.toml").write_text(
        "[[tool.hatch.build.hooks.pretuned.modules]]\n"
        'module = "src/demo/tuned"\ndeclarations = "kernels/declared.py"\n'
        "[[tool.hatch.build.hooks.pretuned.modules]]\n"
        'module = "src/demo/more"\nkernels = "more"\n'
    )
    assert "scale.toml: a kernel of this name is in the module 'src/demo/tuned' too" in home.run("check")[2]
