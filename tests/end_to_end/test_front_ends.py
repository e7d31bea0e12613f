"""Every front end that people build with, on a machine with a GPU, a fresh lock and its cubins in the user cache.

All of it is real but for the GPU: a driver made for the test tells of an H100. A build that wanted to tune on it could
not, since nothing of CuPy can be installed, and would say so. Tunings and compilations are counted in the user cache,
where every outcome and every compiled module is kept.
"""

import re
import shutil
import sqlite3
import sys
import tarfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from builders import H100, rows, selections
from pretuned.bake.plan import plan
from pretuned.compile.nvrtc import installed_nvrtc
from pretuned.device import probe
from pretuned.record import lock as lockfile
from pretuned.record.cache import FILE, Cache
from pretuned.spec.loader import load_folder
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.spending import Spending

FRESH = "NVIDIA H100 80GB HBM3: every row of pretuned.lock.json is fresh; nothing to tune"
PIP = (sys.executable, "-m", "pip")
BUILD = (sys.executable, "-m", "build", "--installer", "uv")  # pip's environments are those of `pip wheel`
UV = (str(Path(sys.executable).with_name("uv")),)
PYTHON = ("--python", sys.executable)  # by option: Hatch runs uv too, and UV_PYTHON would be where it installs
HATCH = (str(Path(sys.executable).with_name("hatch")),)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the driver is a shared object")


@dataclass(frozen=True)
class Prepared:
    """A lock of the minimal project for an H100, a user cache with its cubins, and what a build makes of them."""

    lock: Path
    cache: Path
    package: dict


@pytest.fixture(scope="session")
def prepared(once, minimal_for, own_python, run):
    """Compile the few modules of the project, and bake it by command, once a session."""

    def make(folder):
        project = minimal_for("hatch", folder / "project")
        specs = load_folder(project / "kernels")
        compiler = installed_nvrtc()
        made, (rule,) = (
            [replace(entry, compiler=compiler) for entry in entries(specs["scale"])] for entries in (rows, selections)
        )
        planned = plan(specs, made, {H100.name: H100}, selections=[rule], architectures=["sm_80", "sm_90"])
        with Cache(folder / "cache") as cache, BinaryStore(cache, Spending()) as library:
            binaries = library.all(planned.jobs)
        *made, rule = (
            replace(entry, choices=tuple(named_after(binaries, planned.kernels[0], entry))) for entry in (*made, rule)
        )
        lock = lockfile.Lock().updated({H100.name: H100}, made, selections=[rule])
        lockfile.write(project / "pretuned.lock.json", lock)

        variables = {"PRETUNED_CACHE_DIR": str(folder / "cache"), "PRETUNED_MODE": "locked"}
        run(own_python, "-m", "pretuned", "bake", "--output", folder / "baked", cwd=project, **variables)

    folder = once("prepared", make)
    return Prepared(
        lock=folder / "project" / "pretuned.lock.json",
        cache=folder / "cache",
        package=in_folder(folder / "baked" / "src" / "minimal" / "tuned"),
    )


def named_after(binaries, planned, entry):
    """Yield the choices of a row or a selection with the digests of what was compiled for them."""
    for choice in entry.choices:
        module = planned.source(entry.specialisation, choice.configuration)
        yield replace(choice, cubin=binaries[module.key, "sm_90"].digest)


class Build:
    """One project in a folder of its own, with a user cache of its own, built by one front end."""

    def __init__(self, folder, project, variables, run):
        self.folder, self.project, self.run, self.output = folder, project, run, ""
        self.cache = folder / "cache"
        own = {"PRETUNED_CACHE_DIR": self.cache, "UV_CACHE_DIR": folder / "uv", "HATCH_DATA_DIR": folder / "hatch"}
        own |= {"HATCH_CACHE_DIR": folder / "hatch-cache", "HATCH_CONFIG": folder / "hatch.toml"}
        (folder / "hatch.toml").touch()
        self.variables = variables | {name: str(value) for name, value in own.items()}

    def __call__(self, *command, cwd=None):
        self.output += self.run(*command, cwd=cwd or self.folder, **self.variables)

    def kept(self):
        """How many measurements and how many compiled modules the user cache holds."""
        with sqlite3.connect(self.cache / FILE) as connection:
            counts = dict(connection.execute("SELECT kind, count(*) FROM entries GROUP BY kind"))
        connection.close()
        return counts.get("outcome", 0) + counts.get("record", 0), counts.get("binary", 0)

    def environment(self):
        """Make a virtual environment and return its interpreter."""
        self(sys.executable, "-m", "venv", "--without-pip", self.folder / "venv")
        return self.folder / "venv" / "bin" / "python"

    def dist(self, pattern, folder="dist"):
        (found,) = (self.folder / folder).glob(pattern)
        return found


