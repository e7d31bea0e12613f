"""Real builds in processes of their own. They see no GPU, so that they bake the same wherever they run."""

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from filelock import FileLock

from pretuned.compile import host
from pretuned.config import read_settings

ROOT = Path(__file__).parents[2]
SETTINGS = ("PRETUNED_", "PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "HATCH_", "CUDA_VISIBLE_DEVICES")
BUILD_TOOLS = ("hatchling", "editables", "setuptools")  # what builds of small projects ask for, besides pretuned
FOUND = ("pip", "wheel")  # what projects as they are found have besides, in any version
UV = Path(sys.executable).with_name("uv")  # makes and fills environments in a tenth of the time that pip takes


def environment(**changes):
    """The environment without what would change a build, and without a visible GPU."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    return kept | {"CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "default"} | changes


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Run a command in a folder and return what it printed; a status other than `status` fails the test.

    Its user cache is new in each session.
    """
    cache = str(tmp_path_factory.mktemp("user-cache"))

    def call(*command, cwd, status=0, **changes):
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env=environment(**{"PRETUNED_CACHE_DIR": cache} | changes),
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
def once(tmp_path_factory):
    """Return the folder that `make` filled, in whichever process of the test session asks first."""

    def folder_of(name, make):
        shared = tmp_path_factory.getbasetemp()
        shared = shared.parent if os.environ.get("PYTEST_XDIST_WORKER") else shared
        folder = shared / name
        with FileLock(shared / f"{name}.lock"):
            if not folder.exists():
                unfinished = Path(f"{folder}.unfinished")
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir()
                make(unfinished)
                unfinished.rename(folder)
        return folder

    return folder_of


@pytest.fixture(scope="session")
def developers_cache():
    """Return the variable that names the user cache of whoever runs the tests: the bundled kernels are compiled there.

    An editable install has done that, and pretuned's own wheel takes 20 seconds without.
    """
    folder = read_settings().cache
    return {} if folder is None else {"PRETUNED_CACHE_DIR": str(folder)}


@pytest.fixture(scope="session")
def own_wheel(hatchling, once, developers_cache):
    """pretuned's own wheel, built from this tree."""
    (wheel,) = once("own", lambda folder: hatchling(ROOT, "wheel", folder, **developers_cache)).glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def offline(own_wheel, once, run):
    """Return the variables that have pip and uv install from a folder alone: pretuned and what building with it takes.

    The folder is filled once a session, with the versions that this environment has.
    """

    def fill(folder):
        tools = [f"{name}=={version(name)}" for name in BUILD_TOOLS]
        run(sys.executable, "-m", "pip", "download", "--quiet", "--dest", folder, own_wheel, *tools, *FOUND, cwd=folder)

    wheels = str(once("wheels", fill))
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_COMPILE": "1"}
    uv = {"UV_OFFLINE": "1", "UV_FIND_LINKS": wheels, "UV_NO_CONFIG": "1"}
    return pip | uv | {"UV_PYTHON_DOWNLOADS": "never", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@pytest.fixture(scope="session")
def own_python(own_wheel, offline, once, run):
    """Return the interpreter of an environment with pretuned's own wheel and build tools, and nothing of CUDA."""

    def make(folder):
        variables = offline | {"UV_CACHE_DIR": str(folder / "cache")}
        run(UV, "venv", "--python", sys.executable, "venv", cwd=folder, **variables)
        python = ("--python", folder / "venv" / "bin" / "python")
        run(UV, "pip", "install", *python, own_wheel, *BUILD_TOOLS, cwd=folder, **variables)

    return once("own-environment", make) / "venv" / "bin" / "python"


@pytest.fixture(scope="session")
def fake_driver(once):
    """Return the variables that show a build a driver with an H100; `FAKE_CUDA_VERSION` is 13000 for CUDA 13.0."""
    compiler = host.compiler()
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C++ compiler here")
    source = Path(__file__).with_name("fake_libcuda.cpp")

    def make(folder):
        subprocess.run([compiler.path, "-shared", "-fPIC", source, "-o", folder / "libcuda.so.1"], check=True)

    return {"LD_LIBRARY_PATH": str(once("driver", make))}


@pytest.fixture(scope="session")
def bare_python(run, tmp_path_factory):
    """Return the interpreter of a new virtual environment with these wheels and nothing else."""

    def create(*wheels):
        folder = tmp_path_factory.mktemp("bare")
        variables = {"UV_CACHE_DIR": str(folder / "cache"), "UV_OFFLINE": "1", "UV_NO_CONFIG": "1"}
        run(UV, "venv", "--python", sys.executable, "venv", cwd=folder, **variables)
        python = folder / "venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        run(UV, "pip", "install", "--no-deps", "--python", python, *wheels, cwd=folder, **variables)
        return python

    return create


@pytest.fixture
def minimal(minimal_for, tmp_path):
    """A copy of tests/projects/minimal that asks for this tree's pretuned."""
    return minimal_for("hatch", tmp_path / "minimal")


@pytest.fixture(scope="session")
def minimal_for(own_wheel):
    """Copy tests/projects/minimal to a folder, with the pyproject.toml for `hatch` or for `setuptools`."""

    def copy(front_end, project):
        shutil.copytree(ROOT / "tests" / "projects" / "minimal", project)
        table = project / "pyproject.toml"
        if front_end == "setuptools":
            shutil.copyfile(ROOT / "tests" / "projects" / "setuptools.toml", table)
        table.write_text(table.read_text().replace("file:PRETUNED_WHEEL", own_wheel.as_uri()))
        return project

    return copy


@pytest.fixture(scope="session")
def contents():
    """Return a wheel's files but for its metadata."""

    def read(wheel):
        with zipfile.ZipFile(wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}

    return read
