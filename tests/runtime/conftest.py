"""A generated package beside a CuPy that is none, fresh for every test."""

import importlib
import sys

import pytest

from bake import sample
from runtime.fake_cupy import FakeCupy

VARIABLES = ("DEVICE", "CONFIG", "TABLE", "DEFAULTS", "STRICT", "WARN")


@pytest.fixture(scope="session")
def baked(tmp_path_factory):
    """The folder that holds `pkg.tuned`, the sample package."""
    folder = tmp_path_factory.mktemp("baked")
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(sample.package(), folder / "pkg" / "tuned")
    return folder


@pytest.fixture
def load(monkeypatch):
    """Import `pkg.tuned` from a folder as a new process would."""

    def load(folder):
        for name in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(str(folder))
        importlib.invalidate_caches()
        return importlib.import_module("pkg.tuned")

    yield load
    for name in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
        del sys.modules[name]


@pytest.fixture
def cupy(monkeypatch):
    """A CuPy with two H100s that records what is asked of it."""
    for name in VARIABLES:
        monkeypatch.delenv(f"PRETUNED_{name}", raising=False)
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


@pytest.fixture
def tuned(load, baked, cupy):
    """The sample package, imported."""
    return load(baked)