def in_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("minimal/tuned/")]
        return {name.removeprefix("minimal/tuned/"): archive.read(name) for name in names}


def in_folder(folder):
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def in_environment(build):
    (folder,) = build.folder.glob("venv/lib/python*/site-packages/minimal/tuned")
    return in_folder(folder)


def in_sources(build):
    return in_folder(build.project / "src" / "minimal" / "tuned")


def sdist_is_whole(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix("minimal-1.0/") for name in archive.getnames()}
    assert {"kernels/scale.toml", "kernels/scale.cu.jinja", "kernels/reference.py", "pretuned.lock.json"} <= names
    assert not [name for name in names if "/tuned" in name]


def pip_wheel(build):
    build(*PIP, "wheel", "--no-deps", "--wheel-dir", "dist", build.project)
    return in_wheel(build.dist("*.whl"))


def pip_wheel_verbose(build):
    build(*PIP, "wheel", "-v", "--no-deps", "--wheel-dir", "dist", build.project)
    return in_wheel(build.dist("*.whl"))


def pip_install(build):
    build(*PIP, "--python", build.environment(), "install", build.project)
    return in_environment(build)


def pip_install_editable(build):
    build(*PIP, "--python", build.environment(), "install", "-e", build.project)
    return in_sources(build)


def pip_install_editable_strict(build):
    strict = ("--config-settings", "editable_mode=strict")
    build(*PIP, "--python", build.environment(), "install", *strict, "-e", build.project)
    (linked,) = build.project.glob("build/__editable__*/minimal/tuned")
    assert in_folder(linked) == in_sources(build)
    return in_folder(linked)


def pip_download(build):
    build(*BUILD, "--sdist", "--outdir", build.folder / "dist", build.project)
    build.output = ""
    build(*PIP, "download", "--no-deps", "--no-binary", "minimal", "--dest", "downloads", build.dist("*.tar.gz"))
    sdist_is_whole(build.dist("*.tar.gz", "downloads"))


def python_build(build):
    build(*BUILD, "--outdir", build.folder / "dist", build.project)
    sdist_is_whole(build.dist("*.tar.gz"))
    return in_wheel(build.dist("*.whl"))


def uv_build(build):
    build(*UV, "build", *PYTHON, "--out-dir", build.folder / "dist", build.project)
    sdist_is_whole(build.dist("*.tar.gz"))
    return in_wheel(build.dist("*.whl"))


def uv_pip_install(build):
    build(*UV, "pip", "install", "--python", build.environment(), build.project)
    return in_environment(build)


def uv_sync(build):
    build(*UV, "sync", *PYTHON, cwd=build.project)
    return in_sources(build)


def hatch_build(build):
    build(*HATCH, "build", build.folder / "dist", cwd=build.project)
    sdist_is_whole(build.dist("*.tar.gz"))
    return in_wheel(build.dist("*.whl"))


FRONT_ENDS = {
    "pip wheel": pip_wheel,
    "pip wheel -v": pip_wheel_verbose,
    "pip install": pip_install,
    "pip install -e": pip_install_editable,
    "pip download (sdist)": pip_download,
    "python -m build": python_build,
    "uv build": uv_build,
    "uv pip install": uv_pip_install,
    "uv sync": uv_sync,
    "hatch build": hatch_build,
}
STRICT = "pip install -e (strict)"
# Those that differ little from one that is always tried are slow.
ALWAYS = {
    "hatch": ("pip wheel -v", "pip install -e", "uv build"),
    "setuptools": (STRICT,),
}
CASES = [
    pytest.param(back_end, name, marks=() if name in always else pytest.mark.slow)
    for back_end, always in ALWAYS.items()
    for name in dict.fromkeys((*FRONT_ENDS, *always))
    if (back_end, name) != ("setuptools", "pip wheel")  # with -v it is tried
]
QUIET = ("pip wheel", "pip install", "pip download", "uv pip", "uv sync")  # show a build's output where it fails


@pytest.fixture
def build_of(prepared, minimal_for, offline, fake_driver, run, tmp_path):
    def make(back_end):
        project = minimal_for(back_end, tmp_path / "minimal")
        shutil.copyfile(prepared.lock, project / prepared.lock.name)
        shutil.copytree(prepared.cache, tmp_path / "cache")
        return Build(tmp_path, project, offline | fake_driver, run)

    return make


