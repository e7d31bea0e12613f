"""One wheel from one source, wherever, by whomever and whenever it is built: the same bytes.

setuptools puts the umask into the modes that a wheel keeps, so there names and contents are compared.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

import pytest

from builders import H100, rows
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.spec.loader import load

FRONT_ENDS = ("hatch", "setuptools")
BUILD = "import sys; from {} import build_wheel; build_wheel(sys.argv[1])"
BACKENDS = {"hatch": "hatchling.build", "setuptools": "pretuned.backend"}
# What differs between two people's machines; each build compiles everything anew, in a cache of its own.
HERE = {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC", "HOME": "/", "PYTHONUTF8": "0"}
THERE = {"PYTHONHASHSEED": "4711", "LC_ALL": "C.UTF-8", "TZ": "Asia/Kolkata", "HOME": "/tmp", "USER": "somebody"}


@pytest.fixture(params=FRONT_ENDS)
def front_end(request):
    return request.param


@pytest.fixture
def project(front_end, minimal_for, tmp_path):
    """A project with a lock, so that rows, winners and their cubins are baked, and with a header of its own."""
    folder = minimal_for(front_end, tmp_path / "project")
    (folder / "include" / "load").mkdir(parents=True)
    (folder / "include" / "load" / "once.cuh").write_text("#pragma once\n#define ONCE(x) __ldg(&(x))\n")
    template, spec = folder / "kernels" / "scale.cu.jinja", folder / "kernels" / "scale.toml"
    template.write_text("#include <load/once.cuh>\n" + template.read_text().replace("* x[i]", "* ONCE(x[i])"))
    spec.write_text(spec.read_text() + '\n[compile]\ninclude = ["../include"]\n')
    spec = load(folder / "kernels" / "scale.toml")
    lockfile.write(folder / "pretuned.lock.json", Lock().updated({H100.name: H100}, rows(spec)))
    return folder


def copied(project, into):
    """Copy a project so that folders list their files in another order, and with other times and modes."""
    for file in sorted((file for file in project.rglob("*") if file.is_file()), reverse=True):
        target = into / file.relative_to(project)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        os.utime(target, (1_000_000_000, 1_000_000_000))
        target.chmod(0o600)
    return into


def build(front_end, project, umask, changes):
    """Build a wheel in a process of its own and return its path and the seconds that took."""
    into = project.parent / f"dist-{umask:o}"
    into.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PRETUNED_", "HATCH_", "LC_"))}
    private = {"PRETUNED_CACHE_DIR": str(into / "cache"), "CUDA_VISIBLE_DEVICES": "", "PRETUNED_MODE": "auto"}
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(BACKENDS[front_end]), str(into)],
        cwd=project,
        env=kept | private | changes,
        umask=umask,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    (wheel,) = into.glob("*.whl")
    return wheel, time.monotonic() - begin


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


@pytest.fixture
def elsewhere():
    """A folder on another file system where there is one: it lists files in another order."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        yield Path(folder) / "another place"


def test_two_builds_give_the_same_wheel(front_end, project, elsewhere, record_property):
    one, one_s = build(front_end, project, 0o022, HERE)
    two, two_s = build(front_end, copied(project, elsewhere), 0o077, THERE)
    found = contents(one)
    assert any(name.endswith(".sm_90.cubin") for name in found)
    assert contents(two) == found
    digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in (one, two)]
    if front_end == "hatch":
        assert digests[0] == digests[1]
        same = f"sha256 {digests[0][:16]} both"
    else:
        same = "names and contents"
    record_property("figure", f"byte identity, {front_end}: {same}; built in {one_s:.1f} and {two_s:.1f} s")


@pytest.mark.slow
def test_an_sdist_gives_the_same_wheel(front_end, project, elsewhere):
    (project / "dist").mkdir()
    command = [sys.executable, "-c", f"from {BACKENDS[front_end]} import build_sdist; build_sdist('dist')"]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (sdist,) = (project / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert any(name.endswith("/include/load/once.cuh") for name in archive.getnames())
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        archive.extractall(elsewhere)
    (unpacked,) = elsewhere.iterdir()
    here, there = (contents(build(front_end, folder, 0o022, HERE)[0]) for folder in (project, unpacked))
    baked = {name: digest for name, digest in here.items() if "/tuned/" in name}
    assert any("/kernels/include/once-" in name for name in baked)
    assert {name: digest for name, digest in there.items() if "/tuned/" in name} == baked


def test_source_date_epoch_is_what_files_are_dated_by(front_end, project, record_property):
    wheel, _ = build(front_end, project, 0o022, HERE | {"SOURCE_DATE_EPOCH": "1700000000"})
    with zipfile.ZipFile(wheel) as archive:
        dates = {entry.date_time for entry in archive.infolist() if "/tuned/" in entry.filename}
    assert dates == {(2023, 11, 14, 22, 13, 20)}
