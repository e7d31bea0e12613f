"""Complex numbers on a GPU: tuned, which verifies both types, and called with arrays of CuPy and PyTorch."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from pretuned.cli import main

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "data" / "complex"
PYPROJECT = """
[tool.hatch.build.hooks.pretuned]
module = "complex_on_gpu/tuned"
"""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complex")
    (folder / "pyproject.toml").write_text(PYPROJECT)
    shutil.copytree(KERNELS, folder / "kernels")
    (folder / "complex_on_gpu").mkdir()
    (folder / "complex_on_gpu" / "__init__.py").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PRETUNED_CACHE_DIR", str(folder / "cache"))
        for command in ("tune", "bake"):
            with pytest.raises(SystemExit) as ended:
                main([command])
            assert ended.value.code == 0
        patch.syspath_prepend(str(folder))
        yield importlib.import_module("complex_on_gpu.tuned")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_arrays_of_cupy(tuned, dtype):
    draw = np.random.default_rng(0)
    x, z = (draw.standard_normal(2000).view(np.complex128).astype(dtype) for _ in range(2))
    for _ in range(3):  # the later ones go by the fast path
        y, size = tuned.rotate(cupy.asarray(x), cupy.asarray(z))
        assert np.allclose(cupy.asnumpy(y), x * z + z / x, rtol=1e-4)
        assert np.allclose(cupy.asnumpy(size), np.abs(x * z + z / x), rtol=1e-4)


def test_tensors(tuned):
    torch = pytest.importorskip("torch")
    x = torch.randn(1024, dtype=torch.complex64, device="cuda")
    for _ in range(3):
        y, _ = tuned.rotate(x, x)
        assert torch.allclose(y, x * x + 1, rtol=1e-4, atol=1e-4)
