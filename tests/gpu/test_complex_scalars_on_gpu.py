"""Complex numbers by value on a GPU: tuned, which verifies them, and called by every path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "data" / "complex_scalars"


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_both_parts_arrive(tuned, dtype):
    x = np.random.default_rng(0).standard_normal(2048).view(np.complex128).astype(dtype)
    there = cupy.asarray(x)
    for alpha in (1j, 1j, 1j, 1j, 2 - 3j, 2 - 3j, 0.5, 0.5, 3, -0.0):  # from the beginning, fast, packed before
        y = cupy.asnumpy(tuned.spin(there, alpha))
        assert np.allclose(y, alpha * x + (1 - 2j), rtol=1e-5)
    y = tuned.spin.bind(there, 2j, 5 + 0.25j)()
    assert np.allclose(cupy.asnumpy(y), 2j * x + (5 + 0.25j), rtol=1e-5)


def test_real_and_complex_tensors_in_turn(tuned):
    torch = pytest.importorskip("torch")
    for _ in range(4):
        for dtype, alpha in ((torch.complex64, 1.5 - 2j), (torch.float32, 1.5)):
            x = torch.randn(1024, dtype=dtype, device="cuda")
            assert torch.allclose(tuned.stretch(x, alpha), alpha * x, rtol=1e-5)
