"""Real builds in processes of their own. They see no GPU, so that they bake the same wherever they run."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = ("PRETUNED_", "PYTHONPATH", "PYTHONHASHSEED", "HATCH_", "CUDA_VISIBLE_DEVICES")


def environment(**changes):
    """The environment without what would change a build, and without a visible GPU."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    return kept | {"CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "default"} | changes


@pytest.fixture(scope="session")
def run():
    """Run a command in a folder and return what it printed; a status other than `status` fails the test."""

    def call(*command, cwd, status=0, **changes):
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env=environment(**changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == status, f"{command} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    return call


@pytest.fixture(scope="session")
def hatchling(run):
    """Build a project's target with this environment's hatchling and return the artifact."""

    def build(project, target, into, **changes):
        run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", into, cwd=project, **changes)
        (artifact,) = into.glob("*.tar.gz" if target == "sdist" else "*.whl")
        return artifact

    return build


@pytest.fixture(scope="session")
def own_wheel(hatchling, tmp_path_factory):
    """pretuned's own wheel, built from this tree."""
    return hatchling(ROOT, "wheel", tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="session")
def bare_python(run, tmp_path_factory):
    """Return the interpreter of a new virtual environment with these wheels and nothing else."""

    def create(*wheels):
        folder = tmp_path_factory.mktemp("bare") / "venv"
        run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
        python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        run(python, "-m", "pip", "install", "--no-deps", "--no-index", *wheels, cwd=folder.parent)
        return python

    return create


@pytest.fixture
def minimal(own_wheel, tmp_path):
    """A copy of tests/projects/minimal that asks for this tree's pretuned."""
    project = tmp_path / "minimal"
    shutil.copytree(ROOT / "tests" / "projects" / "minimal", project)
    table = project / "pyproject.toml"
    table.write_text(table.read_text().replace("file:PRETUNED_WHEEL", own_wheel.as_uri()))
    return project


@pytest.fixture(scope="session")
def contents():
    """Return a wheel's files but for its metadata."""

    def read(wheel):
        with zipfile.ZipFile(wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}

    return read