@pytest.mark.parametrize(("back_end", "name"), CASES)
def test_a_fresh_lock_is_baked_without_tuning_or_compiling(build_of, prepared, record_property, back_end, name):
    build = build_of(back_end)
    before = build.kept()
    package = (pip_install_editable_strict if name == STRICT else FRONT_ENDS[name])(build)
    tunings, compiles = (after - kept for after, kept in zip(build.kept(), before, strict=True))
    assert package is None or package == prepared.package
    saw = "fresh; nothing to tune" if FRESH in build.output else "-"
    baked = "metadata only" if package is None else f"{len(package)} files, as all"
    record_property(
        "figure", f"{back_end:10} {name:24} tunings {tunings}  compiles {compiles}  baked {baked:20} user saw: {saw}"
    )
    assert (tunings, compiles) == (0, 0)
    assert (FRESH in build.output) == (name == "pip wheel -v" or not name.startswith(QUIET))
    assert "warning: NVIDIA" not in build.output
    if package is not None and build.folder.joinpath("venv").exists():
        code = "import sys, minimal.tuned; assert 'pretuned' not in sys.modules; print(*minimal.tuned.__all__)"
        assert "scale" in run_in(build, code)


def run_in(build, code):
    return build.run(build.folder / "venv" / "bin" / "python", "-I", "-c", code, cwd=build.folder)


@pytest.mark.parametrize(
    ("back_end", "command"),
    [("hatch", (*PIP, "wheel", "--no-deps")), ("setuptools", (*UV, "build", *PYTHON, "--wheel"))],
    ids=["pip", "uv"],
)
def test_a_stale_lock_has_the_build_ask_for_what_tunes(build_of, back_end, command):
    """It cannot be had here, and so the build ends: which shows that the builds above did see a GPU."""
    build = build_of(back_end)
    template = build.project / "kernels" / "scale.cu.jinja"
    template.write_text(template.read_text().replace("factor * x[i]", "x[i] * factor"))
    failed = build.run(
        *command, build.project, cwd=build.folder, status=2 if command[0] == UV[0] else 1, **build.variables
    )
    assert re.search("cupy-cuda13x|nvidia-cuda-nvrtc|nvidia-cuda-runtime", failed), "whichever is looked for first"
    assert "No matching distribution found" in failed or "No solution found" in failed


ASK = """\
import sys
from {module} import get_requires_for_build_editable, get_requires_for_build_wheel
found = sorted(get_requires_for_build_wheel())
assert set(found) <= set(get_requires_for_build_editable())
print(*found, sep="\\n")
"""
BY_DRIVER = {
    "11.8": [],
    "12.2": ["cuda-toolkit[nvrtc,cudart]>=12,<12.3", "cupy-cuda12x>=14"],
    "12.9": ["cuda-toolkit[nvrtc,cudart]>=12,<12.10", "cupy-cuda12x>=14"],
    "13.0": ["cuda-toolkit[nvrtc,cudart]>=13,<13.1", "cupy-cuda13x>=14"],
    "13.1": ["cuda-toolkit[nvrtc,cudart]>=13,<13.2", "cupy-cuda13x>=14"],
    "none": ["cuda-toolkit[nvrtc,cudart]==13.0.*", "cupy-cuda13x>=14"],
}
OF_BOTH = ("12.2", "13.0", "none")  # what asks is one function


def test_what_a_build_without_a_lock_asks_for(minimal_for, own_python, fake_driver, run, tmp_path, record_property):
    for back_end, module in (("hatch", "hatchling.build"), ("setuptools", "pretuned.backend")):
        project = minimal_for(back_end, tmp_path / back_end)
        for name, expected in BY_DRIVER.items():
            if back_end == "setuptools" and name not in OF_BOTH:
                continue
            if name == "none" and probe.driver() is not None:
                continue
            driver = {} if name == "none" else {**fake_driver, "FAKE_CUDA_VERSION": name.replace(".", "0") + "0"}
            told = run(own_python, "-I", "-c", ASK.format(module=module), cwd=project, **driver).splitlines()
            asked = [line for line in told if line.startswith(("cu", "nvidia"))]
            assert asked == expected, told
            record_property(
                "figure", f"{back_end:10} driver of CUDA {name:4} asks for: {', '.join(asked) or 'nothing'}"
            )
