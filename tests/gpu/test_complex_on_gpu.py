"""Complex numbers on a GPU: tuned, which verifies both types, and called with arrays of CuPy and PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "data" / "complex"


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_arrays_of_cupy(tuned, dtype):
    draw = np.random.default_rng(0)
    x, z = (draw.standard_normal(2000).view(np.complex128).astype(dtype) for _ in range(2))
    for _ in range(3):  # the later ones go by the fast path
        y, size = tuned.rotate(cupy.asarray(x), cupy.asarray(z))
        assert np.allclose(cupy.asnumpy(y), x * z + z / x, rtol=1e-4)
        assert np.allclose(cupy.asnumpy(size), np.abs(x * z + z / x), rtol=1e-4)


def test_a_lazy_conjugate_is_refused(tuned):
    torch = pytest.importorskip("torch")
    x = torch.randn(1024, dtype=torch.complex64, device="cuda")
    for _ in range(3):
        tuned.rotate(x, x)
        with pytest.raises(ValueError, match=r"z: expected elements as they lie in memory, .* pass z.resolve_conj"):
            tuned.rotate(x, x.conj())
        y, _ = tuned.rotate(x, x.conj().resolve_conj())
        assert torch.allclose(y, x * x.conj() + x.conj() / x, rtol=1e-4, atol=1e-4)


def test_tensors(tuned):
    torch = pytest.importorskip("torch")
    x = torch.randn(1024, dtype=torch.complex64, device="cuda")
    for _ in range(3):
        y, _ = tuned.rotate(x, x)
        assert torch.allclose(y, x * x + 1, rtol=1e-4, atol=1e-4)
