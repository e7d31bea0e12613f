"""A generated package beside a driver and a CuPy that are none, fresh for every test."""

import ctypes
import importlib
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import ClassVar

import pytest

import sample
from fake_cuda import FakeCuda
from fake_cupy import FakeCupy

VARIABLES = ("DEVICE", "CONFIG", "TABLE", "DEFAULTS", "STRICT", "WARN", "USAGE")


@pytest.fixture(scope="session")
def baked(tmp_path_factory):
    """The folder that holds `pkg.tuned`, the sample package."""
    folder = tmp_path_factory.mktemp("baked")
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(sample.package(), folder / "pkg" / "tuned")
    return folder


class Remembered(SourceFileLoader):
    """Loads modules whose code is read once a process: thousands of tests import the same package anew."""

    codes: ClassVar = {}

    def get_code(self, fullname):
        found = Path(self.path).stat()
        key = self.path, found.st_mtime_ns, found.st_size
        if key not in self.codes:
            self.codes[key] = super().get_code(fullname)
        return self.codes[key]


class Finder:
    """Finds the modules of `pkg` in a folder, before others are asked."""

    def __init__(self, folder):
        self.folder = str(folder)

    def find_spec(self, name, _path=None, _target=None):
        if name.partition(".")[0] != "pkg":
            return None
        place = f"{self.folder}/{name.replace('.', '/')}"
        for file, inside in ((f"{place}.py", None), (f"{place}/__init__.py", [place])):
            if os.path.isfile(file):  # noqa: PTH113 - a path object for each import takes long
                loader = Remembered(name, file)
                return spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)
        return None


@pytest.fixture
def load(monkeypatch):
    """Import `pkg.tuned` from a folder as a new process would."""

    def load(folder):
        for name in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [Finder(folder), *sys.meta_path])
        return importlib.import_module("pkg.tuned")

    yield load
    for name in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
        del sys.modules[name]


@pytest.fixture
def cuda(monkeypatch, tmp_path):
    """A driver with two H100s that records what is asked of it, and no override in the environment."""
    for name in VARIABLES:
        monkeypatch.delenv(f"PRETUNED_{name}", raising=False)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / "cache"))
    fake = FakeCuda()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: fake)
    for name in ("cuda.pathfinder", "cupy"):  # one loads libraries by ctypes too, the other asks a driver of its own
        monkeypatch.setitem(sys.modules, name, None)
    return fake


@pytest.fixture
def cupy(monkeypatch, cuda):
    """A CuPy over that driver."""
    fake = FakeCupy(cuda)
    for name, module in (("cupy", fake), ("cupy.cuda", fake.cuda), ("cupy.cuda.nvrtc", fake.cuda.nvrtc)):
        monkeypatch.setitem(sys.modules, name, module)
    return fake


@pytest.fixture
def tuned(load, baked, cupy):
    """The sample package, imported."""
    return load(baked)


@pytest.fixture
def fast_path_on():
    """Whether the fast path is on in this run of the tests."""
    return os.environ.get("PRETUNED_FAST_PATH") != "0"


@pytest.fixture
def fast_path(fast_path_on):
    """What a test asks for that asserts how the fast path works: it is skipped in a run with the fast path off."""
    if not fast_path_on:
        pytest.skip("PRETUNED_FAST_PATH=0, and this asserts how the fast path works")
