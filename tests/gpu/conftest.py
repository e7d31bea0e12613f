"""Tests that run on a GPU; elsewhere each is skipped with the reason."""

from __future__ import annotations

import importlib
import importlib.util
import shutil

import pytest

from pretuned.cli import main
from pretuned.device import probe


def _missing() -> str:
    if not probe.gpus():
        return "no NVIDIA GPU here"
    return "" if importlib.util.find_spec("cupy") else "CuPy is not installed"


def pytest_collection_modifyitems(items):
    missing = _missing()
    for item in (item for item in items if item.get_closest_marker("gpu")):
        if missing:
            item.add_marker(pytest.mark.skip(reason=missing))
        # Whether the bundled kernels have rows for the GPU at hand, or for one like it, is not what is tested.
        item.add_marker(pytest.mark.filterwarnings("ignore:.*no row for the device"))


@pytest.fixture(scope="module")
def project(request, tmp_path_factory):
    """A project of the module's KERNELS that is tuned, which verifies every configuration, and baked on this GPU."""
    kernels = request.module.KERNELS
    package = f"{kernels.name}_on_gpu"
    folder = tmp_path_factory.mktemp(kernels.name)
    table = f'[tool.hatch.build.hooks.pretuned]\nmodule = "{package}/tuned"\n'
    (folder / "pyproject.toml").write_text(table)
    shutil.copytree(kernels, folder / "kernels")
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PRETUNED_CACHE_DIR", str(folder / "cache"))
        for command in ("tune", "bake"):
            with pytest.raises(SystemExit) as ended:
                main([command])
            assert ended.value.code == 0
        yield folder


@pytest.fixture(scope="module")
def tuned(request, project):
    """The package that was generated there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(project))
        yield importlib.import_module(f"{request.module.KERNELS.name}_on_gpu.tuned")
